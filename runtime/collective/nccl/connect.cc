// What nccl.h promises, where the build has NCCL.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_split.h"
#include "runtime/base/log.h"
#include "runtime/collective/nccl/nccl_communicator.h"
#include "runtime/collective/nccl/staging.h"

namespace lockstep::collective::nccl {
namespace {

// The first NCCL that tells GPUs apart by their UUIDs: earlier ones take the slices (MIG) of one
// GPU for the same GPU.
constexpr int kFirstWithSlices = 23000;

// What a rank tells the others of its GPU; all are empty if it has none.
struct GpuName {
  std::string id;     // differs from those of all other GPUs, and slices of GPUs
  std::string whole;  // the same for the slices of a GPU
  std::string shown;  // for people

  static GpuName Of(const Options& options) {
    if (options.streams == nullptr) return {};
    char host[256] = {};
    (void)gethostname(host, sizeof host - 1);
    const cuda::GpuFacts& gpu = options.streams->gpu().facts();
    const std::string machine = HostName(options.machine.empty() ? host : options.machine);
    return {machine + "/" + gpu.uuid, machine + "/" + gpu.bus_id,
            HostName(host) + "/" + gpu.bus_id};
  }
  // None has a line break in it.
  std::string Encode() const { return id + "\n" + whole + "\n" + shown; }
  static GpuName Decode(const std::string& text) {
    const std::vector<std::string> lines = absl::StrSplit(text, '\n');
    return lines.size() == 3 ? GpuName{lines[0], lines[1], lines[2]} : GpuName();
  }
};

// The first two ranks of which `name` is the same; none has it if it is empty.
std::optional<std::pair<size_t, size_t>> FirstAlike(const std::vector<GpuName>& gpus,
                                                    std::string GpuName::*name) {
  std::map<std::string, size_t> first;
  for (size_t i = 0; i < gpus.size(); ++i) {
    if ((gpus[i].*name).empty()) continue;
    const auto [found, is_new] = first.try_emplace(gpus[i].*name, i);
    if (!is_new) return std::pair(found->second, i);
  }
  return std::nullopt;
}

Status CheckThatAllDiffer(const std::vector<GpuName>& gpus, absl::Span<const Rank> members) {
  if (const auto alike = FirstAlike(gpus, &GpuName::id)) {
    return FailedPrecondition(
        "ranks ", members[alike->first], " and ", members[alike->second], " have the same GPU (",
        gpus[alike->second].shown,
        "), which NCCL does not connect with itself: start as many workers on a host "
        "as it has GPUs, or set each one's device (cuda:N)");
  }
  return OkStatus();
}

// Before an NCCL that cannot.
Status CheckThatSlicesConnect(const std::vector<GpuName>& gpus, absl::Span<const Rank> members,
                              const Library& nccl) {
  if (nccl.version >= kFirstWithSlices) return OkStatus();
  const auto alike = FirstAlike(gpus, &GpuName::whole);
  if (!alike.has_value()) return OkStatus();
  return FailedPrecondition("ranks ", members[alike->first], " and ", members[alike->second],
                            " have slices (MIG) of one GPU (", gpus[alike->second].shown,
                            "), which " LOCKSTEP_NCCL_NAME " ", nccl.VersionText(),
                            " takes for the same GPU: install 2.30 or newer (nccl_library), or "
                            "give each rank of a host a GPU of its own");
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
    LOCKSTEP_RETURN_IF_ERROR(CheckThatSlicesConnect(gpus, members, *nccl));
    const auto gpu = options.streams->gpu().shared_from_this();
    resources.reset(new CommunicatorResources{*nccl, options.streams, options.allocator,
                                              options.registered, options.make_room, options.slots,
                                              false, cuda::Elements(gpu)});
    if (resources->slots == nullptr) {
      resources->slots = std::make_shared<CommunicatorSlots>(std::numeric_limits<int>::max());
    }
    if (options.make_room) options.make_room(UntilCancelled(deadline, cancelled));
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
