#include <string>

#include "runtime/control/tree/packet.h"
#include "tests/fuzz/seeds.h"

namespace lockstep::fuzz {
namespace {

control::Frame FrameOf(const std::string& text) {
  return control::Frame::Copy(text.data(), text.size());
}

control::Message Of(const std::string& text, const std::string& more = "") {
  control::Message message = {FrameOf(text)};
  if (!more.empty()) message.push_back(FrameOf(more));
  return message;
}

std::string Raw(const control::Message& message) { return RecordOf(0, message, /*raw=*/true); }

// Signatures differ from run to run, and the harness has no key to check them by.
std::string Unsigned(control::Message packet) {
  packet[0] = FrameOf(
      std::string(reinterpret_cast<const char*>(packet[0].data()), sizeof(control::TreeNote)) +
      std::string(packet[0].size() - sizeof(control::TreeNote), '\0'));
  return Raw(packet);
}

}  // namespace

void AddTreeSeeds(SeedFolder& folder) {
  const control::StreamSigner signer;
  control::PacketWriter packet;
  packet.Add(Of("envelope", "body of it"));
  packet.Add(Of("another"));
  folder.Add("tree", "packet", Unsigned(packet.Seal(7, 1, signer)));
  folder.Add(
      "tree", "whole_packet",
      Unsigned(control::PacketWriter::SealWhole(Of("envelope", "a large body"), 7, 2, signer)));

  control::BundleWriter bundle;
  bundle.Add(2, control::AnswerKey(), 1, Of("answer"));
  bundle.Add(4, control::AnswerKey(), 1, Of("answer", "with a body"));
  folder.Add("tree", "bundle", Raw(bundle.Take(7, 1, 9, 1)));
  bundle.Add(2, control::AnswerKey(), 2,
             Of("large", std::string(control::kLargestPacked + 1, 'x')));
  folder.Add("tree", "large_answer", Raw(bundle.Take(7, 2, 9)));
  folder.Add("tree", "nothing", Raw(control::BundleWriter().Take(7, 2, 9)));

  using Word = control::TreeWord;
  folder.Add("tree", "notes",
             Raw(control::MakeNote(Word::kHere, 7, 0, {"tcp://127.0.0.1:1", "key", "own key"})) +
                 Raw(control::MakeNote(Word::kChild, 7, 3, {"key", std::string(16, '\1')})) +
                 Raw(control::MakeNote(Word::kLeave, 7, 12)));
}

}  // namespace lockstep::fuzz
