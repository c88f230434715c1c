// The images that the network learns from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "examples/digits/mlp.h"
#include "runtime/base/status.h"

namespace lockstep::examples::digits {

struct Dataset {
  std::vector<uint8_t> images;  // [size()][kPixels]
  std::vector<uint8_t> labels;  // [size()]

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
};

// Reads lines of 64 pixels and a label, separated by commas (data/README.md). kNotFound: cannot be
// opened. kInvalidArgument names file, line and what is wrong.
StatusOr<Dataset> LoadDataset(const std::string& path);

struct Split {
  Dataset training;
  Dataset held_out;
};

// Holds every fifth image out, whatever the seed: accuracies of different runs can be compared.
Split HoldOutEveryFifth(const Dataset& dataset);

}  // namespace lockstep::examples::digits
