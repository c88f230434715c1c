// What nccl.h promises, where the build has NCCL.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/collective/nccl/nccl_communicator.h"
#include "runtime/collective/nccl/staging.h"

namespace lockstep::collective::nccl {
namespace {

// What a rank tells the others of its GPU; both are empty if it has none.
struct GpuName {
  std::string id;     // differs from those of all other GPUs
  std::string shown;  // for people

  static GpuName Of(const Options& options) {
    if (options.streams == nullptr) return {};
    char host[256] = {};
    (void)gethostname(host, sizeof host - 1);
    const std::string& bus_id = options.streams->gpu().facts().bus_id;
    const std::string id = options.machine.empty() ? host : options.machine;
    return {HostName(id) + "/" + bus_id, HostName(host) + "/" + bus_id};
  }
  // Neither has a line break in it.
  std::string Encode() const { return id + "\n" + shown; }
  static GpuName Decode(const std::string& text) {
    const size_t end = std::min(text.find('\n'), text.size());
    return {text.substr(0, end), end < text.size() ? text.substr(end + 1) : ""};
  }
};

Status CheckThatAllDiffer(const std::vector<GpuName>& gpus, absl::Span<const Rank> members) {
  std::map<std::string, Rank> first;
  for (size_t i = 0; i < gpus.size(); ++i) {
    const auto [found, is_new] = first.try_emplace(gpus[i].id, members[i]);
    if (is_new || gpus[i].id.empty()) continue;
    return FailedPrecondition(
        "ranks ", found->second, " and ", members[i], " have the same GPU (", gpus[i].shown,
        "), which NCCL does not connect with itself: start as many workers on a host "
        "as it has GPUs, or set each one's device (cuda:N)");
  }
  return OkStatus();
}

// Which GPU is whose, once for the whole world, for readers of the log.
void TellTopology(const Library& nccl, absl::Span<const Rank> members,
                  const std::vector<GpuName>& gpus) {
  constexpr size_t kMost = 64;
  std::string text;
  for (size_t i = 0; i < std::min(gpus.size(), kMost); ++i) {
    text += (i == 0 ? "rank " : ", ") + std::to_string(members[i]) + " " +
            (gpus[i].id.empty() ? "none" : gpus[i].shown);
  }
  if (gpus.size() > kMost) text += ", and " + std::to_string(gpus.size() - kMost) + " more";
  log::Info("the GPUs of ", gpus.size(), " ranks are connected by ", LOCKSTEP_NCCL_NAME, " ",
            nccl.VersionText(), ": ", text);
}

// Rank 0's unique id travels by the rendezvous, which is the controller's and keeps secrets.
StatusOr<std::unique_ptr<Handle>> ConnectAll(const Options& options, const Library& nccl,
                                             std::shared_ptr<void> slot, Deadline deadline,
                                             const std::atomic<bool>* cancelled) {
  const Rank rank = options.host->rank();
  ncclUniqueId id{};
  std::string mine;
  if (rank == 0) {
    LOCKSTEP_RETURN_IF_ERROR(ToStatus(nccl, nccl.ncclGetUniqueId(&id), "ncclGetUniqueId", nullptr));
    mine.assign(id.internal, sizeof id.internal);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::vector<std::string> ids,
      options.rendezvous->Exchange(Mix(options.key, 2), options.host->members(), {mine}, cancelled,
                                   deadline));
  if (ids[0].size() != sizeof id.internal) {
    return Internal("rank 0 has given no unique id of NCCL's");
  }
  std::memcpy(id.internal, ids[0].data(), sizeof id.internal);
  LOCKSTEP_RETURN_IF_ERROR(options.streams->gpu().Bind());
  return Handle::Init(nccl, options.streams->gpu().shared_from_this(), id, rank,
                      options.host->size(), deadline, cancelled, std::move(slot));
}

class NcclWorld final : public DeviceWorld {
 public:
  // `resources` are null if this rank has no GPU, `handle` if not all have one.
  NcclWorld(std::shared_ptr<CommunicatorResources> resources, std::shared_ptr<Handle> handle,
            std::vector<Rank> members, std::vector<Rank> without_gpu)
      : resources_(std::move(resources)),
        handle_(std::move(handle)),
        members_(std::move(members)),
        without_gpu_(std::move(without_gpu)) {}

