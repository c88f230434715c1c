#include "services/worker/output/output_forwarder.h"

#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

#include "runtime/control/message_codec.h"
#include "schemas/control.capnp.h"

namespace lockstep::worker {
namespace {

constexpr size_t kBufferBytes = size_t{64} << 10;
// Lines that come in quick succession travel together.
constexpr std::chrono::milliseconds kGatherFor{10};
constexpr int kForEver = -1;

}  // namespace

StatusOr<std::unique_ptr<OutputForwarder>> OutputForwarder::Create() {
  LOCKSTEP_ASSIGN_OR_RETURN(auto redirect, OutputRedirect::Create());
  return std::unique_ptr<OutputForwarder>(new OutputForwarder(std::move(redirect)));
}

OutputForwarder::OutputForwarder(std::unique_ptr<OutputRedirect> redirect)
    : redirect_(std::move(redirect)),
      lines_([this](control::Frame lines, uint64_t count) { Send(std::move(lines), count); }),
      buffer_(kBufferBytes) {
  thread_ = std::thread([this] { Run(); });
}

OutputForwarder::~OutputForwarder() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_up_.Signal();
  thread_.join();
}

void OutputForwarder::Begin(SessionId session, control::ClientChannel& controller) {
  std::lock_guard lock(mutex_);
  session_ = session;
  lines_.Begin(session, OutputLines::Clock::now());
  controller_ = &controller;
  redirect_->Begin();
}

void OutputForwarder::End() {
  // Before the lock: it may have to wait for the thread to make room in the pipe.
  std::fflush(stdout);
  std::lock_guard lock(mutex_);
  redirect_->End();
  for (const OutputStream stream : kOutputStreams) {
    // Not until it is empty: a process that a function has left behind may go on for ever.
    size_t left = redirect_->Available(stream);
    while (left > 0 && TakeSome(stream, left)) left -= std::min(left, kBufferBytes);
  }
  lines_.End(OutputLines::Clock::now());
  controller_ = nullptr;
}

void OutputForwarder::Run() {
  pollfd set[] = {{redirect_->wait_fd(OutputStream::kStdout), POLLIN, 0},
                  {redirect_->wait_fd(OutputStream::kStderr), POLLIN, 0},
                  {wake_up_.fd(), POLLIN, 0}};
  int timeout = kForEver;
  while (true) {
    poll(set, std::size(set), timeout);
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    for (const OutputStream stream : kOutputStreams) (void)TakeSome(stream, kBufferBytes);
    const auto now = OutputLines::Clock::now();
    if (now - last_look_ >= kGatherFor) {
      lines_.SendGathered();
      last_look_ = now;
    }
    timeout = lines_.has_gathered() ? static_cast<int>(kGatherFor.count()) : kForEver;
  }
}

bool OutputForwarder::TakeSome(OutputStream stream, size_t most) {
  const std::string_view bytes =
      redirect_->Read(stream, absl::MakeSpan(buffer_.data(), std::min(most, buffer_.size())));
  if (controller_ != nullptr) lines_.Append(stream, bytes, OutputLines::Clock::now());
  return !bytes.empty();
}

void OutputForwarder::Send(control::Frame lines, uint64_t count) {
  // If the controller is gone, the executing thread will hear of it.
  (void)controller_->Send(
      {control::EncodeMessage<wire::WorkerMessage>([&](wire::WorkerMessage::Builder message) {
         auto output = message.initOutput();
         output.setSession(session_.value);
         output.setLines(count);
       }),
       std::move(lines)});
}

}  // namespace lockstep::worker
