// Memory that is lent to a client: nothing else comes to be where it may still write.
#include <gmock/gmock.h>

#include <string>

#include "tests/support/child.h"
#include "tests/unit/services/worker/execute/executor_under_test.h"

namespace lockstep::worker {
namespace {

using support::Child;
using testing::HasSubstr;

class LoansTest : public ExecutorTest {
 protected:
  static constexpr RegisterId kLoan{3, 1};
  static constexpr RegisterId kOtherLoan{4, 1};

  void Lend(bool is_new, int64_t size_bytes = 1000, RegisterId loan = {}) {
    Run([&](auto command) {
      auto lend = command.initLend();
      lend.setLoan(loan.IsNone() ? 0 : loan.Packed());
      lend.setRegister(kTensor.Packed());
      lend.setIsNew(is_new);
      lend.setDtype(wire::DType::UINT8);
      lend.initShape(1).set(0, size_bytes);
    });
  }
  void LendAs(RegisterId loan) { Lend(/*is_new=*/false, 0, loan); }
  void EndLoan(RegisterId loan = kTensor) {
    Run([&](auto command) {
      command.setOnlyRank(0);
      command.setEndLoan(loan.Packed());
    });
  }
  uint64_t Offset() {
    uint64_t offset = 0;
    ReadLocation([&](wire::TensorLocation::Reader location) { offset = location.getOffset(); });
    return offset;
  }
  Status Refusal() {
    Status refusal;
    ReadLocation([&](wire::TensorLocation::Reader location) {
      if (location.hasRefusal()) refusal = control::ReadError(location.getRefusal()).ToStatus();
    });
    return refusal;
  }
  bool HasValue() { return executor_->sessions().Find(kSession)->registers().Read(kTensor).ok(); }
  size_t held_bytes() { return executor_->sessions().Find(kSession)->registers().held_bytes(); }
};

TEST_F(LoansTest, WhatIsLentIsTheRegistersTensor) {
  OpenSession();
  Lend(/*is_new=*/true);
  EXPECT_EQ(Segment(), arena_->name());
  const uint64_t offset = Offset();
  EndLoan();
  Locate();
  EXPECT_EQ(Offset(), offset);
  EXPECT_TRUE(Failure().ok()) << Failure();
  EXPECT_EQ(held_bytes(), 1000u);
  Release(kTensor);
  EXPECT_EQ(live(), 0u);
}

TEST_F(LoansTest, ATensorThatIsThereIsLentWhereItLies) {
  OpenSession();
  MakeTensor();
  Locate();
  const uint64_t offset = Offset();
  Lend(/*is_new=*/false);
  EXPECT_EQ(Segment(), arena_->name());
  EXPECT_EQ(Offset(), offset);
  EXPECT_EQ(live(), 1u);
}

TEST_F(LoansTest, DroppingTheNameEndsTheLoan) {
  OpenSession();
  Lend(/*is_new=*/true);
  Release(kTensor);
  EXPECT_EQ(live(), 0u);
  EXPECT_EQ(held_bytes(), 0u);
}

TEST_F(LoansTest, WhatIsLentIsKeptAndCountedWhenItsRegisterIsWrittenAgain) {
  OpenSession();
  Lend(/*is_new=*/true);
  MakeTensor();
  EXPECT_TRUE(Failure().ok()) << Failure();
  EXPECT_EQ(live(), 2u);
  EXPECT_EQ(held_bytes(), 2000u);
  EndLoan();
  EXPECT_EQ(live(), 1u);
  EXPECT_EQ(held_bytes(), 1000u);
  EXPECT_TRUE(HasValue());
}

// A stopped peer may still write to the destination of a collective, and the client to what it was
// lent: the one gives its register up, the other keeps the memory.
TEST_F(LoansTest, WhatIsLentIsKeptWhenAFailedCollectiveDropsItsRegister) {
  OpenSession();
  Lend(/*is_new=*/true);
  log_.outcome = Unavailable("rank 1 was stopped");
  log_.may_still_change = true;
  Run([](auto command) {
    auto collective = command.initCollective();
    collective.setKind(wire::CollectiveKind::ALL_REDUCE);
    collective.setSource(kTensor.Packed());
    collective.setDestination(kTensor.Packed());
  });
  EXPECT_EQ(Failure().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(HasValue());
  EXPECT_EQ(live(), 1u);
  EXPECT_EQ(held_bytes(), 1000u);
  Release(kTensor);
  EXPECT_EQ(live(), 0u);
  EXPECT_EQ(held_bytes(), 0u);
}

// The register has other names, and stays.
TEST_F(LoansTest, ALoanWithANameOfItsOwnEndsWhenThatIsDropped) {
  OpenSession();
  MakeTensor();
  for (int step = 0; step < 4; ++step) {
    LendAs({3, static_cast<uint32_t>(step + 1)});
    EXPECT_EQ(held_bytes(), 1000u);
    MakeTensor();
    EXPECT_EQ(live(), 2u);
    EXPECT_EQ(held_bytes(), 2000u);
    Release({3, static_cast<uint32_t>(step + 1)});
    EXPECT_EQ(live(), 1u);
    EXPECT_EQ(held_bytes(), 1000u);
  }
  EXPECT_TRUE(HasValue());
  EXPECT_TRUE(executor_->sessions().Find(kSession)->loans().IsEmpty());
  EXPECT_TRUE(Failure().ok()) << Failure();
}

TEST_F(LoansTest, WhatIsLentTwiceIsKeptUntilBothLoansEndAndCountsOnce) {
  OpenSession();
  MakeTensor();
  LendAs(kLoan);
  LendAs(kOtherLoan);
  MakeTensor();
  EXPECT_EQ(held_bytes(), 2000u);
  EndLoan(kLoan);
  EXPECT_EQ(live(), 2u);
  EXPECT_EQ(held_bytes(), 2000u);
  EndLoan(kOtherLoan);
  EXPECT_EQ(live(), 1u);
  EXPECT_EQ(held_bytes(), 1000u);
}

TEST_F(LoansTest, NoTwoLoansHaveOneName) {
  OpenSession();
  MakeTensor();
  LendAs(kLoan);
  LendAs(kLoan);
  EXPECT_EQ(Failure().code(), StatusCode::kInvalidArgument);
}

// It would empty the register that it is of, and nothing would count what it keeps.
TEST_F(LoansTest, ALoanIsNotNamedInTheRegistersOwnPlace) {
  OpenSession();
  MakeTensor();
  LendAs({kTensor.index, kTensor.generation + 1});
  EXPECT_EQ(Failure().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(HasValue());
  EXPECT_TRUE(executor_->sessions().Find(kSession)->loans().IsEmpty());
}

// It would be kept for good: who has sent it does not do so again.
TEST_F(LoansTest, ALoanEndsInAFailedSessionAndInALaterGeneration) {
  OpenSession();
  Lend(/*is_new=*/true);
  GetFunction("no.such");
  EXPECT_FALSE(Failure().ok());
  EndLoan();
  EXPECT_TRUE(executor_->sessions().Find(kSession)->loans().IsEmpty());

  Run([](auto command) { command.initReset().setGeneration(1); }, /*of_controller=*/true);
  executor_->sessions().Find(kSession)->loans().Lend(
      kLoan, kTensor, *tensor::Tensor::Empty(*arena_, DType::kUInt8, {10}));
  EndLoan(kLoan);
  EXPECT_TRUE(executor_->sessions().Find(kSession)->loans().IsEmpty());
}

// What stays lent is kept, so it counts, however often and whatever is written beside it.
TEST_F(LoansTest, WhatIsKeptCountsWithinTheLimit) {
  const auto make = [&](int64_t size_bytes) {
    return *tensor::Tensor::Empty(*arena_, DType::kUInt8, {size_bytes});
  };
  registers::RegisterTotals totals;
  registers::RegisterFile registers(&totals, {.bytes = 1500});
  SessionState session(control::SessionRecord{.id = kSession}, &registers);
  const tensor::Tensor lent = make(1000);
  ASSERT_EQ(session.Write(kTensor, lent), OkStatus());
  session.loans().Lend(kLoan, kTensor, lent);
  ASSERT_EQ(session.Write(kTensor, make(500)), OkStatus());
  EXPECT_EQ(registers.held_bytes(), 1500u);
  session.EndLoan(kLoan);
  EXPECT_EQ(registers.held_bytes(), 500u);

  ASSERT_EQ(session.Write(kTensor, lent), OkStatus());
  session.loans().Lend(kLoan, kTensor, lent);
  for (const int64_t size_bytes : {600, 1000}) {
    EXPECT_EQ(session.Write(kTensor, make(size_bytes)).code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(registers.held_bytes(), 1000u);
    session.Reset(Generation(1));
  }
  ASSERT_EQ(session.Write(kTensor, make(500)), OkStatus());
  EXPECT_EQ(session.Write(kOtherLoan, make(1)).code(), StatusCode::kResourceExhausted);
  session.EndLoan(kLoan);
  EXPECT_EQ(registers.held_bytes(), 500u);
  EXPECT_EQ(session.Write(kOtherLoan, make(1)), OkStatus());
}

// The word that it was given back is lost with the controller that had it.
TEST_F(LoansTest, ALoanEndsWhenItsNameIsUsedAnew) {
  OpenSession();
  Lend(/*is_new=*/true);
  SessionState& session = *executor_->sessions().Find(kSession);
  ASSERT_EQ(session.Write({kTensor.index, kTensor.generation + 1}, registers::None{}), OkStatus());
  EXPECT_EQ(live(), 0u);
  EXPECT_EQ(held_bytes(), 0u);
  EXPECT_TRUE(session.loans().IsEmpty());

  // Also when nothing is written under the new one.
  session.loans().Lend(kLoan, kTensor, *tensor::Tensor::Empty(*arena_, DType::kUInt8, {10}));
  EXPECT_EQ(session.Release({kLoan.index, kLoan.generation + 1}), OkStatus());
  EXPECT_TRUE(session.loans().IsEmpty());
}

TEST_F(LoansTest, AClosedSessionsLoansAreKeptWhileItsClientLives) {
  for (const bool client_lost : {false, true}) {
    Child client;
    OpenSession(client.pid());
    Lend(/*is_new=*/true);
    ASSERT_EQ(Segment(), arena_->name());
    CloseSession(client_lost);
    EXPECT_EQ(live(), 1u);
    client.End();
    executor_->sessions().lent_memory().FreeEnded();
    EXPECT_EQ(live(), 0u);
  }
}

// A service may close many.
TEST_F(LoansTest, AProcessIsWatchedOnceForAllOfItsSessions) {
  Child client;
  LentMemoryReclaimer& lent = executor_->sessions().lent_memory();
  for (size_t closed = 1; closed <= 2; ++closed) {
    OpenSession(client.pid());
    Lend(/*is_new=*/true);
    CloseSession(/*client_lost=*/false);
    EXPECT_EQ(live(), closed);
    EXPECT_EQ(lent.descriptors().size(), 1u);
  }
  // Another's mapping is not this one's.
  lent.FreeUnreachable("no-such-arena");
  EXPECT_EQ(live(), 0u);
  EXPECT_TRUE(lent.empty());
}

TEST_F(LoansTest, WhatWasHandedOverGoesWithItsSession) {
  Child client;
  OpenSession(client.pid());
  Lend(/*is_new=*/true);
  EndLoan();
  CloseSession(/*client_lost=*/false);
  EXPECT_EQ(live(), 0u);
  EXPECT_TRUE(executor_->sessions().lent_memory().empty());
}

TEST_F(LoansTest, NothingIsLentToAClientThatCannotBeWatched) {
  OpenSession(/*pid=*/-1);
  Lend(/*is_new=*/true);
  EXPECT_EQ(Segment(), "");
  EXPECT_FALSE(HasValue());
  MakeTensor();
  Lend(/*is_new=*/false);
  EXPECT_EQ(Segment(), "");
  EXPECT_TRUE(executor_->sessions().Find(kSession)->loans().IsEmpty());
  EXPECT_TRUE(Failure().ok()) << Failure();
}

TEST_F(LoansTest, AFullArenaIsNoFailureOfTheSession) {
  OpenSession();
  Lend(/*is_new=*/true, static_cast<int64_t>(arena_->capacity_bytes()) + 1);
  EXPECT_TRUE(Failure().ok()) << Failure();
  EXPECT_EQ(Refusal().code(), StatusCode::kResourceExhausted) << Refusal();
  EXPECT_THAT(Message(Refusal()), HasSubstr("arena"));
  EXPECT_FALSE(HasValue());
  Lend(/*is_new=*/true);
  EXPECT_TRUE(Refusal().ok()) << Refusal();
  EXPECT_TRUE(HasValue());
}

TEST_F(LoansTest, WhatIsNoTensorIsNotLent) {
  OpenSession();
  GetFunction("lockstep.nop");
  Run([](auto command) { command.initLend().setRegister(kFunction.Packed()); });
  EXPECT_EQ(Failure().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(Failure()), HasSubstr("only the memory of tensors can be lent"));
}

}  // namespace
}  // namespace lockstep::worker
