#include "runtime/module/ffi_tensor.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "runtime/module/ffi_object.h"
#include "tvm/ffi/extra/c_env_api.h"

namespace lockstep::module {
namespace {

using tensor::Tensor;

DLDevice ToDLPack(Device device) { return {static_cast<DLDeviceType>(device.type), device.index}; }

// What DLPack calls a managed tensor; it owns itself until its deleter is called.
struct Managed {
  explicit Managed(Tensor t) : tensor(std::move(t)) {
    dlpack.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    dlpack.manager_ctx = this;
    dlpack.deleter = [](DLManagedTensorVersioned* self) {
      delete static_cast<Managed*>(self->manager_ctx);
    };
    dlpack.dl_tensor = *tensor.dl();
  }

  const Tensor tensor;
  DLManagedTensorVersioned dlpack{};
};

thread_local const FfiEnvironment* current = nullptr;

StatusOr<Tensor> AllocateLike(const DLTensor& prototype) {
  if (current == nullptr) {
    return FailedPrecondition("a module allocates tensors only during a call");
  }
  const CallContext& context = current->context();
  LOCKSTEP_ASSIGN_OR_RETURN(const DType dtype, tensor::FromDLPack(prototype.dtype));
  const Shape shape(
      absl::Span<const int64_t>(prototype.shape, static_cast<size_t>(prototype.ndim)));
  for (tensor::Processor* place : {context.host, context.gpu}) {
    if (place == nullptr) continue;
    const DLDevice device = ToDLPack(place->device());
    if (prototype.device.device_type == device.device_type &&
        prototype.device.device_id == device.device_id) {
      return Tensor::Empty(place->allocator(), dtype, shape);
    }
  }
  const std::string gpu =
      context.gpu != nullptr ? " and " + ToString(context.gpu->device()) : std::string();
  return InvalidArgument("this worker's tensors are on ", ToString(context.host->device()), gpu,
                         ", not on DLPack's device type ", prototype.device.device_type, " index ",
                         prototype.device.device_id);
}

// A DLPackManagedTensorAllocator.
int AllocateForModule(DLTensor* prototype, DLManagedTensorVersioned** out, void* error_context,
                      void (*set_error)(void*, const char*, const char*)) {
  StatusOr<Tensor> tensor = AllocateLike(*prototype);
  if (!tensor.ok()) {
    set_error(error_context, FfiKindOf(tensor.status()), Message(tensor.status()).c_str());
    return -1;
  }
  *out = &(new Managed(*std::move(tensor)))->dlpack;
  return 0;
}

class FfiStorage final : public tensor::Storage {
 public:
  FfiStorage(FfiRef object, void* data, size_t size_bytes, Device device)
      : Storage(data, size_bytes, device), object_(std::move(object)) {}

