#include "services/config/setting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "services/config/problems.h"
#include "services/config/settings.h"

namespace lockstep::config {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

Status Store(const Setting& row, const std::string& text) {
  RawValue value;
  value.form = RawValue::Form::kScalar;
  value.items = {text};
  return row.store(value);
}

void ExpectOutOfBounds(const Setting& row, const std::string& text, const std::string& allowed) {
  const std::string before = row.show();
  const Status status = Store(row, text);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
  EXPECT_THAT(Message(status), HasSubstr("\"" + text + "\" is out of bounds; allowed: " + allowed));
  EXPECT_EQ(row.show(), before) << "what is refused is not stored";
}

// What a row says is allowed is, both ends included; one more or less is not.
TEST(SettingTest, BoundsOfASizeAreAllowed) {
  size_t field = 5000;
  const Setting row = Size("arena_bytes", field, 4096, 1 << 20, "doc");
  EXPECT_EQ(Store(row, "4096B"), OkStatus());
  EXPECT_EQ(field, 4096u);
  EXPECT_EQ(Store(row, "1048576B"), OkStatus());
  EXPECT_EQ(field, size_t{1} << 20);
  EXPECT_EQ(Store(row, "1MiB"), OkStatus());
  EXPECT_EQ(row.show(), "1MiB");
  ExpectOutOfBounds(row, "4095B", "4KiB to 1MiB");
  ExpectOutOfBounds(row, "1048577B", "4KiB to 1MiB");
}

TEST(SettingTest, BoundsOfNumbersAreAllowed) {
  int integer = 3;
  const Setting row = Integer("workers", integer, -1, 4096, "doc");
  EXPECT_EQ(Store(row, "-1"), OkStatus());
  EXPECT_EQ(integer, -1);
  EXPECT_EQ(Store(row, "4096"), OkStatus());
  EXPECT_EQ(integer, 4096);
  ExpectOutOfBounds(row, "-2", "-1 to 4096");
  ExpectOutOfBounds(row, "4097", "-1 to 4096");
  size_t count = 3;
  const Setting counted = Count("max_modules", count, 1, 10, "doc");
  EXPECT_EQ(Store(counted, "1"), OkStatus());
  EXPECT_EQ(Store(counted, "10"), OkStatus());
  EXPECT_EQ(count, 10u);
  ExpectOutOfBounds(counted, "0", "1 to 10");
  ExpectOutOfBounds(counted, "11", "1 to 10");
}

TEST(SettingTest, NamesHaveSixtyThreeLettersAtMost) {
  std::string field;
  const Setting row = Name("name", field, "doc");
  EXPECT_EQ(Store(row, std::string(63, 'a')), OkStatus());
  EXPECT_EQ(Store(row, std::string(64, 'a')).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(field, std::string(63, 'a'));
}

// A public key may have the letters in it that secret ones begin with.
TEST(SettingTest, APublicKeyThatLooksAsIfASecretOneWereInItIsTaken) {
  const std::string key = "lpk_lsk_" + std::string(39, 'A');
  std::string field;
  Entry entry;
  entry.key = "public_key";
  entry.value.form = RawValue::Form::kScalar;
  entry.value.items = {key};
  Problems problems;
  Apply({entry}, {PublicKeys("public_key", field, "doc")}, "test", problems);
  EXPECT_EQ(problems.ToStatus(), OkStatus());
  EXPECT_EQ(field, key);
}

// Wherever they stand, two letters in each other's place are one mistake, which is all that a word
// of four may have.
TEST(SettingTest, LettersInEachOthersPlaceAreOneMistake) {
  for (const std::string word : {"anme", "nmae", "naem"}) {
    EXPECT_EQ(Nearest(word, {"jobs", "name"}), "name") << word;
  }
  EXPECT_EQ(Nearest("mane", {"jobs", "name"}), "") << "two other letters are two mistakes";
}

TEST(SettingTest, BoundsOfADurationAreAllowed) {
  std::chrono::milliseconds field = 20ms;
  const Setting row = Duration("heartbeat_interval", field, 10ms, 1min, "doc");
  EXPECT_EQ(Store(row, "10ms"), OkStatus());
  EXPECT_EQ(field, 10ms);
  EXPECT_EQ(Store(row, "60s"), OkStatus());
  EXPECT_EQ(field, 1min);
  ExpectOutOfBounds(row, "9ms", "10ms to 1min");
  ExpectOutOfBounds(row, "60001ms", "10ms to 1min");
}

}  // namespace
}  // namespace lockstep::config
