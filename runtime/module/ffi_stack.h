// The part of an error's stack that its reader can do something about.
#pragma once

#include <string>

namespace lockstep::module {

// `stack` as tvm-ffi gives it, the innermost frame first, a line each, without what lies around a
// module's own frames: below them the worker's, which are those of `here`, a stack of the same form
// that was taken by a function which the caller of the module's function called; above them what
// allocates tensors for modules; between them the kit's. A stack of another form, a Python
// traceback, stays as it is.
std::string OwnFrames(const std::string& stack, const std::string& here);

}  // namespace lockstep::module
