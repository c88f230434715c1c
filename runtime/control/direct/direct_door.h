// How clients of its process find a controller.
#pragma once

#include <memory>
#include <string>

#include "runtime/control/direct/shared_loop.h"

namespace lockstep::control {

class DirectServerChannel;

// A controller's loop, and the channel to its clients that the loop reads.
struct DirectDoor {
  explicit DirectDoor(DirectServerChannel* channel) : clients(channel) {}

  SharedLoop loop;
  // Used with the loop's lock held, as long as the loop is open.
  DirectServerChannel* const clients;
};

// Where that is found in this process. `space`, a ZmqContext, keeps the endpoints of one user apart
// from those of another. A door that nobody keeps any more is not found.
//
// Threads: safe.
void PublishDoor(const void* space, const std::string& endpoint,
                 const std::shared_ptr<DirectDoor>& door);
// Null: nobody is there.
std::shared_ptr<DirectDoor> FindDoor(const void* space, const std::string& endpoint);

}  // namespace lockstep::control
