#include "services/worker/output/output_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "runtime/control/message_codec.h"
#include "schemas/control.capnp.h"

namespace lockstep::worker {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class OutputLinesTest : public testing::Test {
 protected:
  void Take(const control::Frame& frame, uint64_t count) {
    ++messages_;
    EXPECT_LE(frame.size(), size_t{256} << 10) << "the controller takes no more";
    uint64_t stood_for = 0;
    const Status status =
        control::DecodeMessage<wire::OutputLines>(frame, [&](wire::OutputLines::Reader reader) {
          for (auto line : reader.getLines()) {
            const auto text = line.getText();
            std::string& to = line.getStream() == wire::OutputLine::Stream::STDOUT
                                  ? out_.emplace_back()
                                  : err_.emplace_back();
            to.assign(reinterpret_cast<const char*>(text.begin()), text.size());
            dropped_ += line.getDropped();
            if (line.getDropped() > 0) to = "dropped";
            stood_for += line.getDropped() > 0 ? line.getDropped() : 1;
          }
          return OkStatus();
        });
    EXPECT_EQ(status, OkStatus());
    EXPECT_EQ(stood_for, count);
    lines_ += count;
  }
  void Out(const std::string& bytes) { output_.Append(OutputStream::kStdout, bytes, now_); }
  void Err(const std::string& bytes) { output_.Append(OutputStream::kStderr, bytes, now_); }

  OutputLines::Clock::time_point now_ = OutputLines::Clock::now();
  std::vector<std::string> out_;
  std::vector<std::string> err_;
  uint64_t dropped_ = 0;
  uint64_t lines_ = 0;
  int messages_ = 0;
  OutputLines output_{[this](const control::Frame& frame, uint64_t count) { Take(frame, count); },
                      now_};
};

TEST_F(OutputLinesTest, BytesBecomeLinesHoweverTheyCome) {
  Out("one\ntw");
  Out("o\n");
  Out("\n");
  Out("thr");
  EXPECT_THAT(out_, IsEmpty()) << "sent together";
  output_.SendGathered();
  EXPECT_THAT(out_, ElementsAre("one", "two", ""));
  Out("ee\n");
  output_.SendGathered();
  EXPECT_THAT(out_, ElementsAre("one", "two", "", "three"));
}

TEST_F(OutputLinesTest, StreamsHaveLinesOfTheirOwn) {
  Out("to out");
  Err("to err\n");
  output_.End(now_);
  EXPECT_THAT(out_, ElementsAre("to out"));
  EXPECT_THAT(err_, ElementsAre("to err"));
}

TEST_F(OutputLinesTest, EndMakesALineOfWhatIsLeft) {
  Out("no newline");
  output_.End(now_);
  output_.End(now_);
  EXPECT_THAT(out_, ElementsAre("no newline"));
  EXPECT_EQ(messages_, 1);
}

TEST_F(OutputLinesTest, LongestLineStaysWhole) {
  const std::string longest(OutputLines::kMaxLineBytes, 'x');
  Out(longest);
  Out("\nnext\n");
  output_.End(now_);
  EXPECT_THAT(out_, ElementsAre(longest, "next"));
}

TEST_F(OutputLinesTest, LongerLinesComeInPieces) {
  Out(std::string(OutputLines::kMaxLineBytes + 1, 'x') + "\n");
  output_.End(now_);
  EXPECT_THAT(out_, ElementsAre(SizeIs(OutputLines::kMaxLineBytes), "x"));
}

TEST_F(OutputLinesTest, MessagesAreBoundedAlsoWhereLinesAreEmpty) {
  Out(std::string(20'000, '\n'));
  output_.End(now_);
  EXPECT_THAT(out_, SizeIs(20'000));
  EXPECT_GT(messages_, 5);
}

TEST_F(OutputLinesTest, WhatIsTooMuchIsDroppedAndCounted) {
  constexpr uint64_t kLines = 5000;
  const std::string line = std::string(999, 'x') + "\n";
  for (uint64_t i = 0; i < kLines; ++i) Out(line);
  output_.End(now_);
  EXPECT_GT(dropped_, kLines / 2);
  EXPECT_EQ(out_.back(), "dropped");
  EXPECT_EQ(lines_, kLines);
  EXPECT_EQ(out_.size() - 1 + dropped_, kLines);
}

TEST_F(OutputLinesTest, GoesOnWhenThereIsRoomAgainAndSaysWhatIsMissing) {
  Out(std::string(OutputLines::kBurstBytes, '\n'));  // each line costs more than its byte
  output_.SendGathered();
  EXPECT_EQ(dropped_, 0u) << "not yet over";
  out_.clear();
  now_ += 1s;
  Out("afterwards\n");
  output_.SendGathered();
  EXPECT_THAT(out_, ElementsAre("dropped", "afterwards"));
  EXPECT_EQ(lines_, OutputLines::kBurstBytes + 1);
}

TEST_F(OutputLinesTest, WhatOneSessionPrintsTooMuchIsNotTheNextOnesLoss) {
  output_.Begin(SessionId(1), now_);
  Out(std::string(2 * OutputLines::kBurstBytes, '\n'));
  output_.End(now_);
  EXPECT_GT(dropped_, 0u);
  out_.clear();
  output_.Begin(SessionId(2), now_);
  Out("loss 0.25\n");
  output_.End(now_);
  EXPECT_THAT(out_, ElementsAre("loss 0.25"));
  // And it has not made room for the first one.
  out_.clear();
  output_.Begin(SessionId(1), now_);
  Out("still too much\n");
  output_.End(now_);
  EXPECT_THAT(out_, ElementsAre("dropped"));
}

TEST_F(OutputLinesTest, SteadyOutputBelowTheRateIsNeverDropped) {
  const std::string line = std::string(OutputLines::kBytesPerSecond / 100 / 4, 'x') + "\n";
  for (int i = 0; i < 1000; ++i) {
    Out(line);
    now_ += 10ms;
  }
  output_.End(now_);
  EXPECT_EQ(dropped_, 0u);
  EXPECT_THAT(out_, SizeIs(1000));
}

}  // namespace
}  // namespace lockstep::worker
