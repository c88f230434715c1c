#include "services/worker/join/addresses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "runtime/control/local_address.h"

namespace lockstep::worker {
namespace {

using testing::HasSubstr;

// Where other hosts would be reached from, were there any; nothing is sent.
std::string ReachableAddress() {
  const StatusOr<std::string> address = control::LocalAddressTowards("192.0.2.1");
  return address.ok() && !control::IsLoopbackAddress(*address) ? *address : "";
}

TEST(DataAddressTest, WhatIsNotEncryptedStaysOnThisHostUnlessItMayLeave) {
  WorkerOptions options;
  options.data_address = "127.0.0.1";
  for (const bool can_encrypt : {false, true}) {
    for (const char* encryption : {"auto", "on", "off"}) {
      options.data_encryption = encryption;
      EXPECT_EQ(DataAddress(options, "any", can_encrypt), StatusOr<std::string>("127.0.0.1"));
    }
  }
  options.data_address = ReachableAddress();
  if (options.data_address.empty()) GTEST_SKIP() << "this host has no address but loopback's";
  const StatusOr<std::string> allowed = options.data_address;
  for (const char* encryption : {"auto", "on"}) {
    options.data_encryption = encryption;
    EXPECT_EQ(DataAddress(options, "tcp", true), allowed);
    const StatusOr<std::string> refused = DataAddress(options, "gloo", false);
    EXPECT_EQ(refused.status().code(), StatusCode::kPermissionDenied) << refused.status();
    EXPECT_THAT(Message(refused.status()), HasSubstr("gloo does not encrypt"));
    EXPECT_THAT(Message(refused.status()), HasSubstr("data_plaintext: network"));
  }
  options.data_encryption = "off";
  const StatusOr<std::string> refused = DataAddress(options, "tcp", true);
  EXPECT_EQ(refused.status().code(), StatusCode::kPermissionDenied) << refused.status();
  EXPECT_THAT(Message(refused.status()), HasSubstr("data_encryption is off"));
  options.data_plaintext = "network";
  EXPECT_EQ(DataAddress(options, "tcp", true), allowed);
  EXPECT_EQ(DataAddress(options, "gloo", false), allowed);
}

}  // namespace
}  // namespace lockstep::worker
