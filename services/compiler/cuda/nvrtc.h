// NVRTC, the compiler of CUDA C++ (https://docs.nvidia.com/cuda/nvrtc): found while the program
// runs. Nothing of CUDA is needed to build this.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace lockstep::compiler {

struct KernelSource {
  std::string text;
  std::string kernel;  // as C++ calls it
};

struct KernelImage {
  std::string bytes;
  std::string entry;  // what the kernel is called there
};

// One library; it stays loaded.
class Nvrtc {
 public:
  // `file`: what to load; empty: libnvrtc.so.13 or .12, wherever the dynamic linker finds them.
  // What it would load later is loaded now, so that it needs no file any more. kUnavailable: it is
  // not there, and what to do.
  static StatusOr<Nvrtc> Load(const std::string& file);

  // "13.0"
  const std::string& version() const { return version_; }
  // The GPUs that it compiles for: 90 is compute capability 9.0.
  const std::vector<int>& architectures() const { return architectures_; }

  // An error is one of the compiler's: kUnimplemented: it knows no GPU like that; else kInternal or
  // kResourceExhausted. `*log` is what it says of a source that it does not accept; then the image
  // is empty.
  StatusOr<KernelImage> Compile(const KernelSource& source, int architecture,
                                std::string* log) const;

 private:
  struct Functions;
  explicit Nvrtc(std::shared_ptr<const Functions> functions) : functions_(std::move(functions)) {}
  Status Check(int result, const char* call) const;

  std::shared_ptr<const Functions> functions_;
  std::string version_;
  std::vector<int> architectures_;
};

}  // namespace lockstep::compiler