 private:
  const FfiRef object_;
};

bool IsDense(const DLTensor& dl) {
  if (dl.strides == nullptr) return true;
  int64_t stride = 1;
  for (int axis = dl.ndim - 1; axis >= 0; --axis) {
    if (dl.shape[axis] == 0) return true;  // no elements, no order
    if (dl.shape[axis] != 1 && dl.strides[axis] != stride) return false;
    stride *= dl.shape[axis];
  }
  return true;
}

}  // namespace

StatusOr<FfiRef> ToFfiTensor(const Tensor& tensor) {
  auto managed = std::make_unique<Managed>(tensor);
  TVMFFIObjectHandle handle = nullptr;
  LOCKSTEP_RETURN_IF_ERROR(CheckFfi(TVMFFITensorFromDLPackVersioned(
      &managed->dlpack, /*require_alignment=*/0, /*require_contiguous=*/0, &handle)));
  static_cast<void>(managed.release());  // the object's now
  return FfiRef::Adopt(handle);
}

StatusOr<Tensor> FromFfiTensor(FfiRef object) {
  const DLTensor& dl = *TVMFFITensorGetDLTensorPtr(object.get());
  LOCKSTEP_ASSIGN_OR_RETURN(const DType dtype, tensor::FromDLPack(dl.dtype));
  if (dl.device.device_type != kDLCPU && dl.device.device_type != kDLCUDA) {
    return InvalidArgument("a tensor on DLPack's device type ", dl.device.device_type,
                           " cannot be held; cpu and cuda can");
  }
  const Shape shape(absl::Span<const int64_t>(dl.shape, static_cast<size_t>(dl.ndim)));
  LOCKSTEP_RETURN_IF_ERROR(shape.Validate(SizeOf(dtype)));
  if (!IsDense(dl)) {
    return InvalidArgument("a tensor ", shape, " that is not dense and row-major cannot be held; ",
                           "make it contiguous first");
  }
  void* data = static_cast<std::byte*>(dl.data) + dl.byte_offset;
  const size_t size_bytes = static_cast<size_t>(shape.NumElements()) * SizeOf(dtype);
  const Device device{static_cast<DeviceType>(dl.device.device_type), dl.device.device_id};
  auto storage = std::make_shared<FfiStorage>(std::move(object), data, size_bytes, device);
  return Tensor::FromStorage(std::move(storage), 0, dtype, shape);
}

FfiEnvironment::FfiEnvironment(const CallContext& context, const FfiArguments& arguments)
    : context_(context), arguments_(arguments), previous_(std::exchange(current, this)) {
  thread_local const int installed = TVMFFIEnvSetDLPackManagedTensorAllocator(
      AllocateForModule, /*write_to_global_context=*/0, /*opt_out_original_allocator=*/nullptr);
  (void)installed;  // it only stores a pointer
  if (context.gpu != nullptr) {
    (void)TVMFFIEnvSetStream(kDLCUDA, context.gpu->device().index, context.gpu_stream,
                             &previous_stream_);
  }
}

const FfiEnvironment* FfiEnvironment::Current() { return current; }

FfiEnvironment::~FfiEnvironment() {
  current = previous_;
  if (context_.gpu != nullptr) {
    (void)TVMFFIEnvSetStream(kDLCUDA, context_.gpu->device().index, previous_stream_,
                             /*opt_out_original_stream=*/nullptr);
  }
}

using tensor::Tensor;

StatusOr<DLTensor*> LentCopies::LendCopy(const Tensor& tensor, tensor::Allocator& allocator) {
  for (const Copy& known : copies_) {
    const Tensor& original = known.original;
    if (original.data() == tensor.data() && original.dtype() == tensor.dtype() &&
        original.shape() == tensor.shape()) {
      return known.copy.dl();  // one memory stays one memory
    }
  }
  LOCKSTEP_ASSIGN_OR_RETURN(Tensor copy, Tensor::Empty(allocator, tensor.dtype(), tensor.shape()));
  std::unique_ptr<std::byte[]> before(new std::byte[tensor.size_bytes()]);
  std::memcpy(copy.data(), tensor.data(), tensor.size_bytes());
  std::memcpy(before.get(), tensor.data(), tensor.size_bytes());
  return copies_.emplace_front(Copy{tensor, std::move(copy), std::move(before)}).copy.dl();
}

void LentCopies::BringBack() const {
  constexpr size_t kStep = 256;
  for (const Copy& lent : copies_) {
    auto* original = lent.original.data_as<std::byte>();
    const auto* copy = lent.copy.data_as<std::byte>();
    const std::byte* before = lent.before.get();
    const size_t size = lent.original.size_bytes();
    for (size_t begin = 0; begin < size; begin += kStep) {
      const size_t end = std::min(begin + kStep, size);
      if (std::memcmp(copy + begin, before + begin, end - begin) == 0) continue;
      for (size_t i = begin; i < end; ++i) {
        if (copy[i] != before[i]) original[i] = copy[i];
      }
    }
  }
}

const Tensor* LentCopies::OriginalOf(const void* dl) const {
  for (const Copy& lent : copies_) {
    if (lent.copy.dl() == dl) return &lent.original;
  }
  return nullptr;
}

}  // namespace lockstep::module
