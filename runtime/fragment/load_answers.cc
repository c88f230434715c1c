#include "runtime/fragment/load_answers.h"

#include "runtime/base/rank_text.h"
#include "runtime/fragment/object_key.h"
#include "runtime/fragment/signature_codec.h"

namespace lockstep::fragment {

Status LoadAnswers::Add(wire::FragmentLoaded::Reader answer) {
  LOCKSTEP_ASSIGN_OR_RETURN(const Load load, ReadLoad(answer));
  if (load.rank < 0 || load.rank >= workers_) {
    return Internal("rank ", load.rank, " says that it has a fragment, and the ", workers_,
                    " workers are ranks 0 to ", workers_ - 1);
  }
  if (!answers_.emplace(load.rank, Answer{load, answer.getSignatureDigest()}).second) {
    return Internal("rank ", load.rank, " says twice that it has a fragment");
  }
  if (load.rank != 0 || !answer.hasSignature()) return OkStatus();
  has_signature_ = true;
  LOCKSTEP_ASSIGN_OR_RETURN(signature_, ReadSignature(answer.getSignature()));
  return OkStatus();
}

StatusOr<Loaded> LoadAnswers::Take(const std::string& fragment) const {
  if (!has_signature_) return Internal("rank 0 has not told the signature of ", fragment);
  const uint64_t digest = DigestOf(signature_);
  Loaded loaded{signature_, {}};
  std::vector<Rank> missing;
  std::vector<Rank> others;
  for (Rank rank = 0; rank < workers_; ++rank) {
    const auto found = answers_.find(rank);
    if (found == answers_.end()) {
      missing.push_back(rank);
      continue;
    }
    if (found->second.digest != digest) others.push_back(rank);
    loaded.loads.push_back(found->second.load);
  }
  if (!missing.empty()) {
    return Internal(ListRanks(missing), " did not say whether ",
                    missing.size() == 1 ? "it" : "they", " can execute ", fragment);
  }
  if (!others.empty()) {
    return FailedPrecondition("to ", ListRanks(others), ", ", fragment,
                              " has another signature than to rank 0, where it is ",
                              signature_.ToString(),
                              ": their compilers differ; install the same release on all workers");
  }
  return loaded;
}

}  // namespace lockstep::fragment