  std::unique_ptr<DeviceCommunicator> Over(std::shared_ptr<Communicator> host) override {
    const absl::Span<const Rank> ranks = host->members();
    if (WithoutDevice(ranks).has_value()) return nullptr;
    const bool is_whole = std::equal(ranks.begin(), ranks.end(), members_.begin(), members_.end());
    std::unique_ptr<DeviceCommunicator> made = std::make_unique<NcclCommunicator>(
        resources_, host, is_whole ? handle_ : std::shared_ptr<Handle>());
    if (resources_->registered == nullptr) return made;
    return std::make_unique<StagingCommunicator>(resources_, std::move(host), std::move(made));
  }

  void Abandon() override {
    if (resources_ != nullptr) resources_->is_abandoned = true;
    if (handle_ != nullptr) handle_->Abort(Unavailable("a rank of the world was lost"));
  }

  std::optional<Rank> WithoutDevice(absl::Span<const Rank> ranks) const override {
    const auto found =
        std::find_first_of(ranks.begin(), ranks.end(), without_gpu_.begin(), without_gpu_.end());
    return found == ranks.end() ? std::nullopt : std::optional(*found);
  }

 private:
  const std::shared_ptr<CommunicatorResources> resources_;
  const std::shared_ptr<Handle> handle_;
  const std::vector<Rank> members_;
  const std::vector<Rank> without_gpu_;
};

}  // namespace

std::string HostName(const std::string& otherwise) {
  const char* const given = std::getenv("NCCL_HOSTID");
  return given != nullptr ? given : otherwise;
}

Status Available(const std::string& library) {
  LOCKSTEP_RETURN_IF_ERROR(cuda::Available());
  return LoadLibrary(library).status();
}

std::string Version(const std::string& library) {
  const auto loaded = LoadLibrary(library);
  return loaded.ok() ? (*loaded)->VersionText() : "";
}

StatusOr<std::unique_ptr<DeviceWorld>> Connect(const Options& options, Deadline deadline,
                                               const std::atomic<bool>* cancelled) {
  const absl::Span<const Rank> members = options.host->members();
  const bool has_gpu = options.streams != nullptr;
  // Before NCCL is asked: it would tell only the two that share one.
  LOCKSTEP_ASSIGN_OR_RETURN(
      const std::vector<std::string> told,
      options.rendezvous->Exchange(Mix(options.key, 1), members, {GpuName::Of(options).Encode()},
                                   cancelled, deadline));
  std::vector<GpuName> gpus;
  for (const std::string& text : told) gpus.push_back(GpuName::Decode(text));
  LOCKSTEP_RETURN_IF_ERROR(CheckThatAllDiffer(gpus, members));
  std::vector<Rank> without_gpu;
  for (size_t i = 0; i < gpus.size(); ++i) {
    if (gpus[i].id.empty()) without_gpu.push_back(members[i]);
  }
  std::shared_ptr<CommunicatorResources> resources;
  std::shared_ptr<Handle> handle;
  if (has_gpu) {
    LOCKSTEP_ASSIGN_OR_RETURN(const Library* const nccl, LoadLibrary(options.library));
    const auto gpu = options.streams->gpu().shared_from_this();
    resources.reset(new CommunicatorResources{*nccl, options.streams, options.allocator,
                                              options.registered, options.make_room, options.slots,
                                              false, cuda::Elements(gpu)});
    if (resources->slots == nullptr) {
      resources->slots = std::make_shared<CommunicatorSlots>(std::numeric_limits<int>::max());
    }
    if (options.make_room) options.make_room();
    if (without_gpu.empty()) {
      LOCKSTEP_ASSIGN_OR_RETURN(
          handle, ConnectAll(options, *nccl, resources->slots->TakeAnyway(), deadline, cancelled));
      if (options.host->rank() == 0) TellTopology(*nccl, members, gpus);
    }
  }
  return std::make_unique<NcclWorld>(std::move(resources), std::move(handle),
                                     std::vector<Rank>(members.begin(), members.end()),
                                     std::move(without_gpu));
}

}  // namespace lockstep::collective::nccl
