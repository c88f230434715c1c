// What a client takes from its controller: records, of which the first answers its question for a
// session, or for the cluster's status.
#include <chrono>
#include <cstdint>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "runtime/client/cluster_status_codec.h"
#include "runtime/client/link.h"
#include "runtime/client/story.h"
#include "runtime/client/worker_output.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/scripted_channel.h"
#include "tools/cli/cluster_text.h"
#include "tools/cli/story_text.h"

namespace lockstep::fuzz {
namespace {

using namespace std::chrono_literals;

// What `lockstep status` and `lockstep why` make of it.
void ReadStatus(const control::Message& message) {
  const StatusOr<ClusterStatus> status = client::ReadClusterStatus(message);
  if (!status.ok()) return;
  std::ostringstream out;
  const cli::Style style(/*enabled=*/false);
  cli::PrintCluster(out, style, *status, "ipc:///fuzz");
  cli::PrintWorkers(out, style, status->workers);
  cli::PrintSessions(out, style, status->sessions);
  (void)cli::ToText(cli::ClusterToJson(*status, "ipc:///fuzz"));
  const ClusterStory story = TellStory(*status);
  cli::PrintStory(out, style, *status, story);
  (void)cli::ToText(cli::StoryToJson(*status, story));
}

}  // namespace
}  // namespace lockstep::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  using namespace std::chrono_literals;
  const std::vector<fuzz::Record> records = fuzz::ReadRecords(data, size);
  if (records.empty()) return 0;
  fuzz::ReadStatus(records[0].message);
  fuzz::Script script;
  for (const fuzz::Record& record : records) script.Add({0, "", record.message});
  client::OpenRequest request;
  request.timeout = 1s;
  auto link = client::Link::Open(request, std::make_unique<fuzz::ScriptedClientChannel>(
                                              script, [](const control::Message&) {}));
  if (!link.ok()) return 0;
  (*link)->SetOnOutput([](const std::vector<WorkerOutput>& lines, uint64_t) {
    for (const WorkerOutput& line : lines) (void)FormatOutput(line, /*for_terminal=*/true);
  });
  client::PendingAnswer answer;
  (*link)->Expect(RequestId(1), &answer);
  (*link)->Drain();
  (void)(*link)->Lost();
  (void)(*link)->Failed();
  (*link)->Forget(RequestId(1));
  return 0;
}
