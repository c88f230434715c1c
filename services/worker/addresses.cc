#include "services/worker/addresses.h"

#include <signal.h>

#include <chrono>
#include <thread>

#include "runtime/base/deadline.h"
#include "runtime/base/log.h"
#include "runtime/control/local_address.h"

namespace lockstep::worker {
namespace {

constexpr std::chrono::milliseconds kRetryPause{200};

StatusOr<std::string> BulkEndpoint(const WorkerOptions& options) {
  if (!options.bulk_endpoint.empty()) return options.bulk_endpoint;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string address, DataAddress(options));
  return control::WithHost("tcp://:*", address);
}

// Its main has blocked the signals that stop it, and one has come.
bool StopSignalWaits() {
  sigset_t pending;
  return sigpending(&pending) == 0 &&
         (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

}  // namespace

bool MayListenBeyondLoopback(const WorkerOptions& options) {
  return options.plaintext == "network";
}

StatusOr<std::string> DataAddress(const WorkerOptions& options) {
  std::string address = "127.0.0.1";
  if (!options.data_address.empty()) {
    LOCKSTEP_ASSIGN_OR_RETURN(address, control::LocalAddress(options.data_address));
  } else if (const std::string host = control::HostOf(options.controller_endpoint); !host.empty()) {
    // Where the controller is reached from, the others are most likely, too.
    LOCKSTEP_ASSIGN_OR_RETURN(address, control::LocalAddressTowards(host));
  }
  LOCKSTEP_RETURN_IF_ERROR(control::CheckMayListenAt(address, MayListenBeyondLoopback(options)));
  return address;
}

StatusOr<std::string> AdvertisedAs(const std::string& endpoint, const WorkerOptions& options) {
  if (!options.advertise_address.empty()) {
    return control::Advertise(endpoint, options.advertise_address);
  }
  if (!control::IsAnyAddress(control::HostOf(endpoint))) return endpoint;
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string address, DataAddress(options));
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

StatusOr<std::string> AwaitBulkEndpoint(const WorkerOptions& options) {
  const Deadline deadline = Deadline::After(options.join_timeout);
  for (bool told = false;; told = true) {
    StatusOr<std::string> endpoint = BulkEndpoint(options);
    Status status = endpoint.status();
    if (status.ok()) status = AdvertisedAs(*endpoint, options).status();
    if (status.ok()) return endpoint;
    if (status.code() != StatusCode::kUnavailable || deadline.Expired() || StopSignalWaits()) {
      return status;
    }
    if (!told) {
      log::Warn(Message(status), "; it is tried again for ", options.join_timeout.count(), " ms");
    }
    std::this_thread::sleep_for(kRetryPause);
  }
}

}  // namespace lockstep::worker
