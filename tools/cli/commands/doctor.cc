#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/fragment/blas.h"
#include "services/local/cluster_config.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands/commands.h"
#include "tools/cli/common_options.h"
#include "tools/cli/doctor_checks.h"
#include "tools/cli/doctor_fragments.h"
#include "tools/cli/value_text.h"
#include "tools/text/format.h"
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

struct DoctorCommand {
  std::string file;
  std::vector<std::string> settings;
  KeyOptions keys;
  OutputFormat format = OutputFormat::kTable;
};

// What all workers of this host may take of its memory.
uint64_t WantedBytes(const local::ClusterOptions& cluster) {
  uint64_t bytes = 0;
  for (const worker::WorkerOptions& worker : cluster.ranks) {
    if (cluster.HostOf(worker.rank).IsThisHost()) bytes += worker.arena_bytes;
  }
  return bytes;
}

std::vector<Finding> Examine(const DoctorCommand& command, const local::ClusterOptions& cluster) {
  const auto here =
      std::count_if(cluster.ranks.begin(), cluster.ranks.end(),
                    [&](const auto& worker) { return cluster.HostOf(worker.rank).IsThisHost(); });
  const uint64_t wanted = WantedBytes(cluster);
  std::vector<Finding> findings = {
      CheckProgram("lockstep-controller", "LOCKSTEP_CONTROLLER", "services/controller"),
      CheckProgram("lockstep-worker", "LOCKSTEP_WORKER", "services/worker"),
      CheckSharedMemory("/dev/shm", wanted),
      CheckMemoryLimit("/sys/fs/cgroup", wanted),
      CheckOpenFiles(static_cast<int>(here)),
      CheckLockedMemory(),
      CheckClock(),
      CheckInterfaces(),
  };
  std::vector<std::string> devices;
  for (const worker::WorkerOptions& worker : cluster.ranks) {
    if (cluster.HostOf(worker.rank).IsThisHost()) devices.push_back(worker.device);
  }
  for (Finding& finding : CheckGpus(devices, CountGpus())) findings.push_back(std::move(finding));
  const auto first =
      std::find_if(cluster.ranks.begin(), cluster.ranks.end(),
                   [&](const auto& worker) { return cluster.HostOf(worker.rank).IsThisHost(); });
  if (first != cluster.ranks.end()) {
    const std::string& allowed = cluster.controller.fragments;
    findings.push_back(
        CheckFragmentCompiler(first->compiler, allowed, fragment::FindBlas().status()));
    if (allowed != "off") findings.push_back(CheckFragmentCache(first->fragment_cache));
  }
  if (cluster.HasOtherHosts()) {
    findings.push_back(
        CheckProgram("lockstep-remote-worker", "LOCKSTEP_REMOTE_WORKER", "services/remote"));
  }
  for (Finding& finding : CheckKeys(cluster)) findings.push_back(std::move(finding));
  const ControllerAddress own = WithKeys({}, command.keys);
  if (!own.key.empty()) findings.push_back(CheckKeyFile("your", own.key));
  if (!own.controller_key.empty()) {
    findings.push_back(CheckPublicKeys("controller's", own.controller_key));
  }
  return findings;
}

const char* Name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGood:
      return "good";
    case Verdict::kDoubtful:
      return "doubtful";
    case Verdict::kBad:
      return "bad";
  }
  return "?";
}

text::Tint TintOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::kGood:
      return text::Tint::kGreen;
    case Verdict::kDoubtful:
      return text::Tint::kYellow;
    case Verdict::kBad:
      return text::Tint::kRed;
  }
  return text::Tint::kPlain;
}

void Print(const std::vector<Finding>& findings) {
  const text::Style style = text::Style::For(STDOUT_FILENO);
  size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.subject.size());
  for (const Finding& finding : findings) {
    const std::string verdict = Name(finding.verdict);
    std::cout << style.Paint(TintOf(finding.verdict), verdict)
              << std::string(10 - verdict.size(), ' ') << finding.subject
              << std::string(width - finding.subject.size() + 2, ' ') << finding.fact << '\n';
    if (finding.remedy.empty()) continue;
    std::cout << std::string(width + 12, ' ') << style.Paint(text::Tint::kDim, "mend: ")
              << finding.remedy << '\n';
  }
}

Status Doctor(const DoctorCommand& command) {
  const StatusOr<local::ClusterOptions> cluster =
      local::LoadCluster({command.file, command.settings});
  if (!cluster.ok()) return WithExitCode(cluster.status(), ExitCode::kUsage);
  const std::vector<Finding> findings = Examine(command, *cluster);
  if (command.format == OutputFormat::kJson) {
    Json list = Json::array();
    for (const Finding& finding : findings) {
      list.push_back({{"subject", finding.subject},
                      {"verdict", Name(finding.verdict)},
                      {"fact", finding.fact},
                      {"remedy", finding.remedy.empty() ? Json() : Json(finding.remedy)}});
    }
    std::cout << ToText(list) << '\n';
  } else {
    Print(findings);
  }
  const auto bad = static_cast<uint64_t>(
      std::count_if(findings.begin(), findings.end(),
                    [](const Finding& finding) { return finding.verdict == Verdict::kBad; }));
  if (bad == 0) return OkStatus();
  return FailedPrecondition(text::Plural(bad, "thing"), " to mend before a cluster starts here");
}

}  // namespace

void AddDoctor(Command lockstep) {
  Command command = lockstep.AddCommand("doctor", "Check this host before it has a cluster");
  auto options = std::make_shared<DoctorCommand>();
  command.Add("FILE", options->file, "the cluster file; without it, the defaults").Placeholder("");
  command.Add("--set", options->settings, "overrides one setting (repeatable)")
      .Placeholder("KEY=VALUE")
      .Repeatable();
  AddKeyOptions(command, options->keys);
  AddOutputOption(command, options->format);
  command.Examples(
      "  lockstep doctor --set worker.arena_bytes=16MiB\n"
      "  lockstep doctor cluster.yaml --output json\n");
  command.Do([options] { return Doctor(*options); });
}

}  // namespace lockstep::cli
