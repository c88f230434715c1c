// What tests of modules share: where the modules are, and memory for their tensors.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>

#include "runtime/base/shared_segment.h"
#include "runtime/base/status.h"
#include "runtime/tensor/arena.h"

namespace lockstep::module {

// Where Bazel puts the modules; the files there are links, so the real directory is asked for.
inline std::string ModuleDirectory() {
  const std::filesystem::path runfiles = std::string(std::getenv("TEST_SRCDIR")) + "/" +
                                         std::getenv("TEST_WORKSPACE") +
                                         "/tests/unit/runtime/module/testdata";
  return std::filesystem::canonical(runfiles / "test_module.so").parent_path();
}

inline StatusOr<std::shared_ptr<tensor::Arena>> NewArena() {
  static int count = 0;
  return tensor::Arena::Create({.name = SharedSegment::kNamePrefix + std::string("module-test-") +
                                        std::to_string(std::random_device()()) + "-" +
                                        std::to_string(count++),
                                .capacity_bytes = size_t{64} << 20});
}

}  // namespace lockstep::module
