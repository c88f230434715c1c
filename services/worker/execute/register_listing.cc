#include "services/worker/execute/register_listing.h"

#include <algorithm>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <tuple>
#include <utility>

#include "runtime/base/device.h"
#include "runtime/base/dtype.h"
#include "runtime/plan/layout.h"
#include "runtime/registers/register_file.h"
#include "runtime/registers/value.h"

namespace lockstep::worker {
namespace {

// Of names and details.
constexpr size_t kMaxTextBytes = 255;

struct Found {
  size_t session = 0;
  RegisterId id;
  const registers::Value* value = nullptr;
  size_t bytes = 0;
  registers::LayoutPtr layout;

  // The one that holds more comes first; of equal ones the lower id, so that all ranks tell of the
  // same.
  bool operator<(const Found& other) const {
    return std::tuple(other.bytes, session, id) < std::tuple(bytes, other.session, other.id);
  }
};

std::string DetailOf(const registers::Value& value) {
  if (const auto* object = value.As<std::shared_ptr<registers::Object>>()) {
    return *object == nullptr ? "" : (*object)->Describe().substr(0, kMaxTextBytes);
  }
  const auto items = [](size_t count) {
    return std::to_string(count) + (count == 1 ? " item" : " items");
  };
  if (const auto* list = value.As<std::shared_ptr<const registers::List>>()) {
    return items((*list)->size());
  }
  if (const auto* map = value.As<std::shared_ptr<const registers::Map>>()) {
    return items((*map)->size());
  }
  return "";
}

// The layouts of one answer, in words; those that are equal, once.
class LayoutTable {
 public:
  void Tell(const registers::LayoutPtr& layout, HeldRegister& held) {
    if (layout == nullptr) return;
    std::shared_ptr<const HeldLayout>& told = by_address_[layout.get()];
    if (told == nullptr && named_ranks_ < kMostListedLayoutRanks) told = Add(*layout);
    held.layout = told;
    held.layout_left_out = told == nullptr;
  }

 private:
  std::shared_ptr<const HeldLayout> Add(const plan::Layout& layout) {
    std::shared_ptr<const HeldLayout>& told = by_text_[layout.ToString()];
    if (told != nullptr) return told;
    auto made = std::make_shared<HeldLayout>();
    made->dtype = Name(layout.dtype());
    made->shape.assign(layout.shape().dims().begin(), layout.shape().dims().end());
    for (const plan::MeshAxis& axis : layout.mesh().axes()) {
      made->axes.push_back({axis.name, static_cast<uint32_t>(axis.size)});
    }
    made->ranks.assign(layout.mesh().ranks().begin(), layout.mesh().ranks().end());
    for (const plan::Placement& placement : layout.placements()) {
      made->placements.push_back(placement.ToString());
    }
    named_ranks_ += made->ranks.size();
    return told = std::move(made);
  }

  // Most registers share theirs.
  std::map<const plan::Layout*, std::shared_ptr<const HeldLayout>> by_address_;
  std::map<std::string, std::shared_ptr<const HeldLayout>> by_text_;
  size_t named_ranks_ = 0;
};

// What is counted apart is told of all that have it, too.
size_t BytesApart(const registers::Value& value) {
  if (const auto* tensor = value.As<tensor::Tensor>()) {
    const bool is_apart = !tensor->IsNull() && tensor->storage()->is_counted_apart();
    return is_apart ? tensor->size_bytes() : 0;
  }
  const auto* object = value.As<std::shared_ptr<registers::Object>>();
  return object == nullptr || *object == nullptr ? 0 : (*object)->BytesApart();
}

HeldRegister Describe(const Found& found) {
  HeldRegister held;
  held.id = found.id;
  held.type = registers::TypeName(*found.value);
  held.bytes = found.bytes;
  held.detail = DetailOf(*found.value);
  const auto* tensor = found.value->As<tensor::Tensor>();
  if (tensor == nullptr || tensor->IsNull()) return held;
  held.dtype = Name(tensor->dtype());
  held.shape.assign(tensor->shape().dims().begin(), tensor->shape().dims().end());
  held.device = ToString(tensor->device());
  return held;
}

}  // namespace

std::vector<SessionHoldings> ListRegisters(
    const std::vector<std::shared_ptr<SessionState>>& sessions,
    const RegisterQueryQueue::Question& question) {
  const size_t most = std::min(question.most, kMostListedRegisters);
  std::vector<SessionHoldings> holdings;
  std::vector<std::map<RegisterId, std::string>> names;
  // On top is the one that would be left out next. A heap, because there may be a million.
  std::priority_queue<Found> chosen;
  for (const auto& session : sessions) {
    if (question.session != SessionId() && session->id() != question.session) continue;
    const registers::RegisterFile& file = session->registers();
    holdings.push_back({session->id(), file.live_registers(), file.held_bytes(), {}});
    auto& own_names = names.emplace_back();
    for (const auto& [name, named] : session->names()) {
      own_names[named.id] = name.substr(0, kMaxTextBytes);
    }
    if (most == 0) continue;
    file.ForEachLive([&](RegisterId id, const registers::Value& value, size_t bytes) {
      Found found{holdings.size() - 1, id, &value, bytes + BytesApart(value), nullptr};
      if (chosen.size() == most && !(found < chosen.top())) return;
      found.layout = file.LayoutOf(id);
      chosen.push(std::move(found));
      if (chosen.size() > most) chosen.pop();
    });
  }
  LayoutTable layouts;
  for (; !chosen.empty(); chosen.pop()) {
    HeldRegister held = Describe(chosen.top());
    layouts.Tell(chosen.top().layout, held);
    const auto name = names[chosen.top().session].find(held.id);
    if (name != names[chosen.top().session].end()) held.name = name->second;
    holdings[chosen.top().session].listed.push_back(std::move(held));
  }
  for (SessionHoldings& session : holdings) {
    std::sort(session.listed.begin(), session.listed.end(),
              [](const HeldRegister& a, const HeldRegister& b) { return a.id < b.id; });
  }
  return holdings;
}

}  // namespace lockstep::worker
