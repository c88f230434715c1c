#include "services/worker/execute/collective_command.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string_view>

#include "runtime/registers/register_file.h"
#include "runtime/tensor/storage.h"
#include "runtime/tensor/tensor.h"

namespace lockstep::worker {
namespace {

using collective::Counts;
using collective::ReduceOp;

constexpr Rank kOnlyRank[] = {0};

// Every operation fails; `writing` says whether a peer is left that may go on writing.
class FailingCommunicator : public collective::Communicator {
 public:
  explicit FailingCommunicator(const bool& writing) : writing_(writing) {}

  Rank rank() const override { return 0; }
  int size() const override { return 1; }
  absl::Span<const Rank> members() const override { return kOnlyRank; }
  std::string_view backend() const override { return "failing"; }
  bool RecvMayStillChange() const override { return writing_; }
  void ReportAs(std::string) override {}
  void Leave(const Status&) override {}
  void Abort(const Status&) override {}

 protected:
  Status DoRun(const collective::Operation&, Deadline) override {
    return Unavailable("rank 1 gave up");
  }
  StatusOr<std::unique_ptr<Communicator>> DoSplit(absl::Span<const Rank>, uint64_t, Deadline,
                                                  const std::atomic<bool>*) override {
    return std::make_unique<FailingCommunicator>(writing_);
  }

 private:
  const bool& writing_;
};

// After a reset, registers have the values they had; but not if a peer may still write to one.
TEST(AbandonedDestinationTest, ADestinationThatMayStillChangeHoldsNoValueAnyMore) {
  for (const bool writing : {false, true}) {
    registers::RegisterTotals totals;
    registers::RegisterFile registers(&totals);
    SessionState session(control::SessionRecord{.id = SessionId(7)}, &registers);
    FailingCommunicator world(writing);
    const auto allocator = tensor::NewHeapAllocator();
    const RegisterId source{1, 1};
    const RegisterId destination{2, 1};
    for (const RegisterId id : {source, destination}) {
      auto tensor = tensor::Tensor::Empty(*allocator, DType::kFloat32, Shape({4}));
      ASSERT_TRUE(tensor.ok()) << tensor.status();
      ASSERT_TRUE(registers.Write(id, *tensor).ok());
    }
    capnp::MallocMessageBuilder message;
    auto command = message.initRoot<wire::Command>().initCollective();
    command.setKind(wire::CollectiveKind::ALL_REDUCE);
    command.setSource(source.Packed());
    command.setDestination(destination.Packed());

    control::ActivityPage activity;
    const WorldLinks links{&world};
    const auto host = tensor::NewHostProcessor(*allocator);
    const tensor::Processors places{host.get()};
    const CollectiveContext context{
        0, 1, links, places, session, activity, Deadline::After(std::chrono::seconds(20))};
    const Status status = ExecuteCollective(context, command.asReader());
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
    EXPECT_TRUE(registers.Read(source).ok());
    EXPECT_EQ(registers.Read(destination).ok(), !writing);
  }
}

}  // namespace
}  // namespace lockstep::worker
