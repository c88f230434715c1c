#include "tools/cli/register_text.h"

#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include "tools/text/terminal.h"

namespace lockstep::cli {
namespace {

HeldRegister Tensor(uint32_t index, std::vector<int64_t> shape) {
  HeldRegister held;
  held.id = {index, 1};
  held.type = "tensor";
  held.dtype = "float32";
  held.shape = std::move(shape);
  held.device = "cpu:0";
  held.bytes = 24;
  return held;
}

HeldRegister Function(uint32_t index) {
  HeldRegister held;
  held.id = {index, 2};
  held.type = "function";
  held.detail = "function lockstep.cast";
  return held;
}

RankRegisters Told(Rank rank, std::vector<HeldRegister> listed, uint64_t registers) {
  RankRegisters told;
  told.rank = rank;
  told.sessions = {{SessionId(3), registers, 24, std::move(listed)}};
  return told;
}

std::string Text(const std::vector<RankRegisters>& ranks) {
  std::ostringstream out;
  PrintRegisters(out, text::Style(false), ranks);
  return out.str();
}

TEST(RegisterTextTest, RanksThatHoldTheSameShareALine) {
  HeldRegister named = Tensor(1, {2, 3});
  named.name = "weights";
  EXPECT_EQ(Text({Told(0, {named, Function(2)}, 2), Told(1, {named, Function(2)}, 2)}),
            "session 3: 2 registers, 24 B each on all ranks\n"
            "  REGISTER  NAME     TYPE      DTYPE    SHAPE   DEVICE  BYTES  ON         WHAT\n"
            "  r1.1      weights  tensor    float32  [2, 3]  cpu:0    24 B  all ranks\n"
            "  r2.2               function                                  all ranks  "
            "function lockstep.cast\n");
}

TEST(RegisterTextTest, RanksThatDifferAreToldApart) {
  EXPECT_EQ(Text({Told(0, {Tensor(1, {2, 3})}, 1), Told(1, {Tensor(1, {6})}, 1),
                  Told(2, {Tensor(1, {2, 3})}, 1)}),
            "session 3: 1 register, 24 B each on all ranks\n"
            "  REGISTER  TYPE    DTYPE    SHAPE   DEVICE  BYTES  ON\n"
            "  r1.1      tensor  float32  [2, 3]  cpu:0    24 B  ranks 0, 2\n"
            "  r1.1      tensor  float32  [6]     cpu:0    24 B  rank 1\n");
}

TEST(RegisterTextTest, WhatIsLeftOutIsCounted) {
  EXPECT_EQ(Text({Told(0, {Tensor(1, {6})}, 1235)}),
            "session 3: 1,235 registers, 24 B on rank 0\n"
            "  REGISTER  TYPE    DTYPE    SHAPE  DEVICE  BYTES  ON\n"
            "  r1.1      tensor  float32  [6]    cpu:0    24 B  rank 0\n"
            "  and 1,234 more on a rank, which hold less (--limit)\n");
}

TEST(RegisterTextTest, RanksThatHaveNotToldSayWhy) {
  RankRegisters busy;
  busy.rank = 1;
  busy.why = "it is busy with command 8 (evil\033[2J) of session 1 for 2.1 s";
  EXPECT_EQ(Text({busy}),
            "rank 1 has not told what it holds: it is busy with command 8 (evil\\x1b[2J) of session"
            " 1 for 2.1 s\n");
  RankRegisters idle;
  EXPECT_EQ(Text({idle}), "no session is open\n");
}

TEST(RegisterTextTest, JsonIsByRank) {
  RankRegisters busy;
  busy.rank = 1;
  busy.why = "busy";
  const Json json = RegistersToJson({Told(0, {Tensor(1, {2, 3}), Function(2)}, 2), busy});
  EXPECT_TRUE(json[0]["why_not"].is_null());
  EXPECT_EQ(json[0]["sessions"][0]["session"], 3);
  EXPECT_EQ(json[0]["sessions"][0]["listed"][0], (Json{{"register", "r1.1"},
                                                       {"type", "tensor"},
                                                       {"bytes", 24},
                                                       {"dtype", "float32"},
                                                       {"shape", {2, 3}},
                                                       {"device", "cpu:0"}}));
  EXPECT_EQ(json[0]["sessions"][0]["listed"][1]["what"], "function lockstep.cast");
  EXPECT_EQ(json[1]["why_not"], "busy");
}

TEST(RegisterTextTest, LayoutsAreShownInShort) {
  HeldRegister rows = Tensor(1, {2, 3});
  rows.layout = std::make_shared<const HeldLayout>(
      HeldLayout{"float32", {8, 3}, {{"x", 4}}, {0, 1, 2, 3}, {"shard(0)"}});
  HeldRegister square = Tensor(2, {2, 3});
  square.layout = std::make_shared<const HeldLayout>(
      HeldLayout{"float32", {2, 6}, {{"x", 2}, {"y", 2}}, {0, 2, 1, 3}, {"replicate", "shard(1)"}});
  HeldRegister huge = Tensor(3, {6});
  huge.layout_left_out = true;
  const HeldRegister unknown = Tensor(4, {6});
  // The other rank has told the same by objects of its own.
  HeldRegister same = rows;
  same.layout = std::make_shared<const HeldLayout>(*rows.layout);
  EXPECT_EQ(
      Text({Told(0, {rows, square, huge, unknown}, 4), Told(1, {same, square, huge, unknown}, 4)}),
      "session 3: 4 registers, 24 B each on all ranks\n"
      "  REGISTER  TYPE    DTYPE    SHAPE   DEVICE  BYTES  ON         LAYOUT\n"
      "  r1.1      tensor  float32  [2, 3]  cpu:0    24 B  all ranks  "
      "float32[8, 3] shard(0) on 0-3\n"
      "  r2.1      tensor  float32  [2, 3]  cpu:0    24 B  all ranks  "
      "float32[2, 6] replicate, shard(1) on x=2, y=2 of 0, 2, 1, 3\n"
      "  r3.1      tensor  float32  [6]     cpu:0    24 B  all ranks  (too much to tell)\n"
      "  r4.1      tensor  float32  [6]     cpu:0    24 B  all ranks\n");
  const Json json = RegistersToJson({Told(0, {square, huge}, 2)});
  const Json& listed = json[0]["sessions"][0]["listed"];
  EXPECT_EQ(
      listed[0]["layout"],
      (Json{{"dtype", "float32"},
            {"shape", {2, 6}},
            {"axes", Json::array({{{"name", "x"}, {"size", 2}}, {{"name", "y"}, {"size", 2}}})},
            {"ranks", {0, 2, 1, 3}},
            {"placements", {"replicate", "shard(1)"}}}));
  EXPECT_EQ(listed[1]["layout_left_out"], true);
}

}  // namespace
}  // namespace lockstep::cli
