#include <algorithm>
#include <cstring>
#include <type_traits>

#include "runtime/tensor/element.h"
#include "runtime/tensor/processor.h"

namespace lockstep::tensor {
namespace {

class HostProcessor final : public Processor {
 public:
  explicit HostProcessor(Allocator& allocator) : allocator_(allocator) {}

  Device device() const override { return Device{}; }
  Allocator& allocator() override { return allocator_; }

  Status Fill(Buffer out, uint64_t pattern) override {
    switch (SizeOf(out.dtype)) {
      case 1:
        return FillAs<uint8_t>(out, pattern);
      case 2:
        return FillAs<uint16_t>(out, pattern);
      case 4:
        return FillAs<uint32_t>(out, pattern);
      default:
        return FillAs<uint64_t>(out, pattern);
    }
  }

  Status Arange(const Tensor& out, const Steps& steps) override {
    VisitDType(out.dtype(), [&]<typename T>(std::type_identity<T>) {
      T* const elements = out.data_as<T>();
      for (int64_t i = 0; i < out.NumElements(); ++i) {
        elements[i] = steps.At<T>(static_cast<uint64_t>(i));
      }
    });
    return OkStatus();
  }

  Status Cast(const Tensor& from, const Tensor& to) override {
    CastElements(from.buffer(), to.buffer());
    return OkStatus();
  }

  Status CopyRows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t row_bytes,
                  size_t rows) override {
    if (row_bytes == 0) return OkStatus();
    auto* write = static_cast<std::byte*>(to);
    const auto* read = static_cast<const std::byte*>(from);
    for (size_t row = 0; row < rows; ++row) {
      std::memmove(write + row * to_pitch, read + row * from_pitch, row_bytes);
    }
    return OkStatus();
  }

  Status FromHost(void* to, const void* from, size_t size_bytes) override {
    return CopyRows(to, 0, from, 0, size_bytes, 1);
  }
  Status ToHost(void* to, const void* from, size_t size_bytes) override {
    return CopyRows(to, 0, from, 0, size_bytes, 1);
  }

 private:
  template <typename Word>
  static Status FillAs(Buffer out, uint64_t pattern) {
    std::fill_n(static_cast<Word*>(out.data), out.count, static_cast<Word>(pattern));
    return OkStatus();
  }

  Allocator& allocator_;
};

}  // namespace

std::unique_ptr<Processor> NewHostProcessor(Allocator& allocator) {
  return std::make_unique<HostProcessor>(allocator);
}

StatusOr<Tensor> MoveTo(Processor& to, Processor& of, const Tensor& tensor) {
  if (tensor.device().type == to.device().type) return tensor;
  LOCKSTEP_ASSIGN_OR_RETURN(Tensor moved,
                            Tensor::Empty(to.allocator(), tensor.dtype(), tensor.shape()));
  // One of the two is the host's.
  const bool from_host = of.device().type == DeviceType::kCpu;
  LOCKSTEP_RETURN_IF_ERROR(from_host ? to.FromHost(moved.data(), tensor.data(), tensor.size_bytes())
                                     : of.ToHost(moved.data(), tensor.data(), tensor.size_bytes()));
  return moved;
}

}  // namespace lockstep::tensor
