#include "runtime/fragment/kernel_numbers.h"

#include <cstring>

namespace lockstep::fragment {
namespace {

int64_t ReadInteger(DType dtype, const void* data) {
  if (dtype == DType::kInt64) {
    int64_t value = 0;
    std::memcpy(&value, data, sizeof value);
    return value;
  }
  int32_t value = 0;
  std::memcpy(&value, data, sizeof value);
  return value;
}

}  // namespace

StatusOr<KernelNumbers> KernelNumbers::Of(const KernelSignature& signature,
                                          absl::Span<const LockstepFragmentTensor> arguments) {
  KernelNumbers numbers(signature);
  for (size_t i = 0; i < signature.arguments.size(); ++i) {
    const KernelSignature::Argument& argument = signature.arguments[i];
    if (argument.number >= 0) {
      const DType dtype = signature.signature.arguments[i].type.dtype;
      LOCKSTEP_RETURN_IF_ERROR(numbers.Set(argument.number, ReadInteger(dtype, arguments[i].data),
                                           "`" + argument.name + "`"));
    }
    for (size_t d = 0; d < argument.dimensions.size(); ++d) {
      const KernelSignature::Dimension& dimension = argument.dimensions[d];
      const auto set = [&](int number, const int64_t* values, const char* what) {
        if (number < 0) return OkStatus();
        return numbers.Set(number, values[d],
                           what + std::to_string(d) + " of `" + argument.name + "`");
      };
      LOCKSTEP_RETURN_IF_ERROR(set(dimension.extent.number, arguments[i].sizes, "dimension "));
      LOCKSTEP_RETURN_IF_ERROR(
          set(dimension.offset, arguments[i].offsets, "the offset of dimension "));
      LOCKSTEP_RETURN_IF_ERROR(
          set(dimension.whole, arguments[i].global_sizes, "the whole of dimension "));
    }
  }
  return numbers;
}

Status KernelNumbers::Learn(absl::Span<const LockstepFragmentTensor> results) {
  for (size_t i = 0; i < signature_.results.size(); ++i) {
    const KernelSignature::Result& result = signature_.results[i];
    for (size_t d = 0; d < result.extents.size(); ++d) {
      const std::string what = "dimension " + std::to_string(d) + " of `" + result.name + "`";
      if (result.extents[d].number < 0) continue;
      LOCKSTEP_RETURN_IF_ERROR(Set(result.extents[d].number, results[i].sizes[d], what));
    }
  }
  return OkStatus();
}

StatusOr<std::vector<int64_t>> KernelNumbers::ResultExtents(int result) const {
  const KernelSignature::Result& wanted = signature_.results[static_cast<size_t>(result)];
  std::vector<int64_t> extents;
  for (const KernelSignature::Extent& extent : wanted.extents) {
    extents.push_back(ValueOf(extent).value_or(kOpen));
    if (ValueOf(extent).has_value() && extents.back() < 0) {
      return InvalidArgument("`", signature_.numbers[static_cast<size_t>(extent.number)].name,
                             "`, an extent of `", wanted.name, "`, is ", extents.back());
    }
  }
  return extents;
}

StatusOr<uint64_t> KernelNumbers::Threads() const {
  int64_t threads = 1;
  const auto& of =
      signature_.threads.empty() ? signature_.results.front().extents : signature_.threads;
  for (const KernelSignature::Extent& extent : of) {
    const int64_t count = ValueOf(extent).value_or(kOpen);
    if (count < 0 || __builtin_mul_overflow(threads, count, &threads)) {
      return InvalidArgument("`", signature_.signature.function, "` cannot be run by ", threads,
                             " * ", count, " threads");
    }
  }
  return static_cast<uint64_t>(threads);
}

Status KernelNumbers::Set(int number, int64_t value, const std::string& what) {
  std::optional<int64_t>& known = values_[static_cast<size_t>(number)];
  if (!known.has_value()) known = value;
  if (known == value) return OkStatus();
  return InvalidArgument("`", signature_.numbers[static_cast<size_t>(number)].name, "` of `",
                         signature_.signature.function, "` is ", *known, ", and ", what, " is ",
                         value);
}

}  // namespace lockstep::fragment
