#include "runtime/client/cluster_tracer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "runtime/base/random.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/input_waiter.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/zmq/zmq_channel.h"
#include "runtime/trace/events_codec.h"
#include "schemas/session.capnp.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// Passes on what its two ranks have recorded: rank 1 is lost.
class TracedController {
 public:
  explicit TracedController(const std::shared_ptr<control::ZmqContext>& context)
      : server_(*control::ZmqListen(context, "inproc://traced-" + RandomHex(8))),
        thread_([this] { Run(); }) {}
  ~TracedController() {
    stopping_ = true;
    thread_.join();
  }
  std::string endpoint() const { return server_->endpoint(); }

 private:
  void Run() {
    control::InputWaiter waiter{0us};
    control::Channel* const channels[] = {server_.get()};
    while (!stopping_) {
      waiter.Wait(channels, {}, Deadline::After(10ms));
      control::PeerName client;
      control::Message message;
      while (server_->Receive(&client, &message)) Answer(client, message);
    }
  }
  void Answer(const control::PeerName& client, const control::Message& message) {
    const Status read = control::DecodeMessage<wire::ClientMessage>(
        message[0], [&](wire::ClientMessage::Reader asked) {
          const auto request = asked.getTrace();
          const bool is_fetch = request.isFetch();
          const Rank rank = is_fetch ? request.getFetch().getRank() : -1;
          control::Message reply = {
              control::EncodeMessage<wire::ControllerMessage>([&](auto controller) {
                auto answer = controller.initTrace();
                answer.setRequest(request.getRequest());
                answer.setTrace(3);
                answer.setWorkers(2);
                answer.setLeaseMillis(10'000);
                if (rank != 1) return;
                control::WriteError(answer.initError(),
                                    control::ErrorOf(Unavailable("it is lost")));
              })};
          if (is_fetch && rank != 1) reply.push_back(trace::EncodeEvents(EventsOf(rank)));
          return server_->Send({&client, 1}, reply);
        });
    EXPECT_EQ(read, OkStatus());
  }
  static trace::Events EventsOf(Rank rank) {
    trace::Events events;
    events.rank = rank;
    events.threads = 1;
    events.thread_name = "executing";
    events.events.resize(1);
    return events;
  }

  const std::unique_ptr<control::ServerChannel> server_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

TEST(ClusterTracerTest, RanksThatAreLostAreMissingAndOthersAreNot) {
  const auto context = control::ZmqContext::Create();
  TracedController controller(context);
  auto tracer = ClusterTracer::Start(controller.endpoint(), {}, context);
  ASSERT_TRUE(tracer.ok()) << tracer.status();
  const StatusOr<Trace> trace = (*tracer)->Stop();
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->processes.size(), 3u) << "the controller, and two ranks";
  for (const size_t there : {0, 1}) {
    const TraceProcess& process = trace->processes[there];
    EXPECT_EQ(process.missing, "");
    ASSERT_EQ(process.threads.size(), 1u);
    EXPECT_EQ(process.threads[0].events.size(), 1u);
  }
  EXPECT_THAT(trace->processes[2].missing, HasSubstr("it is lost"));
}

}  // namespace
}  // namespace lockstep
