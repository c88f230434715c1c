// What functions print, on its way to the client that asks for it.
#include <chrono>
#include <cstdint>
#include <fstream>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "services/local/temporary_directory.h"
#include "tests/integration/output_fixture.h"

namespace lockstep::testing {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Stream = WorkerOutput::Stream;

class OutputTest : public SessionFixture {
 protected:
  void SetUp() override {
    SessionFixture::SetUp();
    if (session_ != nullptr) client_.emplace(OpenFor(kept_));
  }
  void TearDown() override {
    client_.reset();
    SessionFixture::TearDown();
  }
  static SessionOptions OptionsFor(KeptOutput& kept) {
    SessionOptions options = Options();
    options.on_output = kept.Callback();
    return options;
  }
  static Session OpenFor(KeptOutput& kept) {
    return Open(SharedCluster(GetParam()), OptionsFor(kept));
  }

  KeptOutput kept_;
  std::optional<PrintingClient> client_;  // asks for output; session_ does not
};
INSTANTIATE_TEST_SUITE_P(Clusters, OutputTest, ::testing::ValuesIn(kProcessKinds), NameOf);

TEST_P(OutputTest, LinesArriveWithTheirRankBeforeSyncReturns) {
  for (int i = 0; i < 20; ++i) {
    client_->Call("print", "line", int64_t{i});
    ASSERT_EQ(client_->session().SyncAll(), OkStatus());
    for (Rank rank = 0; rank < kWorkers; ++rank) {
      ASSERT_THAT(kept_.Of(rank), SizeIs(static_cast<size_t>(i) + 1)) << rank;
    }
  }
  const DRef rank_ref = client_->WorkerRank();
  client_->Call("print", "this is rank", rank_ref);
  ASSERT_EQ(client_->session().SyncAll(), OkStatus());
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    EXPECT_EQ(kept_.Of(rank).back(), "this is rank " + std::to_string(rank));
    EXPECT_EQ(kept_.Of(rank).front(), "line 0");
  }
}

TEST_P(OutputTest, StreamsAreToldApart) {
  client_->Call("print", "result");
  client_->Call("print_error", "warning");
  ASSERT_EQ(client_->session().SyncAll(), OkStatus());
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    EXPECT_THAT(kept_.Of(rank), ElementsAre("result"));
    EXPECT_THAT(kept_.Of(rank, Stream::kStderr), ElementsAre("warning"));
  }
}

TEST_P(OutputTest, SessionsDoNotMix) {
  KeptOutput of_other;
  PrintingClient other(OpenFor(of_other));
  for (int i = 0; i < 50; ++i) {
    client_->Call("print", "mine");
    other.Call("print", "other");
    client_->Call("print_raw", "half a line");
  }
  ASSERT_EQ(client_->session().SyncAll(), OkStatus());
  ASSERT_EQ(other.session().SyncAll(), OkStatus());
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    EXPECT_THAT(of_other.Of(rank), Each("other"));
    EXPECT_THAT(of_other.Of(rank), SizeIs(50));
    for (const std::string& line : kept_.Of(rank)) EXPECT_THAT(line, ::testing::Not("other"));
  }
}

TEST_P(OutputTest, NobodyIsSentWhatHeDidNotAskFor) {
  PrintingClient silent(Open(SharedCluster(GetParam())));
  silent.Call("print", "for the log alone");
  ASSERT_EQ(silent.session().SyncAll(), OkStatus());
  ASSERT_EQ(client_->session().SyncAll(), OkStatus());
  EXPECT_TRUE(kept_.IsEmpty());
}

TEST_P(OutputTest, LineWithoutAnEndIsOneWhenAnAnswerFollows) {
  client_->Call("print_raw", "no newline");
  ASSERT_EQ(client_->session().SyncAll(), OkStatus());
  EXPECT_THAT(kept_.Of(2), ElementsAre("no newline"));
}

TEST_P(OutputTest, AnyBytesArriveAsTheyWerePrinted) {
  client_->Call("print_binary");
  ASSERT_EQ(client_->session().SyncAll(), OkStatus());
  EXPECT_THAT(kept_.Of(1), ElementsAre(std::string("a\0\x1b\xff", 4)));
}

