// Who goes first when there are more threads than processors.
#pragma once

namespace lockstep {

// The calling thread, and those that it starts from now on, give way to threads that somebody waits
// for. They still get about a tenth of a processor that others want whole, and all of an idle one.
void GiveWay();

}  // namespace lockstep
