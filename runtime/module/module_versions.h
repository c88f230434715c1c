// The module files that this process has loaded, and what becomes of a file that has changed since.
//
// A module may be rebuilt while workers run. The dynamic linker would go on with the old library
// without a word, because it knows libraries by their paths; so it is told another spelling of the
// path for a file that is another one now. What is loaded stays loaded: functions of the old
// version work on for those who have them.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace lockstep::module {

// An open library, and the spelling of its path that dlopen() knows it by.
struct OpenedLibrary {
  void* handle = nullptr;
  std::string name;
};

// Opens the library `file`, an absolute path, for good.
//
// A file that was replaced (another inode has other content) is loaded beside the versions of it
// that are loaded. kFailedPrecondition, with what to do, where that would not be safe: a loaded
// version has registered functions or types with tvm-ffi for the whole process, or shares variables
// with the new one (shared_data.h); or the loaded file itself was written to: its code may be
// anything now. kInvalidArgument: the dynamic linker's reason.
//
// Threads: safe. One set of libraries for the process, as the dynamic linker has.
StatusOr<OpenedLibrary> OpenLibrary(const std::string& file);

}  // namespace lockstep::module
