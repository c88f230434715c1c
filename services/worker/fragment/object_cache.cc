#include "services/worker/fragment/object_cache.h"

#include <utility>

#include "runtime/base/deadline.h"
#include "runtime/base/log.h"
#include "services/worker/fragment/loaded_kernel.h"

namespace lockstep::worker {
namespace {

absl::Span<const std::byte> BytesOf(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace

ObjectCache::ObjectCache(ObjectCacheOptions options)
    : options_(std::move(options)), loaded_({options_.max_loaded, options_.max_loaded_bytes}) {}

StatusOr<fragment::CompilerIdentity> ObjectCache::Compiler(int give_up_fd) {
  LOCKSTEP_ASSIGN_OR_RETURN(const fragment::CompilerProgram compiler,
                            FindCompiler(fragment::Kind::kMlir));
  return Identify(fragment::Kind::kMlir, compiler,
                  {Deadline::After(options_.patience), give_up_fd});
}

StatusOr<fragment::CompilerProgram> ObjectCache::FindCompiler(fragment::Kind language) const {
  if (language != fragment::Kind::kCuda) return fragment::CompilerProgram::Find(options_.compiler);
  if (device_ == nullptr) {
    return FailedPrecondition("fragments of CUDA source are not available: this worker has no GPU ",
                              "(its setting `device` is cpu)");
  }
  fragment::CompilerOptions options = options_.cuda_compiler;
  // "9.0" is sm_90.
  std::string capability = device_->facts().capability;
  std::erase(capability, '.');
  options.arguments.push_back("--gpu=sm_" + capability);
  return fragment::CompilerProgram::Find(std::move(options));
}

StatusOr<std::shared_ptr<const LoadedObject>> ObjectCache::Get(const fragment::CompileWork& work,
                                                               int give_up_fd) {
  StatusOr<Object> object = Find(work, {Deadline::After(options_.patience), give_up_fd});
  if (!object.ok()) Count([](ObjectCacheUse& use) { ++use.failures; });
  return object;
}

StatusOr<ObjectCache::Object> ObjectCache::Find(const fragment::CompileWork& work,
                                                fragment::Patience patience) {
  // Looked for each time: it may be installed while the worker runs.
  const fragment::Kind language = work.fragment.kind();
  LOCKSTEP_ASSIGN_OR_RETURN(const fragment::CompilerProgram compiler, FindCompiler(language));
  LOCKSTEP_ASSIGN_OR_RETURN(const fragment::CompilerIdentity identity,
                            Identify(language, compiler, patience));
  const fragment::ObjectKey key = fragment::KeyOf(work, identity);
  const std::string& name = work.fragment.name();
  last_load_ = {.origin = fragment::Origin::kMemory};
  if (Object object = FromMemory(key)) return object;
  last_load_.origin = fragment::Origin::kDisk;
  if (Found found = FromDirectory(key, work.fragment)) return *std::move(found);

  std::optional<ObjectLock> lock;
  if (const ObjectDirectory* const directory = Directory()) {
    StatusOr<ObjectLock> taken = directory->Lock(key, patience);
    if (taken.ok()) {
      lock = *std::move(taken);
      // Whoever had it before may have compiled the same.
      if (Found found = FromDirectory(key, work.fragment)) return *std::move(found);
      // That one could not keep it, because the disk is full, say, or did not come to an end. Those
      // that wait here would all compile it, one after the other.
      if (lock->had_to_wait()) lock.reset();
    } else if (taken.status().code() == StatusCode::kDeadlineExceeded ||
               taken.status().code() == StatusCode::kAborted) {
      return Annotate(taken.status(), name);
    } else {
      log::Warn("a fragment may be compiled more than once: ", Message(taken.status()));
    }
  }
  return Compile(compiler, work, key, patience);
}

StatusOr<fragment::CompilerIdentity> ObjectCache::Identify(
    fragment::Kind language, const fragment::CompilerProgram& compiler,
    fragment::Patience patience) {
  const auto known = identities_.find(language);
  if (known != identities_.end()) return known->second;
  LOCKSTEP_ASSIGN_OR_RETURN(fragment::CompilerIdentity identity, compiler.Describe(patience));
  return identities_[language] = std::move(identity);
}

ObjectCache::Object ObjectCache::FromMemory(const fragment::ObjectKey& key) {
  std::lock_guard lock(mutex_);
  const Entry* const entry = loaded_.Use([&](const Entry& e) { return e.key == key; });
  return entry != nullptr ? entry->object : nullptr;
}

ObjectCache::Found ObjectCache::FromDirectory(const fragment::ObjectKey& key,
                                              const fragment::Fragment& fragment) {
  const ObjectDirectory* const directory = Directory();
  if (directory == nullptr) return std::nullopt;
  const std::optional<std::string> bytes = directory->Load(key);
  if (!bytes.has_value()) return std::nullopt;
  const StatusOr<fragment::CompilerAnswer> answer =
      fragment::DecodeAnswer(BytesOf(*bytes), fragment.name());
  Status status = answer.status();
  if (answer.ok()) {
    const bool failed = !answer->result.ok();
    StatusOr<Object> object =
        failed ? StatusOr<Object>(answer->result.status()) : Keep(key, fragment, *answer->result);
    if (failed || object.ok()) {
      Count([](ObjectCacheUse& use) { ++use.disk_hits; });
      return object;
    }
    status = object.status();
  }
  log::Warn("a compiled fragment in ", directory->path(),
            " is not used, and compiled again: ", Message(status));
  return std::nullopt;
}

StatusOr<ObjectCache::Object> ObjectCache::Compile(const fragment::CompilerProgram& compiler,
                                                   const fragment::CompileWork& work,
                                                   const fragment::ObjectKey& key,
                                                   fragment::Patience patience) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string request,
                            fragment::EncodeRequest(work, fragment::Want::kObject));
  const std::string& name = work.fragment.name();
  const auto began = Deadline::Clock::now();
  const StatusOr<std::string> bytes = compiler.Compile(request, name, patience);
  const auto took = Deadline::Clock::now() - began;
  Count([&](ObjectCacheUse& use) {
    ++use.compiles;
    use.compiling += std::chrono::ceil<std::chrono::milliseconds>(took);
  });
  last_load_ = {.origin = fragment::Origin::kCompiler,
                .compiling = std::chrono::ceil<std::chrono::microseconds>(took)};
  LOCKSTEP_RETURN_IF_ERROR(bytes.status());
  LOCKSTEP_ASSIGN_OR_RETURN(const fragment::CompilerAnswer answer,
                            fragment::DecodeAnswer(BytesOf(*bytes), name));
  // Another compiler than the one that was described, which has been replaced: what it has made
  // has another key.
  const auto known = identities_.find(work.fragment.kind());
  const bool is_of_key = !answer.result.ok() ||
                         (known != identities_.end() && answer.result->compiler == known->second);
  if (!is_of_key && known != identities_.end()) identities_.erase(known);
  if (const ObjectDirectory* const directory = Directory();
      directory != nullptr && answer.is_lasting && is_of_key) {
    const Status stored = directory->Store(key, *bytes);
    if (!stored.ok()) log::Warn("a compiled fragment is not kept: ", Message(stored));
  }
  LOCKSTEP_RETURN_IF_ERROR(answer.result.status());
  return Keep(key, work.fragment, *answer.result);
}

StatusOr<ObjectCache::Object> ObjectCache::Keep(const fragment::ObjectKey& key,
                                                const fragment::Fragment& fragment,
                                                const fragment::Compiled& compiled) {
  LOCKSTEP_ASSIGN_OR_RETURN(Object object, fragment.kind() == fragment::Kind::kCuda
                                               ? LoadedKernel::Load(fragment, compiled, device_)
                                               : LoadedObject::Load(compiled));
  std::lock_guard lock(mutex_);
  loaded_.Add({key, object}, object->size_bytes());
  return object;
}

const ObjectDirectory* ObjectCache::Directory() {
  if (directory_.has_value()) return &*directory_;
  if (options_.directory.empty()) return nullptr;
  StatusOr<ObjectDirectory> opened =
      ObjectDirectory::Open(options_.directory, options_.max_directory_bytes);
  if (opened.ok()) {
    directory_ = *std::move(opened);
    return &*directory_;
  }
  if (!std::exchange(has_warned_, true)) {
    log::Warn("compiled fragments are kept in memory only, and every worker compiles them: ",
              Message(opened.status()));
  }
  return nullptr;
}

template <typename Change>
void ObjectCache::Count(Change change) {
  std::lock_guard lock(mutex_);
  change(use_);
}

ObjectCacheUse ObjectCache::use() const {
  std::lock_guard lock(mutex_);
  ObjectCacheUse use = use_;
  const plan::CacheUse& loaded = loaded_.use();
  use.memory_hits = loaded.hits;
  use.loaded = loaded.entries;
  use.loaded_bytes = loaded.bytes;
  return use;
}

}  // namespace lockstep::worker
