// Holds a stream of a fake GPU up.
#pragma once

#include <future>

#include "tests/fakes/cuda/fake_cuda.h"

namespace lockstep::fake_cuda {

// Work in a stream that is not done before Open(). Outlives the stream's coming to it.
class Gate {
 public:
  // `stream` is a CUstream.
  explicit Gate(void* stream) { fake_cuda_enqueue(stream, Wait, this); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void Open() { opened_.set_value(); }

 private:
  static void Wait(void* gate) { static_cast<Gate*>(gate)->opened_.get_future().wait(); }

  std::promise<void> opened_;
};

}  // namespace lockstep::fake_cuda
