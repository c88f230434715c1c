// What a client takes from its controller: records, of which the first answers its question for a
// session, or for the cluster's status.
#include <chrono>
#include <cstdint>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "runtime/client/admin.h"
#include "runtime/client/link.h"
#include "runtime/client/stall_diagnosis.h"
#include "runtime/client/worker_output.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/scripted_channel.h"
#include "tests/fuzz/targets.h"
#include "tools/cli/cluster_text.h"
#include "tools/cli/register_text.h"
#include "tools/cli/session_text.h"
#include "tools/cli/stall_text.h"
#include "tools/cli/top/top_text.h"
#include "tools/text/terminal.h"

namespace lockstep::fuzz {
namespace {

using namespace std::chrono_literals;

// What `lockstep status`, `why`, `sessions` and `top` make of it.
void ReadStatus(const control::Message& message) {
  const StatusOr<ClusterStatus> status = client::ReadClusterStatus(message);
  if (!status.ok()) return;
  std::ostringstream out;
  const text::Style style(/*enabled=*/false);
  cli::PrintCluster(out, style, *status, "ipc:///fuzz");
  cli::PrintWorkers(out, style, status->workers);
  cli::PrintSessions(out, style, status->sessions);
  (void)cli::ToText(cli::ClusterToJson(*status, "ipc:///fuzz"));
  const StallDiagnosis diagnosis = DiagnoseStall(*status);
  cli::PrintDiagnosis(out, style, *status, diagnosis);
  (void)cli::ToText(cli::DiagnosisToJson(*status, diagnosis));
  cli::PrintSessionDetails(out, style, status->sessions, {});
  const auto now = std::chrono::steady_clock::time_point(10s);
  // Between this and a cluster of which nothing was known yet.
  const cli::TopView view{*status, cli::RatesBetween({{}, now - 1s}, {*status, now}), ""};
  cli::TopWindow window{80, 24};
  (void)cli::RenderTop(view, style, window);
  (void)cli::ToText(cli::TopToJson(view));
}

// What `lockstep registers` makes of it.
void ReadRegisters(const control::Message& message) {
  const auto ranks = client::ReadRegisterListing(message);
  if (!ranks.ok()) return;
  std::ostringstream out;
  cli::PrintRegisters(out, text::Style(/*enabled=*/false), *ranks);
  (void)cli::ToText(cli::RegistersToJson(*ranks));
}

}  // namespace

void TakeControllerMessages(const uint8_t* data, size_t size) {
  using namespace std::chrono_literals;
  const std::vector<Record> records =
      ReadRecords(data, size, control::Protocol::kControllerToClient);
  if (records.empty()) return;
  ReadStatus(records[0].message);
  ReadRegisters(records[0].message);
  Script script;
  for (const Record& record : records) script.Add({0, "", record.message});
  client::OpenRequest request;
  request.timeout = 1s;
  auto link = client::Link::Open(
      request, std::make_unique<ScriptedClientChannel>(script, [](const control::Message&) {}));
  if (!link.ok()) return;
  (*link)->SetOnOutput([](const std::vector<WorkerOutput>& lines, uint64_t) {
    for (const WorkerOutput& line : lines) (void)FormatOutput(line, /*for_terminal=*/true);
  });
  client::PendingAnswer answer;
  (*link)->Expect(RequestId(1), &answer);
  (*link)->Drain();
  (void)(*link)->Lost();
  (void)(*link)->Failed();
  (*link)->Forget(RequestId(1));
}

}  // namespace lockstep::fuzz
