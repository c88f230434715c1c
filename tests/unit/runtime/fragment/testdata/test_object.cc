// What a compiler could have made of sum(i64, tensor<?xf64>) -> tensor<?xf64>: the sum, or what the
// first argument asks for.
#include <stdint.h>

#include "runtime/fragment/abi.h"

namespace {

// Tests write another number over this one, which makes another object.
extern "C" __attribute__((visibility("default"))) const volatile int64_t kVariant =
    0x4b4c5f544e414952;

enum Mode : int64_t {
  kSum = 0,
  kDivideByZero = 1,
  kUntilAborted = 2,
  kAllocate = 3,  // as many bytes as there are elements, and leaves them behind
  kUnknownCode = 4,
  kVariantNumber = 5,
  kAllocateAndRelease = 6,  // the same, ten times
  kDouble = 7,              // twice each element
  kPlaces = 8,              // where each element lies in the whole tensor
  kThreads = 9,             // whether it has threads; each element allocates on one of them
  // From here on: a result of so many elements, of which the last is written.
  kManyElements = 1'000'000,
};

int32_t Fail(LockstepFragmentContext* context, const char* operation, int32_t code) {
  context->error = {operation, 3, 10};
  return code;
}

int32_t AllocateForEach(LockstepFragmentContext* context, const void* /*frame*/, int64_t begin,
                        int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    void* const memory = context->allocate(context, 1);
    if (memory == nullptr) return Fail(context, "tensor.empty", LOCKSTEP_FRAGMENT_OUT_OF_MEMORY);
    context->release(context, memory);
  }
  return LOCKSTEP_FRAGMENT_OK;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int32_t lockstep_fragment_run_2(
    LockstepFragmentContext* context, const LockstepFragmentTensor* arguments,
    const LockstepFragmentTensor* results) {
  const auto* const values = static_cast<const double*>(arguments[1].data);
  const int64_t count = arguments[1].sizes[0];
  auto* const result = static_cast<double*>(results[0].data);
  switch (*static_cast<const int64_t*>(arguments[0].data)) {
    case kDivideByZero:
      return Fail(context, "arith.divsi", LOCKSTEP_FRAGMENT_DIVIDED_BY_ZERO);
    case kUntilAborted:
      while (__atomic_load_n(context->abort, __ATOMIC_RELAXED) == 0) {
      }
      return Fail(context, "scf.while", LOCKSTEP_FRAGMENT_ABORTED);
    case kAllocate: {
      auto* const memory = static_cast<char*>(context->allocate(context, count));
      if (memory == nullptr) {
        return Fail(context, "tensor.empty", LOCKSTEP_FRAGMENT_OUT_OF_MEMORY);
      }
      memory[count - 1] = 1;
      *result = static_cast<double>(reinterpret_cast<uintptr_t>(memory) % 64);
      return LOCKSTEP_FRAGMENT_OK;
    }
    case kAllocateAndRelease:
      for (int i = 0; i < 10; ++i) {
        void* const memory = context->allocate(context, count);
        if (memory == nullptr) {
          return Fail(context, "tensor.empty", LOCKSTEP_FRAGMENT_OUT_OF_MEMORY);
        }
        context->release(context, memory);
      }
      return LOCKSTEP_FRAGMENT_OK;
    case kUnknownCode:
      return 99;
    case kVariantNumber:
      *result = static_cast<double>(kVariant);
      return LOCKSTEP_FRAGMENT_OK;
    case kThreads:
      *result = context->parallel != nullptr ? 1 : 0;
      return context->parallel != nullptr
                 ? context->parallel(context, &AllocateForEach, nullptr, count, 1)
                 : AllocateForEach(context, nullptr, 0, count);
    case kDouble:
      for (int64_t i = 0; i < count; ++i) result[i] = 2 * values[i];
      return LOCKSTEP_FRAGMENT_OK;
    case kPlaces:
      for (int64_t i = 0; i < count; ++i) {
        result[i] = static_cast<double>(arguments[1].offsets[0] + i);
      }
      return LOCKSTEP_FRAGMENT_OK;
    default:
      if (const int64_t many = *static_cast<const int64_t*>(arguments[0].data);
          many >= kManyElements) {
        result[many - 1] = 1;
        return LOCKSTEP_FRAGMENT_OK;
      }
      *result = 0;
      for (int64_t i = 0; i < count; ++i) *result += values[i];
      return LOCKSTEP_FRAGMENT_OK;
  }
}

extern "C" __attribute__((visibility("default"))) int32_t lockstep_fragment_sizes_2(
    LockstepFragmentContext* context, const LockstepFragmentTensor* arguments, int64_t* sizes) {
  switch (*static_cast<const int64_t*>(arguments[0].data)) {
    case kDivideByZero:
      return Fail(context, "arith.divsi", LOCKSTEP_FRAGMENT_DIVIDED_BY_ZERO);
    case kAllocate:  // what is allocated is known when it runs
      sizes[0] = -1;
      return LOCKSTEP_FRAGMENT_OK;
    case kDouble:
    case kPlaces:
      sizes[0] = arguments[1].sizes[0];
      return LOCKSTEP_FRAGMENT_OK;
    default:
      sizes[0] = 1;
      if (const int64_t many = *static_cast<const int64_t*>(arguments[0].data);
          many >= kManyElements) {
        sizes[0] = many;
      }
      return LOCKSTEP_FRAGMENT_OK;
  }
}
