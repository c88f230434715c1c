// The tables that programs of this folder read: a row for each image, or each tumour.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/client/session.h"

namespace lockstep::examples::fragments {

// 8x8 images of handwritten digits (examples/digits/data).
struct Digits {
  HostTensor pixels;            // float64 [images, 64]: 0 (paper) to 1 (ink)
  std::vector<uint8_t> labels;  // the digit that each shows
};
StatusOr<Digits> ReadDigits();

// Measurements of tumours (data/README.md).
struct Tumours {
  // float64 [tumours, 31]: 1, and 30 measurements, each less its mean, in standard deviations.
  HostTensor measurements;
  std::vector<double> is_benign;  // 1, or 0: malignant
};
StatusOr<Tumours> ReadTumours();

}  // namespace lockstep::examples::fragments
