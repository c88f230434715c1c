#include "runtime/client/chrome_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "nlohmann/json.hpp"

namespace lockstep {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using trace::Event;
using trace::Kind;

Event At(Kind kind, const std::string& name, int64_t begin, int64_t end) {
  Event event;
  event.kind = kind;
  event.begin = begin;
  event.end = end;
  event.SetName(name);
  return event;
}

TraceProcess Process(TraceProcess::Role role, Rank rank, const std::string& thread,
                     std::vector<Event> events) {
  TraceProcess process;
  process.role = role;
  process.rank = rank;
  process.host = "node1";
  process.pid = 42;
  process.threads.push_back({thread, 0, std::move(events)});
  return process;
}

Trace Small() {
  Event batch = At(Kind::kBatch, "order and send batch", 5'000'000'000, 5'000'002'500);
  batch.session = 1;
  batch.command = 7;
  batch.bytes = 640;
  Event mark = At(Kind::kMark, "session aborted", 5'000'900'000, 5'000'900'000);
  mark.session = 1;
  mark.code = static_cast<uint16_t>(StatusCode::kInternal);
  Event allreduce = At(Kind::kCollective, "allreduce", 5'000'010'001, 5'000'110'000);
  allreduce.session = 1;
  allreduce.command = 7;
  allreduce.bytes = 4096;
  allreduce.ranks = 4;
  allreduce.SetBackend("shm");
  Trace trace;
  trace.processes.push_back(Process(TraceProcess::Role::kController, -1, "router", {batch, mark}));
  trace.processes.push_back(Process(TraceProcess::Role::kWorker, 0, "executing", {allreduce}));
  trace.processes.back().clock_uncertainty = std::chrono::nanoseconds(12'300);
  return trace;
}

std::string TextOf(const Trace& trace) {
  std::ostringstream text;
  WriteChromeTrace(trace, text);
  return text.str();
}

constexpr char kSmall[] =
    R"json({"displayTimeUnit":"ns",
"otherData":{"made_by":"lockstep","clock":"the controller's; times are since the first event","processes":[)json"
    R"json({"name":"controller","host":"node1","pid":42,"clock_known":true,"clock_uncertainty_ns":0,"lost_events":0,"missing":""},)json"
    R"json({"name":"rank 0","host":"node1","pid":42,"clock_known":true,"clock_uncertainty_ns":12300,"lost_events":0,"missing":""}]},
"traceEvents":[
{"ph":"M","pid":1,"tid":1,"name":"process_name","args":{"name":"controller (node1:42)"}},
{"ph":"M","pid":1,"tid":1,"name":"process_sort_index","args":{"sort_index":0}},
{"ph":"M","pid":1,"tid":1,"name":"thread_name","args":{"name":"router"}},
{"ph":"X","pid":1,"tid":1,"ts":0.000,"dur":2.500,"cat":"batch","name":"order and send batch","args":{"session":1,"first_command":7,"bytes":640}},
{"ph":"i","pid":1,"tid":1,"ts":900.000,"s":"t","cat":"mark","name":"session aborted","args":{"session":1,"error":"INTERNAL"}},
{"ph":"M","pid":2,"tid":1,"name":"process_name","args":{"name":"rank 0 (node1:42)"}},
{"ph":"M","pid":2,"tid":1,"name":"process_sort_index","args":{"sort_index":1}},
{"ph":"M","pid":2,"tid":1,"name":"process_labels","args":{"labels":"clock +-12.300 us"}},
{"ph":"M","pid":2,"tid":1,"name":"thread_name","args":{"name":"executing"}},
{"ph":"X","pid":2,"tid":1,"ts":10.001,"dur":99.999,"cat":"collective","name":"allreduce","args":{"session":1,"command":7,"bytes":4096,"backend":"shm","ranks":4,"first_rank":0}},
{"ph":"s","pid":1,"tid":1,"ts":0.000,"cat":"batch","name":"batch","id":1},
{"ph":"f","pid":2,"tid":1,"ts":10.001,"bp":"e","cat":"batch","name":"batch","id":1}
]}
)json";

TEST(ChromeTraceTest, IsWrittenExactlySo) { EXPECT_EQ(TextOf(Small()), kSmall); }

TEST(ChromeTraceTest, GapsAreInTheFile) {
  Trace trace = Small();
  trace.processes[1].threads[0].lost = 5;
  trace.processes[1].clock_is_known = false;
  TraceProcess gone;
  gone.rank = 1;
  gone.missing = "its worker is lost: killed";
  trace.processes.push_back(gone);
  const std::string text = TextOf(trace);
  EXPECT_TRUE(json::accept(text)) << text;
  EXPECT_THAT(text, HasSubstr("\"name\":\"5 older events are lost\""));
  EXPECT_THAT(text, HasSubstr("\"labels\":\"clock not known\""));
  EXPECT_THAT(text, HasSubstr("\"name\":\"missing: its worker is lost: killed\""));
  EXPECT_THAT(text, HasSubstr("\"lost_events\":5"));
}

TEST(ChromeTraceTest, NamesOfAnyBytesMakeAFileThatCanBeRead) {
  const std::string hostile = "a\"b\\c\n\x01\xff\xc3(</script>";
  Trace trace = Small();
  trace.processes[1].threads[0].events[0].SetName(hostile);
  trace.processes[1].threads[0].events[0].SetBackend(hostile);
  trace.processes[1].threads[0].name = hostile;
  trace.processes[1].host = hostile;
  trace.processes[0].missing = hostile;
  const json document = json::parse(TextOf(trace), nullptr, false);
  ASSERT_FALSE(document.is_discarded());
  bool found = false;
  for (const json& event : document["traceEvents"]) {
    if (event["name"] == "a\"b\\c\n\x01\uFFFD\uFFFD(</script>") found = true;
  }
  EXPECT_TRUE(found);
}

TEST(ChromeTraceTest, NothingRecordedIsAFileToo) {
  EXPECT_TRUE(json::accept(TextOf(Trace())));
  Trace trace;
  trace.processes.emplace_back();
  EXPECT_TRUE(json::accept(TextOf(trace)));
}

TEST(ChromeTraceTest, FilesAreReplacedWholeOrNotAtAll) {
  namespace fs = std::filesystem;
  const fs::path folder =
      fs::temp_directory_path() / ("lockstep-chrome-trace-" + std::to_string(getpid()));
  fs::create_directories(folder);
  const std::string path = folder / "trace.json";
  std::ofstream(path) << "old";
  EXPECT_EQ(WriteChromeTrace(Small(), path), OkStatus());
  std::ifstream in(path);
  EXPECT_FALSE(json::parse(in, nullptr, false).is_discarded());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1)
      << "nothing else is left behind";
  const Status status = WriteChromeTrace(Small(), (folder / "none" / "trace.json").string());
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Message(status), HasSubstr("No such file or directory"));
  fs::remove_all(folder);
}

TEST(ChromeTraceTest, LinksStayAndPipesAreWrittenTo) {
  const std::string folder = testing::TempDir() + "/chrome_trace";
  std::filesystem::create_directories(folder);
  const std::string target = folder + "/target.json";
  std::ofstream(target) << "before";
  std::filesystem::create_symlink("target.json", folder + "/link.json");
  ASSERT_EQ(WriteChromeTrace(Trace(), folder + "/link.json"), OkStatus());
  EXPECT_TRUE(std::filesystem::is_symlink(folder + "/link.json"));
  EXPECT_GT(std::filesystem::file_size(target), 6u);
  ASSERT_EQ(WriteChromeTrace(Trace(), "/dev/null"), OkStatus());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_EQ(CheckChromeTraceFile(folder + "/new.json"), OkStatus());
  EXPECT_FALSE(std::filesystem::exists(folder + "/new.json"));
  EXPECT_FALSE(CheckChromeTraceFile(folder + "/none/new.json").ok());
  EXPECT_FALSE(CheckChromeTraceFile(folder).ok());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lockstep