TEST_P(OutputTest, LongLinesComeInPieces) {
  client_->Call("flood", int64_t{1}, int64_t{40'001});
  ASSERT_EQ(client_->session().SyncAll(), OkStatus());
  std::vector<size_t> sizes;
  for (const std::string& line : kept_.Of(3)) sizes.push_back(line.size());
  EXPECT_THAT(sizes, ElementsAre(16'384, 16'384, 7'232));
}

TEST_P(OutputTest, ChildrenOfAFunctionPrintForItsSession) {
  client_->Call("print_from_child", "grandchild");
  ASSERT_EQ(client_->session().SyncAll(), OkStatus());
  EXPECT_THAT(kept_.Of(0), ElementsAre("grandchild"));
}

TEST_P(OutputTest, WhatALongCallPrintsIsSeenWhileItRuns) {
  auto directory = local::TemporaryDirectory::Create();
  ASSERT_TRUE(directory.ok()) << directory.status();
  const std::string file = (*directory)->path() + "/go-on";
  client_->Call("print_and_wait", "begun", file);
  ASSERT_EQ(client_->session().Flush(), OkStatus());
  // No call reads the socket meanwhile.
  for (Rank rank = 0; rank < kWorkers; ++rank) EXPECT_TRUE(kept_.AwaitLines(rank, 1)) << rank;
  std::ofstream(file) << "go on";
  EXPECT_EQ(client_->session().SyncAll(), OkStatus());
}

TEST_P(OutputTest, WhatWasPrintedBeforeAFailureArrivesBeforeIt) {
  const DRef fail = PrintingClient::Checked(client_->session().GetFunction("lockstep.fail"));
  client_->Call("print", "last words");
  PrintingClient::Checked(client_->session().Call(fail, "as it should", int64_t{2}));
  EXPECT_FALSE(client_->session().SyncAll().ok());
  EXPECT_THAT(kept_.Of(2), ElementsAre("last words"));
  ASSERT_EQ(client_->session().Reset(), OkStatus());
  client_->Call("print", "again");
  ASSERT_EQ(client_->session().SyncAll(), OkStatus());
  EXPECT_THAT(kept_.Of(2), ElementsAre("last words", "again"));
}

TEST_P(OutputTest, FloodIsCutAndCountedAndHoldsNobodyUp) {
  constexpr int64_t kLines = 25'000;
  constexpr int64_t kLineBytes = 1024;
  client_->Call("flood", kLines, kLineBytes);
  // Heartbeats come all the while: else the workers would be lost, and this would fail.
  ASSERT_EQ(client_->session().SyncAll(), OkStatus());
  ASSERT_EQ(client_->session().Close(), OkStatus());
  uint64_t arrived = 0;
  for (Rank rank = 0; rank < kWorkers; ++rank) {
    EXPECT_THAT(kept_.Of(rank), ::testing::Not(IsEmpty()));
    arrived += kept_.Of(rank).size();
  }
  EXPECT_GT(kept_.dropped(), 0u);
  EXPECT_EQ(arrived + kept_.dropped(), uint64_t{kLines} * kWorkers);
}

// A gate that a callback waits at.
TEST_P(OutputTest, SlowCallbackHoldsAnswersUpForAMomentOnly) {
  std::mutex gate;
  KeptOutput kept;
  SessionOptions options = OptionsFor(kept);
  options.on_output = [&gate, keep = kept.Callback()](const WorkerOutput& output) {
    std::lock_guard lock(gate);
    keep(output);
  };
  PrintingClient slow(Open(SharedCluster(GetParam()), options));
  {
    std::lock_guard lock(gate);
    for (int i = 0; i < 5; ++i) {
      slow.Call("print", "line");
      ASSERT_EQ(slow.session().SyncAll(), OkStatus());
    }
    EXPECT_TRUE(kept.IsEmpty());
  }
  ASSERT_EQ(slow.session().Close(), OkStatus());
  EXPECT_THAT(kept.Of(0), SizeIs(5));
}

TEST_P(OutputTest, CallbackMayUseTheSession) {
  Session* session = nullptr;
  std::vector<Status> seen;
  SessionOptions options = Options();
  options.on_output = [&](const WorkerOutput& output) {
    if (output.rank == 0) seen.push_back(session->SyncAll());
  };
  PrintingClient client(Open(SharedCluster(GetParam()), options));
  session = &client.session();
  client.Call("print", "line");
  ASSERT_EQ(session->SyncAll(), OkStatus());
  ASSERT_EQ(session->Close(), OkStatus());
  EXPECT_THAT(seen, ElementsAre(OkStatus()));
}

TEST_P(OutputTest, WhoAttachesIsAskedAnew) {
  KeptOutput first_kept;
  SessionOptions options = OptionsFor(first_kept);
  options.keep_for = 20s;
  Session first = Open(SharedCluster(GetParam()), options);
  const std::string ticket = first.ticket();
  ASSERT_EQ(first.Detach(), OkStatus());

  const auto attach = [&](const OutputCallback& on_output) {
    SessionOptions again = Options();
    again.on_output = on_output;
    again.Reach(SharedCluster(GetParam()).address());
    return Unwrap(Session::Attach(again, ticket));
  };
  {
    PrintingClient second(attach(nullptr));
    second.Call("print", "unheard");
    ASSERT_EQ(second.session().SyncAll(), OkStatus());
    ASSERT_EQ(second.session().Detach(), OkStatus());
  }
  KeptOutput third_kept;
  PrintingClient third(attach(third_kept.Callback()));
  third.Call("print", "heard");
  ASSERT_EQ(third.session().SyncAll(), OkStatus());
  EXPECT_THAT(third_kept.Of(1), ElementsAre("heard"));
  EXPECT_TRUE(first_kept.IsEmpty());
}

// There is nothing between them and the client's own output.
TEST(OutputOfThreadsTest, GoesWhereTheClientPrints) {
  KeptOutput kept;
  SessionOptions options;
  options.on_output = kept.Callback();
  auto session = SharedCluster(ClusterKind::kLocalThreads).Connect(options);
  ASSERT_TRUE(session.ok()) << session.status();
  PrintingClient client(*std::move(session));
  ::testing::internal::CaptureStdout();
  client.Call("print", "from a thread");
  const Status synced = client.session().SyncAll();
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), ::testing::HasSubstr("from a thread\n"));
  EXPECT_EQ(synced, OkStatus());
  EXPECT_TRUE(kept.IsEmpty());
}

TEST(OutputRecoveryTest, GoesOnAfterARestartOfTheControllerAndWithAnotherWorker) {
  ClusterOptions two_workers;
  two_workers.workers = 2;
  two_workers.worker.module_path = {ModuleDirectory()};
  auto cluster = Cluster::Start(ClusterKind::kTcpProcesses, two_workers);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  KeptOutput kept;
  SessionOptions options;
  options.on_output = kept.Callback();
  auto session = (*cluster)->Connect(options);
  ASSERT_TRUE(session.ok()) << session.status();
  PrintingClient client(*std::move(session));
  client.Call("print", "before");
  ASSERT_EQ(client.session().SyncAll(), OkStatus());

  ASSERT_EQ((*cluster)->RestartController(), OkStatus());
  ASSERT_EQ(client.session().AwaitWorkers(30s), OkStatus());
  ASSERT_EQ(client.session().Reset(), OkStatus());
  client.Call("print", "restarted");
  ASSERT_EQ(client.session().SyncAll(), OkStatus());

  ASSERT_EQ((*cluster)->ReplaceWorker(1), OkStatus());
  EXPECT_FALSE(client.session().SyncAll().ok());
  ASSERT_EQ(client.session().AwaitWorkers(30s), OkStatus());
  ASSERT_EQ(client.session().Reset(), OkStatus());
  client.Load();
  client.Call("print", "replaced");
  ASSERT_EQ(client.session().SyncAll(), OkStatus());
  for (Rank rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(kept.Of(rank), ElementsAre("before", "restarted", "replaced")) << rank;
  }
  EXPECT_EQ(client.session().Close(), OkStatus());
  EXPECT_EQ((*cluster)->Stop(), OkStatus());
}

}  // namespace
}  // namespace lockstep::testing
