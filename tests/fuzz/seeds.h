// Makes inputs from real messages (see README.md).
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "runtime/control/message_codec.h"
#include "tests/fuzz/input.h"

namespace lockstep::fuzz {

// Where seeds go: DIRECTORY/TARGET/NAME.
class SeedFolder {
 public:
  explicit SeedFolder(std::string directory) : directory_(std::move(directory)) {}
  void Add(const std::string& target, const std::string& name, const std::string& bytes);
  int count() const { return count_; }

 private:
  const std::string directory_;
  int count_ = 0;
};

// A word that stands for what is known later.
inline uint64_t Placeholder(const char* name) {
  uint64_t word = 0;
  std::memcpy(&word, name, sizeof word);
  return word;
}

std::string BytesOf(const control::Frame& frame);
// One record. Of a first frame that is one segment the tag and the table are left out, unless
// `raw`.
std::string RecordOf(uint8_t sender, const control::Message& message, bool raw = false);

// A record with one message of one frame, and perhaps another frame.
template <typename Schema, typename Fill>
std::string Say(uint8_t sender, Fill&& fill, const control::Frame& body = {}) {
  control::Message message = {control::EncodeMessage<Schema>(std::forward<Fill>(fill))};
  if (body.size() > 0) message.push_back(body);
  return RecordOf(sender, message);
}

// What functions have printed: a wire::OutputLines.
control::Frame SomeOutputLines();

void AddValueSeeds(SeedFolder& folder);
void AddWorkerSeeds(SeedFolder& folder);
void AddControllerSeeds(SeedFolder& folder);
void AddLivenessSeeds(SeedFolder& folder);
void AddClientSeeds(SeedFolder& folder);
void AddBulkSeeds(SeedFolder& folder);
void AddNpySeeds(SeedFolder& folder);
void AddPlanSeeds(SeedFolder& folder);
void AddFragmentSeeds(SeedFolder& folder);
void AddRingSeeds(SeedFolder& folder);
void AddTreeSeeds(SeedFolder& folder);

}  // namespace lockstep::fuzz
