// The compiled fragments of this worker: each is compiled once for a machine, however many workers
// and sessions want it.
//
// They are looked for in memory, then in the directory that the workers of a host share, and only
// then compiled, by one of these workers, while the others wait for what it makes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "runtime/base/status.h"
#include "runtime/collective/device.h"
#include "runtime/fragment/compile_codec.h"
#include "runtime/fragment/compiler_program.h"
#include "runtime/fragment/fragment.h"
#include "runtime/fragment/load.h"
#include "runtime/fragment/object_key.h"
#include "runtime/plan/recently_used.h"
#include "services/worker/fragment/loaded_object.h"
#include "services/worker/fragment/object_directory.h"

namespace lockstep::worker {

struct ObjectCacheOptions {
  fragment::CompilerOptions compiler;
  // Of CUDA source; which GPU it is for is added to its arguments.
  fragment::CompilerOptions cuda_compiler = {.program = "", .language = fragment::Kind::kCuda};
  // Where compiled fragments are kept; empty: in memory only.
  std::string directory;
  uint64_t max_directory_bytes = ObjectDirectory::kDefaultMaxBytes;
  size_t max_loaded = 256;
  size_t max_loaded_bytes = size_t{256} << 20;
  // How long a fragment may take, waiting for other workers included.
  std::chrono::milliseconds patience{60'000};
};

// What the cache has done so far, and what it holds.
struct ObjectCacheUse {
  uint64_t memory_hits = 0;
  uint64_t disk_hits = 0;
  uint64_t compiles = 0;  // also of those that have failed
  uint64_t failures = 0;
  std::chrono::milliseconds compiling{0};  // while the compiler ran
  size_t loaded = 0;
  size_t loaded_bytes = 0;
};

// What a caller has got stays loaded while it is held, also when the cache has forgotten it.
//
// Threads: Compiler() and Get() are for one at a time, which is not the executing one: they wait
// for a compiler. use() is for any.
class ObjectCache {
 public:
  explicit ObjectCache(ObjectCacheOptions options);
  // What CUDA source is compiled for, and loaded onto. Before the first such fragment.
  void UseDevice(std::shared_ptr<collective::Accelerator> device) { device_ = std::move(device); }

  // What compiles here: a process is asked, once. A worker that asks ahead spares that to the first
  // fragment. kFailedPrecondition: "fragments are not available: ..."; the errors of
  // CompilerProgram::Describe(). `give_up_fd`: see fragment::Patience.
  StatusOr<fragment::CompilerIdentity> Compiler(int give_up_fd = -1);

  // The object of a fragment, loaded. kFailedPrecondition also where it is CUDA source, and there
  // is no GPU.
  //
  // Errors: those of the fragment, as the compiler says them (fragment::CompilerAnswer), which are
  // kept as objects are; those of CompilerProgram, which are not; kDeadlineExceeded, kAborted:
  // given up.
  StatusOr<std::shared_ptr<const LoadedObject>> Get(const fragment::CompileWork& work,
                                                    int give_up_fd = -1);

  // How the last call of Get() that returned an object has come by it. For that caller.
  const fragment::Load& last_load() const { return last_load_; }

  ObjectCacheUse use() const;

 private:
  using Object = std::shared_ptr<const LoadedObject>;
  struct Entry {
    fragment::ObjectKey key;
    Object object;
  };
  // What came from the directory, or has just been compiled.
  using Found = std::optional<StatusOr<Object>>;

  StatusOr<Object> Find(const fragment::CompileWork& work, fragment::Patience patience);
  StatusOr<fragment::CompilerProgram> FindCompiler(fragment::Kind language) const;
  StatusOr<fragment::CompilerIdentity> Identify(fragment::Kind language,
                                                const fragment::CompilerProgram& compiler,
                                                fragment::Patience patience);
  Object FromMemory(const fragment::ObjectKey& key);
  Found FromDirectory(const fragment::ObjectKey& key, const fragment::Fragment& fragment);
  StatusOr<Object> Compile(const fragment::CompilerProgram& compiler,
                           const fragment::CompileWork& work, const fragment::ObjectKey& key,
                           fragment::Patience patience);
  StatusOr<Object> Keep(const fragment::ObjectKey& key, const fragment::Fragment& fragment,
                        const fragment::Compiled& compiled);
  // Null: there is none, or it cannot be used, as the log has said.
  const ObjectDirectory* Directory();
  template <typename Change>
  void Count(Change change);

  const ObjectCacheOptions options_;
  std::shared_ptr<collective::Accelerator> device_;                  // null: there is none
  std::map<fragment::Kind, fragment::CompilerIdentity> identities_;  // of those that were asked
  std::optional<ObjectDirectory> directory_;
  bool has_warned_ = false;
  fragment::Load last_load_;

  mutable std::mutex mutex_;  // of what follows
  plan::RecentlyUsed<Entry> loaded_;
  ObjectCacheUse use_;
};

}  // namespace lockstep::worker
