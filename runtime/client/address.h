// Where a controller is, and by which keys it and its client know each other.
#pragma once

#include <string>
#include <utility>

namespace lockstep {

struct ControllerAddress {
  ControllerAddress() = default;
  // Of one that asks for no keys. Implicit: most of those who have an endpoint need nothing else.
  ControllerAddress(std::string controller_endpoint)  // NOLINT(google-explicit-constructor)
      : endpoint(std::move(controller_endpoint)) {}
  ControllerAddress(const char* controller_endpoint)  // NOLINT(google-explicit-constructor)
      : endpoint(controller_endpoint) {}
  ControllerAddress(std::string controller_endpoint, std::string own_key,
                    std::string controllers_key)
      : endpoint(std::move(controller_endpoint)),
        key(std::move(own_key)),
        controller_key(std::move(controllers_key)) {}

  // Its endpoint for clients: "ipc:///run/...", "tcp://host:port".
  std::string endpoint;
  // A file with the client's secret key (`lockstep keys new`); empty: nothing is encrypted, which
  // tcp endpoints of other hosts refuse. Not used for ipc and inproc.
  std::string key;
  // The controller's public key ("lpk_..."), or a file of such keys, any of which it may have.
  std::string controller_key;
};

}  // namespace lockstep
