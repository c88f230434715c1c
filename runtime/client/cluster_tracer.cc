#include "runtime/client/cluster_tracer.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "runtime/base/host_identity.h"
#include "runtime/client/controller_query.h"
#include "runtime/control/error_codec.h"
#include "runtime/control/input_waiter.h"
#include "runtime/control/message_codec.h"
#include "runtime/control/value_codec.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

constexpr int kRoundTrips = 8;
constexpr Rank kController = -1;

void SetTime(trace::Event& event, const trace::ClockLine& clock) {
  event.begin = clock.ToReference(event.begin);
  event.end = clock.ToReference(event.end);
}

auto FetchOf(Rank rank, uint16_t thread, uint64_t from) {
  return [=](wire::TraceRequest::Builder request) {
    auto fetch = request.initFetch();
    fetch.setRank(rank);
    fetch.setThread(thread);
    fetch.setFrom(from);
  };
}

// Steps of plans that went on beside others are drawn below them.
void SeparateLanes(std::vector<TraceThread>* threads) {
  TraceThread exchanges;
  exchanges.name = "exchanges of plans";
  for (TraceThread& thread : *threads) {
    const auto beside = std::stable_partition(
        thread.events.begin(), thread.events.end(),
        [](const trace::Event& event) { return event.step == 0 || event.lane == 0; });
    exchanges.events.insert(exchanges.events.end(), beside, thread.events.end());
    thread.events.erase(beside, thread.events.end());
  }
  if (!exchanges.events.empty()) threads->push_back(std::move(exchanges));
}

// What this process has recorded, by the threads that did.
std::vector<TraceThread> ThreadsOf(const trace::Ring& ring) {
  std::map<uint16_t, TraceThread> threads;
  for (size_t i = 0; i < ring.size(); ++i) {
    const trace::Event event = ring.at(i);
    threads[event.lane].events.push_back(event);
  }
  std::vector<TraceThread> list;
  threads[0].name = "commands to be sent";
  for (auto& [lane, thread] : threads) {
    if (lane != 0) thread.name = "thread " + std::to_string(list.size());
    list.push_back(std::move(thread));
  }
  list.front().lost = ring.lost();
  return list;
}

}  // namespace

StatusOr<std::unique_ptr<ClusterTracer>> ClusterTracer::Start(
    const ControllerAddress& controller, const TraceOptions& options,
    std::shared_ptr<control::ZmqContext> context) {
  if (context == nullptr) context = control::ZmqContext::Create();
  LOCKSTEP_ASSIGN_OR_RETURN(auto channel, client::Connect(controller, std::move(context)));
  std::unique_ptr<ClusterTracer> tracer(
      new ClusterTracer(std::move(channel), controller.endpoint, options));
  {
    std::lock_guard lock(tracer->mutex_);
    LOCKSTEP_RETURN_IF_ERROR(tracer->Begin());
  }
  tracer->keeper_ = std::thread([self = tracer.get()] { self->Keep(); });
  return tracer;
}

ClusterTracer::ClusterTracer(std::unique_ptr<control::ClientChannel> channel, std::string endpoint,
                             const TraceOptions& options)
    : endpoint_(std::move(endpoint)), options_(options), channel_(std::move(channel)) {}

ClusterTracer::~ClusterTracer() {
  StopKeeper();
  std::lock_guard lock(mutex_);
  if (trace_ != 0) End();
}

void ClusterTracer::End() {
  // The next trace may be started by another connection, whose request may be there sooner.
  constexpr std::chrono::seconds kPatience{1};
  const StatusOr<uint64_t> number =
      Send([](wire::TraceRequest::Builder request) { request.setEnd(); });
  Replies wanted;
  if (number.ok()) wanted[*number];
  (void)Await(wanted, Deadline::After(kPatience));
  trace_ = 0;
}

StatusOr<uint64_t> ClusterTracer::Send(Fill fill) {
  const uint64_t number = ++last_request_;
  LOCKSTEP_RETURN_IF_ERROR(channel_->Send(
      {control::EncodeMessage<wire::ClientMessage>([&](wire::ClientMessage::Builder message) {
        auto request = message.initTrace();
        request.setRequest(number);
        request.setTrace(trace_);
        fill(request);
      })}));
  return number;
}

Status ClusterTracer::Await(Replies& wanted, Deadline deadline) {
  control::InputWaiter waiter{std::chrono::microseconds(0)};
  control::Channel* const channels[] = {channel_.get()};
  const auto all_here = [&] {
    return std::all_of(wanted.begin(), wanted.end(),
                       [](const auto& one) { return one.second.has_value(); });
  };
  Deadline next_renewal = Deadline::After(lease_ / 4);
  while (!all_here()) {
    control::Message message;
    if (channel_->Receive(&message)) {
      LOCKSTEP_RETURN_IF_ERROR(TakeIn(message, wanted));
      continue;
    }
    if (waiter.Wait(channels, {}, deadline.Earlier(next_renewal))) continue;
    if (deadline.Expired()) return OkStatus();
    // A rank that does not answer may take longer than the lease.
    Renew();
    next_renewal = Deadline::After(lease_ / 4);
  }
  return OkStatus();
}

