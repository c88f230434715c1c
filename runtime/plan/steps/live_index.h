// Which of many buffers are live at the same time as another one, without a look at all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "runtime/plan/steps/memory.h"

namespace lockstep::plan {

// A set of buffers, empty at first. What a question costs grows with the answer, and with the
// logarithm of the number of buffers.
class LiveIndex {
 public:
  // `buffers` are all that it may have. Borrowed.
  explicit LiveIndex(absl::Span<const LiveBuffer> buffers);

  void Add(size_t buffer);

  // The buffers in it for which LiveBuffer::IsWith(`buffer`), in no certain order. False: they are
  // more than `most`, and `found` has some of them.
  bool FindWith(size_t buffer, size_t most, std::vector<uint32_t>* found);

 private:
  // The buffers that one lane uses, by when it begins; each with when a lane is done with it.
  class Tree {
   public:
    Tree(absl::Span<const LiveBuffer> buffers, size_t begin_lane);
    void Add(size_t buffer, int end);
    // Calls visit(buffer) for those in it that begin not after `last`, and end not before `first`,
    // as long as it returns true. False: it has not.
    template <typename Visit>
    bool ForEach(int first, int last, Visit&& visit);

   private:
    std::vector<uint32_t> buffers_;  // of each leaf
    std::vector<int> begins_;        // ascending
    std::vector<uint32_t> leaf_of_;  // by buffer
    // A binary heap over the leaves: the latest end among those below a node.
    std::vector<int> ends_;
    size_t num_leaves_ = 1;  // a power of two
    std::vector<size_t> to_visit_;
  };

  absl::Span<const LiveBuffer> buffers_;
  // For each lane that begins, and within, for each that is done.
  std::vector<Tree> trees_;
  std::vector<uint32_t> found_by_;  // by buffer: the last question that has found it
  uint32_t question_ = 0;
};

}  // namespace lockstep::plan
