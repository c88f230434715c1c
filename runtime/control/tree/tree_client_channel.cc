#include "runtime/control/tree/tree_client_channel.h"

#include <utility>

#include "runtime/base/deadline.h"

namespace lockstep::control {

TreeClientChannel::~TreeClientChannel() {
  if (!has_tree()) return;
  {
    std::lock_guard lock(mutex_);
    is_ending_ = has_tasks_ = true;
    tasks_.Signal();
  }
  thread_.join();
}

void TreeClientChannel::Begin(const TreeOffer& offer) {
  if (offer.world == 0 && !has_tree()) return;
  {
    std::lock_guard lock(mutex_);
    offer_ = offer;
    has_tasks_ = true;
    tasks_.Signal();
  }
  if (!has_tree()) thread_ = std::thread([this] { Run(); });
}

bool TreeClientChannel::HasInput() { return has_tree() ? count_ > 0 : direct_.HasInput(); }

void TreeClientChannel::BeginSleep() {
  if (!has_tree()) direct_.BeginSleep();
}

void TreeClientChannel::EndSleep() {
  if (!has_tree()) direct_.EndSleep();
}

Status TreeClientChannel::Send(const Message& message) {
  if (!has_tree()) return direct_.Send(message);
  std::lock_guard lock(mutex_);
  outgoing_.push_back(message);
  has_tasks_ = true;
  tasks_.Signal();
  return OkStatus();
}

bool TreeClientChannel::Receive(Message* message) {
  if (!has_tree()) return direct_.Receive(message);
  if (count_ == 0) return false;
  std::lock_guard lock(mutex_);
  *message = std::move(incoming_.front());
  incoming_.pop_front();
  if (--count_ == 0) input_.Clear();
  return true;
}

void TreeClientChannel::Deliver(Message message) {
  std::lock_guard lock(mutex_);
  incoming_.push_back(std::move(message));
  if (count_++ == 0) input_.Signal();
}

bool TreeClientChannel::TakeTasks(TreeNode& node) {
  std::deque<Message> outgoing;
  std::optional<TreeOffer> offer;
  bool go_on = true;
  {
    std::lock_guard lock(mutex_);
    tasks_.Clear();
    has_tasks_ = false;
    outgoing.swap(outgoing_);
    offer.swap(offer_);
    go_on = !is_ending_;
  }
  // What was said in the world before comes first, wherever it goes.
  if (offer.has_value()) node.Begin(*offer);
  for (const Message& message : outgoing) node.Send(message);
  if (!go_on) node.End();
  return go_on;
}

void TreeClientChannel::Run() {
  TreeNode node(direct_, connections_, [this](Message message) { Deliver(std::move(message)); });
  InputWaiter waiter(poll_before_sleep_);
  bool go_on = true;
  while (go_on) {
    if (has_tasks_) go_on = TakeTasks(node);
    node.Go();
    if (!go_on || has_tasks_) continue;
    const auto channels = node.channels();
    const int descriptors[] = {tasks_.fd()};
    waiter.Wait(channels, descriptors, node.LookAtParent(Deadline::Clock::now()));
  }
}

}  // namespace lockstep::control
