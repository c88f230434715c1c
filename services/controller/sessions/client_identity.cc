#include "services/controller/sessions/client_identity.h"

#include "runtime/base/version.h"
#include "runtime/control/keys/key.h"
#include "runtime/control/value_codec.h"

namespace lockstep::controller {
namespace {

std::string ShortName(const std::string& name) {
  constexpr size_t kMaxBytes = 255;
  return name.substr(0, kMaxBytes);
}

}  // namespace

Status CheckClientVersion(uint32_t oldest, uint32_t newest, const std::string& build) {
  if (oldest <= kProtocolVersion && newest >= kOldestProtocolVersion) {
    return OkStatus();
  }
  return FailedPrecondition("the client (Lockstep ", ShortName(build),
                            ") speaks protocol versions ", oldest, " to ", newest,
                            ", this controller (Lockstep ", kBuildVersion, ") ",
                            kOldestProtocolVersion, " to ", kProtocolVersion);
}

Status CheckBulkKey(capnp::Text::Reader key) {
  if (key.size() == 0) return OkStatus();
  return Annotate(control::ParsePublicKey(control::ToString(key)).status(), "the bulk key");
}

void SetClientProcess(SessionEntry& session, const std::string& name, wire::Host::Reader host,
                      int pid) {
  session.name = ShortName(name);
  session.host = ShortName(control::ToString(host.getName()));
  session.host_id = ShortName(control::ToString(host.getId()));
  session.pid = pid;
}

}  // namespace lockstep::controller
