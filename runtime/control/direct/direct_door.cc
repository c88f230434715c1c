#include "runtime/control/direct/direct_door.h"

#include <map>
#include <mutex>
#include <utility>

namespace lockstep::control {
namespace {

struct Doors {
  std::mutex mutex;
  std::map<std::pair<const void*, std::string>, std::weak_ptr<DirectDoor>> by_endpoint;
};

Doors& AllDoors() {
  static auto& doors = *new Doors;  // also there for what ends after main()
  return doors;
}

}  // namespace

void PublishDoor(const void* space, const std::string& endpoint,
                 const std::shared_ptr<DirectDoor>& door) {
  Doors& doors = AllDoors();
  std::lock_guard lock(doors.mutex);
  std::erase_if(doors.by_endpoint, [](const auto& entry) { return entry.second.expired(); });
  doors.by_endpoint[{space, endpoint}] = door;
}

std::shared_ptr<DirectDoor> FindDoor(const void* space, const std::string& endpoint) {
  Doors& doors = AllDoors();
  std::lock_guard lock(doors.mutex);
  const auto found = doors.by_endpoint.find({space, endpoint});
  return found == doors.by_endpoint.end() ? nullptr : found->second.lock();
}

}  // namespace lockstep::control
