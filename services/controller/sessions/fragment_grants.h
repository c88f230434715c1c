// Which fragments sessions may execute: a client asks, and if its role allows that, all workers
// load the fragment for its session, which is the grant.
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/control/channel.h"
#include "runtime/control/keys/allow_list.h"
#include "schemas/session.capnp.h"
#include "services/controller/common/broadcaster.h"
#include "services/controller/common/tools.h"
#include "services/controller/sessions/client_messenger.h"
#include "services/controller/sessions/gatherer.h"
#include "services/controller/sessions/session_failures.h"
#include "services/controller/sessions/session_table.h"

namespace lockstep::controller {

// Nothing waits for a compiler but the request: workers answer it when they can execute the
// fragment, or cannot, and execute what comes after it meanwhile.
//
// Threads: one at a time. What it is made of must outlive it.
class FragmentGrants {
 public:
  // What one session may have on its way to the workers, and in their compilers.
  static constexpr size_t kMostLoading = 64;
  static constexpr size_t kMostLoadingBytes = size_t{16} << 20;

  FragmentGrants(const Tools& tools, Broadcaster& broadcaster, SessionTable& sessions,
                 Gatherer& gatherer, ClientMessenger& messenger, SessionFailures& failures)
      : tools_(tools),
        broadcaster_(broadcaster),
        sessions_(sessions),
        gatherer_(gatherer),
        messenger_(messenger),
        failures_(failures) {}

  // `sender`: as its key has shown; null: it needs none. `message`: the header, which `compile`
  // reads, and the source. A Status that is returned says that the message makes no sense, or is
  // for no session of the client's.
  Status HandleCompile(const control::PeerName& client, const control::Identity* sender,
                       wire::CompileFragment::Reader compile, const control::Message& message);
  // kInvalidArgument: workers have yet to answer a request of that number. What they say to another
  // of the same number would be taken for their answer to it.
  Status CheckFree(SessionId session, RequestId request) const;
  // `rank` has answered a request, which may have been one of these.
  void NoteReply(SessionId session, RequestId request, Rank rank);

 private:
  // What some workers have not answered yet.
  struct Loading {
    Epoch world;  // of another one nothing is waited for
    size_t bytes = 0;
    std::vector<bool> waiting;  // by rank
  };
  using Key = std::pair<SessionId, RequestId>;

  Status CheckRole(const control::Identity* sender) const;
  // kResourceExhausted if the session has too much under way already.
  Status CheckRoom(SessionId session, size_t bytes);

  const Tools& tools_;
  Broadcaster& broadcaster_;
  SessionTable& sessions_;
  Gatherer& gatherer_;
  ClientMessenger& messenger_;
  SessionFailures& failures_;
  std::map<Key, Loading> loading_;
};

}  // namespace lockstep::controller
