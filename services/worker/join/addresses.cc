#include "services/worker/join/addresses.h"

#include <chrono>
#include <thread>

#include "runtime/base/deadline.h"
#include "runtime/base/log.h"
#include "runtime/control/local_address.h"

namespace lockstep::worker {
namespace {

constexpr std::chrono::milliseconds kNameRetryPause{200};

// Where others find this host.
StatusOr<std::string> OwnAddress(const WorkerOptions& options) {
  if (!options.data_address.empty()) return control::LocalAddress(options.data_address);
  const std::string host = control::HostOf(options.controller_endpoint);
  // Where the controller is reached from, the others are most likely, too.
  return host.empty() ? "127.0.0.1" : control::LocalAddressTowards(host);
}

StatusOr<std::string> BulkEndpoint(const WorkerOptions& options) {
  if (!options.bulk_endpoint.empty()) return options.bulk_endpoint;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string address, OwnAddress(options));
  return control::WithHost("tcp://:*", address);
}

}  // namespace

StatusOr<std::string> DataAddress(const WorkerOptions& options, const std::string& backend,
                                  bool can_encrypt) {
  LOCKSTEP_ASSIGN_OR_RETURN(std::string address, OwnAddress(options));
  if (MayUseNetworks(options, can_encrypt) || control::IsLoopbackAddress(address)) return address;
  const std::string why = can_encrypt
                              ? "data_encryption is off; set it to auto"
                              : backend +
                                    " does not encrypt, and asks no peer for a key; let the "
                                    "controller choose tcp (communicator: auto)";
  return PermissionDenied("will not listen at ", address, " for other ranks: ", why,
                          "; or, in a network that only the cluster uses, set data_plaintext: "
                          "network");
}

StatusOr<std::string> RelayEndpoint(const WorkerOptions& options) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string address, OwnAddress(options));
  return control::WithHost("tcp://:*", address);
}

StatusOr<std::string> AdvertisedAs(const std::string& endpoint, const WorkerOptions& options) {
  if (!options.advertise_address.empty()) {
    return control::Advertise(endpoint, options.advertise_address);
  }
  if (!control::IsAnyAddress(control::HostOf(endpoint))) return endpoint;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string address, OwnAddress(options));
  return control::WithHost(endpoint, address);
}

StatusOr<std::string> MetricsAdvertisedAs(const std::string& endpoint,
                                          const WorkerOptions& options) {
  constexpr char kHttp[] = "http";
  constexpr char kTcp[] = "tcp";
  if (endpoint.empty()) return endpoint;
  const std::string address = kTcp + endpoint.substr(sizeof kHttp - 1);
  if (!control::IsAnyAddress(control::HostOf(address))) return endpoint;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string advertised, AdvertisedAs(address, options));
  return kHttp + advertised.substr(sizeof kTcp - 1);
}

StatusOr<std::string> AwaitBulkEndpoint(const WorkerOptions& options,
                                        const std::function<bool()>& must_stop) {
  const Deadline deadline = Deadline::After(options.join_timeout);
  for (bool told = false;; told = true) {
    StatusOr<std::string> endpoint = BulkEndpoint(options);
    Status status = endpoint.status();
    if (status.ok()) status = AdvertisedAs(*endpoint, options).status();
    if (status.ok()) return endpoint;
    if (status.code() != StatusCode::kUnavailable || deadline.Expired() || must_stop()) {
      return status;
    }
    if (!told) {
      log::Warn(Message(status), "; it is tried again for ", options.join_timeout.count(), " ms");
    }
    std::this_thread::sleep_for(kNameRetryPause);
  }
}

}  // namespace lockstep::worker
