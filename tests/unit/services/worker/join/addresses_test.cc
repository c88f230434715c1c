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
  EXPECT_EQ(DataAddress(options), StatusOr<std::string>("127.0.0.1"));
  options.data_address = ReachableAddress();
  if (options.data_address.empty()) GTEST_SKIP() << "this host has no address but loopback's";
  const StatusOr<std::string> refused = DataAddress(options);
  EXPECT_EQ(refused.status().code(), StatusCode::kPermissionDenied) << refused.status();
  EXPECT_THAT(Message(refused.status()), HasSubstr("data_plaintext: network"));
  options.data_plaintext = "network";
  EXPECT_EQ(DataAddress(options), StatusOr<std::string>(options.data_address));
}

}  // namespace
}  // namespace lockstep::worker
