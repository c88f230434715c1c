// What the programs of this folder have in common: a fragment from its file, and results as
// numbers.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/client/session.h"

namespace lockstep::examples::fragments {

using fragment::Combine;
using fragment::Fragment;
using fragment::Split;

// examples/fragments/NAME
StatusOr<Fragment> ReadFragment(const std::string& name);

// A result, combined, back in the client's memory.
template <typename T = double>
StatusOr<std::vector<T>> Collect(Session& session, const DRef& result) {
  LOCKSTEP_ASSIGN_OR_RETURN(const HostTensor tensor, session.Collect(result));
  return tensor.Elements<T>();
}

// A vector, and a tensor without dimensions.
template <typename T>
HostTensor Vector(const std::vector<T>& elements) {
  return HostTensor::Of<T>({static_cast<int64_t>(elements.size())}, elements);
}
inline HostTensor Number(double value) { return HostTensor::Of<double>({}, {value}); }

}  // namespace lockstep::examples::fragments
