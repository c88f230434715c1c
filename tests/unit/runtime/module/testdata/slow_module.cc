// A library whose constructors take a while, with the dynamic linker's lock held.
#include <chrono>
#include <thread>

namespace {

[[maybe_unused]] const bool has_slept = [] {
  std::this_thread::sleep_for(std::chrono::seconds(4));
  return true;
}();

}  // namespace