Status ClusterTracer::TakeIn(const control::Message& message, Replies& wanted) {
  if (message.empty()) return OkStatus();
  return control::DecodeMessage<wire::ControllerMessage>(
      message[0], [&](wire::ControllerMessage::Reader reader) -> Status {
        LOCKSTEP_RETURN_IF_ERROR(client::CheckIsAnswer(reader));
        if (!reader.isTrace()) return OkStatus();
        const auto answer = reader.getTrace();
        Status error;
        if (answer.hasError()) error = control::ReadError(answer.getError()).ToStatus();
        const auto asked = wanted.find(answer.getRequest());
        // Too late, no call waits for it; of a renewal, it says that there is nothing to renew.
        if (asked == wanted.end()) {
          return answer.getRequest() == last_renewal_ ? error : OkStatus();
        }
        Reply& reply = asked->second.emplace();
        reply.error = std::move(error);
        reply.trace = answer.getTrace();
        reply.lease_millis = answer.getLeaseMillis();
        reply.workers = answer.getWorkers();
        reply.received = answer.getClock().getReceived();
        reply.answered = answer.getClock().getAnswered();
        if (message.size() > 1) reply.body = message[1];
        return OkStatus();
      });
}

Status ClusterTracer::Check() {
  std::lock_guard lock(mutex_);
  return TakeInAll();
}

Status ClusterTracer::TakeInAll() {
  Replies none;
  control::Message message;
  while (channel_->Receive(&message)) LOCKSTEP_RETURN_IF_ERROR(TakeIn(message, none));
  return OkStatus();
}

void ClusterTracer::Renew() {
  if (trace_ == 0) return;
  // Should it fail, the next request finds out.
  const StatusOr<uint64_t> request =
      Send([](wire::TraceRequest::Builder renewal) { renewal.setRenew(); });
  if (request.ok()) last_renewal_ = *request;
}

StatusOr<ClusterTracer::Reply> ClusterTracer::Ask(Fill fill) {
  Replies wanted;
  const StatusOr<uint64_t> sent = Send(fill);
  if (!sent.ok()) {
    // What was heard last may say why.
    LOCKSTEP_RETURN_IF_ERROR(TakeInAll());
    return sent.status();
  }
  const uint64_t request = *sent;
  wanted[request];
  LOCKSTEP_RETURN_IF_ERROR(Await(wanted, Deadline::After(options_.timeout)));
  std::optional<Reply>& reply = wanted[request];
  if (!reply.has_value()) {
    return Unavailable("the controller at ", endpoint_, " has not answered for ",
                       options_.timeout.count(), " ms");
  }
  LOCKSTEP_RETURN_IF_ERROR(reply->error);
  return *std::move(reply);
}

Status ClusterTracer::Begin() {
  LOCKSTEP_ASSIGN_OR_RETURN(const uint64_t request, Send([&](wire::TraceRequest::Builder start) {
                              start.setStart(options_.events);
                            }));
  // The first answer also tells whether we are let in.
  LOCKSTEP_ASSIGN_OR_RETURN(
      const control::Message first,
      client::AwaitFirstAnswer(*channel_, endpoint_, std::max(options_.timeout, milliseconds(1))));
  Replies wanted;
  wanted[request];
  LOCKSTEP_RETURN_IF_ERROR(TakeIn(first, wanted));
  const std::optional<Reply>& reply = wanted[request];
  if (!reply.has_value())
    return Internal("the controller has not answered what it was asked first");
  LOCKSTEP_RETURN_IF_ERROR(reply->error);
  trace_ = reply->trace;
  workers_ = reply->workers;
  lease_ = milliseconds(std::max<uint32_t>(reply->lease_millis, 4));
  // Once they have answered, they record. Who does not is missing in the end.
  LOCKSTEP_RETURN_IF_ERROR(AskRanks().status());
  return CompareClocks();
}

StatusOr<std::vector<StatusOr<trace::Events>>> ClusterTracer::AskRanks() {
  std::vector<uint64_t> requests;
  Replies wanted;
  for (Rank rank = 0; rank < static_cast<Rank>(workers_); ++rank) {
    LOCKSTEP_ASSIGN_OR_RETURN(const uint64_t request, Send(FetchOf(rank, 0, 0)));
    requests.push_back(request);
    wanted[request];
  }
  LOCKSTEP_RETURN_IF_ERROR(Await(wanted, Deadline::After(options_.timeout)));
  std::vector<StatusOr<trace::Events>> answers;
  for (const uint64_t request : requests) {
    const std::optional<Reply>& reply = wanted[request];
    if (!reply.has_value()) {
      answers.emplace_back(
          DeadlineExceeded("its worker has not answered for ", options_.timeout.count(), " ms"));
    } else if (reply->error.code() == StatusCode::kResourceExhausted) {
      // Since the recording began it has not answered what it was asked then.
      answers.emplace_back(
          DeadlineExceeded("its worker has not answered since the recording began"));
    } else if (!reply->error.ok()) {
      answers.emplace_back(reply->error);
    } else {
      answers.push_back(trace::DecodeEvents(reply->body));
    }
  }
  return answers;
}

