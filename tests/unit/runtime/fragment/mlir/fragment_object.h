// Compiles a fragment, loads it, and calls it as a worker does.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "runtime/fragment/abi.h"
#include "runtime/fragment/blas.h"
#include "runtime/fragment/mlir/compiler.h"

namespace lockstep::fragment {

inline Answer CompileText(const std::string& text, std::vector<TensorType> types = {},
                          int64_t blas_threshold = 32768) {
  Request request;
  request.fragment = text;
  request.argument_types = std::move(types);
  request.blas_threshold = blas_threshold;
  static const Target host = HostTarget();
  return Compile(request, host);
}

// An argument or a result: memory and its shape. Bools are bytes.
struct Operand {
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;
  std::vector<int64_t> offsets;
  std::vector<int64_t> global_sizes;

  template <typename T>
  static Operand Of(std::vector<int64_t> shape, const std::vector<T>& elements) {
    Operand operand{std::move(shape), std::vector<uint8_t>(elements.size() * sizeof(T)), {}, {}};
    if (!elements.empty()) std::memcpy(operand.bytes.data(), elements.data(), operand.bytes.size());
    return operand;
  }
  template <typename T>
  std::vector<T> As() const {
    std::vector<T> elements(bytes.size() / sizeof(T));
    if (!elements.empty()) std::memcpy(elements.data(), bytes.data(), bytes.size());
    return elements;
  }
  LockstepFragmentTensor Descriptor() {
    return {bytes.data(), shape.data(), offsets.empty() ? nullptr : offsets.data(),
            global_sizes.empty() ? nullptr : global_sizes.data()};
  }
};

// The worker's side of a call: memory that is counted and bounded, and freed in the end.
struct Call {
  LockstepFragmentContext context{};
  volatile int32_t abort = 0;
  std::map<void*, uint64_t> live;
  uint64_t live_bytes = 0;
  uint64_t most_bytes = 0;
  uint64_t limit_bytes = uint64_t{1} << 30;
  int allocations = 0;
  int products = 0;
  bool abort_at_allocation = false;

  explicit Call(bool with_blas = true) {
    context.abort = &abort;
    context.caller = this;
    context.allocate = [](LockstepFragmentContext* context, uint64_t bytes) -> void* {
      auto& call = *static_cast<Call*>(context->caller);
      if (call.live_bytes + bytes > call.limit_bytes) return nullptr;
      void* const memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
      call.live[memory] = bytes;
      call.live_bytes += bytes;
      call.most_bytes = std::max(call.most_bytes, call.live_bytes);
      ++call.allocations;
      if (call.abort_at_allocation) call.abort = 1;
      return memory;
    };
    context.release = [](LockstepFragmentContext* context, void* memory) {
      auto& call = *static_cast<Call*>(context->caller);
      const auto found = call.live.find(memory);
      ASSERT_NE(found, call.live.end()) << "released twice, or never allocated";
      call.live_bytes -= found->second;
      call.live.erase(found);
      std::free(memory);
    };
    if (with_blas && FindBlas().ok()) {
      context.matmul = [](LockstepFragmentContext* context, const LockstepFragmentMatmul* matmul) {
        ++static_cast<Call*>(context->caller)->products;
        return (*FindBlas())(context, matmul);
      };
    }
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    for (const auto& [memory, bytes] : live) std::free(memory);
  }
};

class FragmentObject {
 public:
  explicit FragmentObject(const std::string& text, std::vector<TensorType> types = {},
                          int64_t blas_threshold = 32768)
      : answer_(CompileText(text, std::move(types), blas_threshold)) {
    if (answer_.failure.has_value()) {
      ADD_FAILURE() << answer_.failure->line << ":" << answer_.failure->column << ": "
                    << answer_.failure->operation << ": " << answer_.failure->message;
      return;
    }
    // Open as long as the object is loaded: the dynamic linker takes a path that it knows for the
    // library that it knows.
    fd_ = memfd_create("fragment.so", MFD_CLOEXEC);
    EXPECT_EQ(write(fd_, answer_.object.data(), answer_.object.size()),
              static_cast<ssize_t>(answer_.object.size()));
    library_ = dlopen(("/proc/self/fd/" + std::to_string(fd_)).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) ADD_FAILURE() << dlerror();
    if (library_ == nullptr) return;
    run_ = reinterpret_cast<LockstepFragmentRun>(dlsym(library_, LOCKSTEP_FRAGMENT_RUN_SYMBOL));
    sizes_ =
        reinterpret_cast<LockstepFragmentSizes>(dlsym(library_, LOCKSTEP_FRAGMENT_SIZES_SYMBOL));
  }
  FragmentObject(const FragmentObject&) = delete;
  FragmentObject& operator=(const FragmentObject&) = delete;
  ~FragmentObject() {
    if (library_ != nullptr) dlclose(library_);
    if (fd_ >= 0) close(fd_);
  }

  const Answer& answer() const { return answer_; }

  // Makes room as large as the object says, and runs. `given` are shapes of results whose sizes it
  // does not know.
  int32_t Run(Call& call, std::vector<Operand> arguments,
              std::vector<std::vector<int64_t>> given = {}) {
    if (run_ == nullptr || sizes_ == nullptr) return -1;
    std::vector<LockstepFragmentTensor> in;
    for (Operand& argument : arguments) in.push_back(argument.Descriptor());
    size_t extents = 0;
    for (const Signature::Result& result : answer_.signature.results)
      extents += result.type.extents.size();
    std::vector<int64_t> sizes(extents + 1, 4711);
    const int32_t code = sizes_(&call.context, in.data(), sizes.data());
    EXPECT_EQ(sizes[extents], 4711);
    if (code != LOCKSTEP_FRAGMENT_OK) return code;
    results.clear();
    size_t next = 0;
    for (size_t i = 0; i < answer_.signature.results.size(); ++i) {
      const Signature::Result& result = answer_.signature.results[i];
      Operand operand;
      int64_t count = 1;
      for (size_t d = 0; d < result.type.extents.size(); ++d) {
        const int64_t told = sizes[next++];
        EXPECT_EQ(told >= 0, result.sizes_known);
        operand.shape.push_back(told >= 0 ? told : given[i][d]);
        count *= operand.shape.back();
      }
      operand.bytes.assign(count * SizeOf(result.type.dtype), 0xAA);
      results.push_back(std::move(operand));
    }
    std::vector<LockstepFragmentTensor> out;
    for (Operand& result : results) out.push_back(result.Descriptor());
    return run_(&call.context, in.data(), out.data());
  }

  // Runs with arguments that must be right.
  std::vector<Operand> Results(std::vector<Operand> arguments) {
    Call call;
    EXPECT_EQ(Run(call, std::move(arguments)), LOCKSTEP_FRAGMENT_OK)
        << call.context.error.operation << " " << call.context.error.line;
    EXPECT_EQ(call.live.size(), 0u) << "not everything was released";
    return results;
  }

  std::vector<Operand> results;

 private:
  Answer answer_;
  int fd_ = -1;
  void* library_ = nullptr;
  LockstepFragmentRun run_ = nullptr;
  LockstepFragmentSizes sizes_ = nullptr;
};

// Numbers that are exact in sums, products and floats: small, of both signs, no two rows alike.
template <typename T>
std::vector<T> Numbers(int64_t count, int seed = 1) {
  std::vector<T> numbers(count);
  for (int64_t i = 0; i < count; ++i) numbers[i] = static_cast<T>((i * 7 + seed * 13) % 23 - 11);
  return numbers;
}

}  // namespace lockstep::fragment
