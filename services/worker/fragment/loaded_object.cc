#include "services/worker/fragment/loaded_object.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "runtime/base/files.h"
#include "runtime/base/quantity.h"

namespace lockstep::worker {
namespace {

// linux/memfd.h of Linux 6.3, which is younger than the headers of the distributions: without it,
// newer kernels may be set up to refuse what is to be executed.
constexpr unsigned kExecutable = 0x0010;

// Whose contents nobody changes any more. -1, with errno.
int SealedMemory(const std::string& name, const std::vector<std::byte>& bytes) {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int fd = memfd_create(name.c_str(), kFlags | kExecutable);
  if (fd < 0 && errno == EINVAL) fd = memfd_create(name.c_str(), kFlags);
  if (fd < 0) return -1;
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = write(fd, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    done += static_cast<size_t>(count);
  }
  if (done < bytes.size() ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

// A call under way, and the memory that it has. The fragment knows it as `caller` of its context.
class Call {
 public:
  explicit Call(const CallResources& resources) : resources_(resources) {
    context_.abort = resources.abort != nullptr ? resources.abort : &kNever;
    context_.allocate = &Allocate;
    context_.release = &Release;
    context_.matmul = resources.matmul;
    context_.caller = this;
    if (resources.threads != nullptr) resources.threads->ServeLoopsOf(context_);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  LockstepFragmentContext* context() { return &context_; }

  // What the code means that an entry has returned.
  Status StatusOf(int32_t code, const std::string& function) const {
    switch (code) {
      case LOCKSTEP_FRAGMENT_OK:
        return OkStatus();
      case LOCKSTEP_FRAGMENT_ABORTED:
        return Aborted("`", function, "` was stopped", Place());
      case LOCKSTEP_FRAGMENT_DIVIDED_BY_ZERO:
        return InvalidArgument("`", function, "` divided an integer by zero", Place());
      case LOCKSTEP_FRAGMENT_DIVISION_OVERFLOW:
        return InvalidArgument("`", function, "` divided the least integer by -1", Place());
      case LOCKSTEP_FRAGMENT_OUT_OF_MEMORY:
        return ResourceExhausted("`", function, "` wants ", RoundedSize(refused_bytes_),
                                 " of memory and has ", RoundedSize(live_bytes_), " of the ",
                                 RoundedSize(resources_.most_bytes), " that a call may have",
                                 why_refused_.empty() ? "" : ": ", why_refused_, Place());
      case LOCKSTEP_FRAGMENT_OUT_OF_BOUNDS:
        return OutOfRange("`", function, "` reached beyond a tensor, or its operands differ in ",
                          "size", Place());
      case LOCKSTEP_FRAGMENT_RESULT_SIZE:
        return InvalidArgument("`", function, "` has made a result of another size than was ",
                               "expected", Place());
      case LOCKSTEP_FRAGMENT_NEGATIVE_SIZE:
        return InvalidArgument("`", function, "` made a tensor of negative size", Place());
      default:
        return Internal("`", function, "` ended with the unknown code ", code, Place());
    }
  }

 private:
  static constexpr int32_t kNever = 0;

  static void* Allocate(LockstepFragmentContext* context, uint64_t bytes) {
    return static_cast<Call*>(context->caller)->AllocateBlock(bytes);
  }
  static void Release(LockstepFragmentContext* context, void* memory) {
    static_cast<Call*>(context->caller)->ReleaseBlock(memory);
  }

  void* AllocateBlock(uint64_t bytes) {
    if (bytes > resources_.most_bytes - live_bytes_) return Refuse(bytes, "");
    auto block = resources_.memory.Allocate(bytes);
    if (!block.ok()) return Refuse(bytes, Message(block.status()));
    live_bytes_ += bytes;
    void* const data = (*block)->data();
    blocks_.emplace(data, Block{*std::move(block), bytes});
    return data;
  }
  void* Refuse(uint64_t bytes, std::string why) {
    refused_bytes_ = bytes;
    why_refused_ = std::move(why);
    return nullptr;
  }
  void ReleaseBlock(void* memory) {
    const auto block = blocks_.find(memory);
    if (block == blocks_.end()) return;
    live_bytes_ -= block->second.bytes;
    blocks_.erase(block);
  }

  // " (arith.divsi at line 3, column 10)"
  std::string Place() const {
    const LockstepFragmentError& error = context_.error;
    std::ostringstream text;
    if (error.operation != nullptr) {
      constexpr size_t kMostBytes = 128;
      text << std::string_view(error.operation, strnlen(error.operation, kMostBytes));
    }
    if (error.line != 0) {
      text << (error.operation != nullptr ? " at " : "") << "line " << error.line << ", column "
           << error.column;
    }
    return text.str().empty() ? "" : " (" + text.str() + ")";
  }

  struct Block {
    std::shared_ptr<tensor::Storage> storage;
    uint64_t bytes = 0;
  };

  const CallResources& resources_;
  LockstepFragmentContext context_{};
  std::unordered_map<void*, Block> blocks_;
  size_t live_bytes_ = 0;
  uint64_t refused_bytes_ = 0;
  std::string why_refused_;
};

Status CheckCount(const char* what, int wanted, size_t given, const std::string& function) {
  if (static_cast<size_t>(wanted) == given) return OkStatus();
  return Internal("`", function, "` has ", wanted, " ", what, ", and is called with ", given);
}

class SharedObject final : public LoadedObject {
 public:
  SharedObject(const fragment::Compiled& compiled, int fd, void* handle)
      : LoadedObject(compiled),
        fd_(fd),
        handle_(handle),
        run_(reinterpret_cast<LockstepFragmentRun>(dlsym(handle, LOCKSTEP_FRAGMENT_RUN_SYMBOL))),
        sizes_(reinterpret_cast<LockstepFragmentSizes>(
            dlsym(handle, LOCKSTEP_FRAGMENT_SIZES_SYMBOL))) {}
  ~SharedObject() override {
    dlclose(handle_);
    close(fd_);
  }

  bool has_entries() const { return run_ != nullptr && sizes_ != nullptr; }
  bool computes_on_device() const override { return false; }

 private:
  Status TellSizes(absl::Span<const LockstepFragmentTensor> arguments,
                   const CallResources& resources, std::vector<int64_t>* extents) const override {
    Call call(resources);
    const int32_t code = sizes_(call.context(), arguments.data(), extents->data());
    return call.StatusOf(code, signature().function);
  }
  Status Compute(absl::Span<const LockstepFragmentTensor> arguments,
                 absl::Span<const LockstepFragmentTensor> results,
                 const CallResources& resources) const override {
    Call call(resources);
    const int32_t code = run_(call.context(), arguments.data(), results.data());
    return call.StatusOf(code, signature().function);
  }

  const int fd_;
  void* const handle_;
  const LockstepFragmentRun run_;
  const LockstepFragmentSizes sizes_;
};

}  // namespace

StatusOr<std::shared_ptr<const LoadedObject>> LoadedObject::Load(
    const fragment::Compiled& compiled) {
  const std::string& function = compiled.signature.function;
  constexpr size_t kMostNameBytes = 200;  // of the kernel's 249
  const int fd =
      SealedMemory("lockstep-fragment:" + function.substr(0, kMostNameBytes), compiled.object);
  if (fd < 0) {
    return ResourceExhausted("no memory to load `", function, "` into: ", std::strerror(errno));
  }
  // The descriptor stays open as long as this is loaded. The dynamic linker takes equal paths for
  // the same library, and a descriptor that is closed gives its number, so its path, to the next.
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = dlerror();
    close(fd);
    return Internal("`", function, "` cannot be loaded: ", why != nullptr ? why : "unknown reason");
  }
  auto object = std::make_shared<const SharedObject>(compiled, fd, handle);
  if (!object->has_entries()) {
    return Internal("`", function, "` was not compiled for version ", LOCKSTEP_FRAGMENT_ABI_VERSION,
                    " of the ABI: it has no ", LOCKSTEP_FRAGMENT_RUN_SYMBOL, " or no ",
                    LOCKSTEP_FRAGMENT_SIZES_SYMBOL);
  }
  return std::shared_ptr<const LoadedObject>(std::move(object));
}

StatusOr<std::vector<std::optional<Shape>>> LoadedObject::ResultShapes(
    absl::Span<const LockstepFragmentTensor> arguments, const CallResources& resources) const {
  const std::string& function = signature_.function;
  LOCKSTEP_RETURN_IF_ERROR(
      CheckCount("arguments", signature_.num_arguments(), arguments.size(), function));
  size_t count = 0;
  for (const auto& result : signature_.results) count += result.type.extents.size();
  std::vector<int64_t> extents(count, fragment::kOpen);
  LOCKSTEP_RETURN_IF_ERROR(TellSizes(arguments, resources, &extents));
  std::vector<std::optional<Shape>> shapes;
  auto at = extents.begin();
  for (size_t i = 0; i < signature_.results.size(); ++i) {
    const fragment::TensorType& type = signature_.results[i].type;
    Shape shape(absl::MakeConstSpan(extents).subspan(static_cast<size_t>(at - extents.begin()),
                                                     type.extents.size()));
    at += type.ndim();
    const auto dims = shape.dims();
    const bool is_open = std::find(dims.begin(), dims.end(), fragment::kOpen) != dims.end();
    // Of one whose size is known, -1 is what was computed, and refused like any other such number.
    if (is_open && !signature_.results[i].sizes_known) {
      shapes.emplace_back(std::nullopt);
      continue;
    }
    LOCKSTEP_RETURN_IF_ERROR(Annotate(shape.Validate(SizeOf(type.dtype)),
                                      "result " + std::to_string(i) + " of `" + function + "`"));
    shapes.emplace_back(std::move(shape));
  }
  return shapes;
}

Status LoadedObject::Run(absl::Span<const LockstepFragmentTensor> arguments,
                         absl::Span<const LockstepFragmentTensor> results,
                         const CallResources& resources) const {
  const std::string& function = signature_.function;
  LOCKSTEP_RETURN_IF_ERROR(
      CheckCount("arguments", signature_.num_arguments(), arguments.size(), function));
  LOCKSTEP_RETURN_IF_ERROR(
      CheckCount("results", signature_.num_results(), results.size(), function));
  return Compute(arguments, results, resources);
}

}  // namespace lockstep::worker
