#include "runtime/control/tree/tree_offer_codec.h"

#include <algorithm>

namespace lockstep::control {

void WriteTreeOffer(const TreeOffer& offer, wire::RelayTree::Builder builder) {
  builder.setWorld(offer.world);
  builder.setWorker(offer.worker);
  builder.setHasChildren(offer.has_children);
  builder.setControllerKey({offer.controller.bytes.data(), offer.controller.bytes.size()});
  builder.setAnswerKey({offer.answers.bytes.data(), offer.answers.bytes.size()});
}

TreeOffer ReadTreeOffer(wire::RelayTree::Reader reader) {
  TreeOffer offer;
  const auto controller = reader.getControllerKey();
  const auto answers = reader.getAnswerKey();
  if (controller.size() != offer.controller.bytes.size() ||
      answers.size() != offer.answers.bytes.size()) {
    return offer;
  }
  offer.world = reader.getWorld();
  offer.worker = reader.getWorker();
  offer.has_children = reader.getHasChildren();
  std::copy(controller.begin(), controller.end(), offer.controller.bytes.begin());
  std::copy(answers.begin(), answers.end(), offer.answers.bytes.begin());
  return offer;
}

}  // namespace lockstep::control