StatusOr<trace::Events> ClusterTracer::Fetch(Rank rank, uint16_t thread, uint64_t from) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Reply reply, Ask(FetchOf(rank, thread, from)));
  return trace::DecodeEvents(reply.body);
}

TraceProcess ClusterTracer::Collect(Rank rank, StatusOr<trace::Events> first,
                                    trace::ClockReport& clock) {
  TraceProcess process;
  process.role =
      rank == kController ? TraceProcess::Role::kController : TraceProcess::Role::kWorker;
  process.rank = rank;
  if (first.ok()) {
    process.host = first->host_name;
    process.pid = first->pid;
    clock = {first->host_id, first->clocks};
  }
  StatusOr<trace::Events> part = std::move(first);
  const uint16_t threads = part.ok() ? part->threads : 1;
  for (uint16_t i = 0; i < threads; ++i) {
    if (i > 0) part = Fetch(rank, i, 0);
    TraceThread& thread = process.threads.emplace_back();
    while (part.ok()) {
      thread.name = part->thread_name;
      thread.lost = part->lost;
      thread.events.insert(thread.events.end(), part->events.begin(), part->events.end());
      // More than it could have kept is an answer without end.
      if (part->next == 0 || part->next > options_.events || part->events.empty()) break;
      part = Fetch(rank, i, part->next);
    }
    if (!part.ok()) {
      process.missing = lockstep::Message(part.status());
      break;
    }
  }
  if (process.role == TraceProcess::Role::kWorker) SeparateLanes(&process.threads);
  return process;
}

Status ClusterTracer::CompareClocks() {
  trace::ClockComparison comparison;
  for (int i = 0; i < kRoundTrips; ++i) {
    const int64_t asked = trace::Now();
    LOCKSTEP_ASSIGN_OR_RETURN(const Reply reply, Ask([&](wire::TraceRequest::Builder request) {
                                request.setClock(asked);
                              }));
    comparison.Add(asked, reply.received, reply.answered, trace::Now());
  }
  if (const auto best = comparison.best()) own_clock_.push_back(*best);
  return OkStatus();
}

StatusOr<Trace> ClusterTracer::Stop(const trace::Ring* own) {
  StopKeeper();
  std::lock_guard lock(mutex_);
  LOCKSTEP_RETURN_IF_ERROR(
      Ask([](wire::TraceRequest::Builder request) { request.setStop(); }).status());
  LOCKSTEP_RETURN_IF_ERROR(CompareClocks());
  LOCKSTEP_ASSIGN_OR_RETURN(std::vector<StatusOr<trace::Events>> firsts, AskRanks());

  Trace trace;
  std::vector<trace::ClockReport> clocks(1);
  trace.processes.push_back(Collect(kController, Fetch(kController, 0, 0), clocks.back()));
  for (Rank rank = 0; rank < static_cast<Rank>(workers_); ++rank) {
    trace.processes.push_back(
        Collect(rank, std::move(firsts[static_cast<size_t>(rank)]), clocks.emplace_back()));
  }
  if (own != nullptr) {
    TraceProcess& process = trace.processes.emplace_back();
    process.role = TraceProcess::Role::kClient;
    process.host = ThisHost().name;
    process.pid = getpid();
    process.threads = ThreadsOf(*own);
    clocks.push_back({ThisHost().id, own_clock_});
  }
  End();

  const std::vector<trace::ClockLine> lines = trace::AlignClocks(clocks);
  for (size_t i = 0; i < lines.size(); ++i) {
    TraceProcess& process = trace.processes[i];
    process.clock_uncertainty = std::chrono::nanoseconds(lines[i].uncertainty());
    process.clock_is_known = lines[i].is_known() || !process.missing.empty();
    for (TraceThread& thread : process.threads) {
      for (trace::Event& event : thread.events) SetTime(event, lines[i]);
    }
  }
  // As commands go: from the client over the controller to the ranks.
  if (own != nullptr) {
    std::rotate(trace.processes.begin(), trace.processes.end() - 1, trace.processes.end());
  }
  return trace;
}

void ClusterTracer::StopKeeper() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (keeper_.joinable()) keeper_.join();
}

void ClusterTracer::Keep() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, lease_ / 4, [this] { return stopping_; })) {
    Renew();
  }
}

}  // namespace lockstep
