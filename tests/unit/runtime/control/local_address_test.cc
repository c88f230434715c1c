#include "runtime/control/local_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lockstep::control {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

std::string AddressOf(const std::string& wanted) {
  const StatusOr<std::string> address = LocalAddress(wanted);
  return address.ok() ? *address : std::string(lockstep::Message(address.status()));
}

TEST(LocalAddressTest, IsFoundByInterfaceNetworkAddressOrName) {
  EXPECT_EQ(AddressOf("lo"), "127.0.0.1");
  EXPECT_EQ(AddressOf("127.0.0.0/8"), "127.0.0.1");
  EXPECT_EQ(AddressOf("127.0.0.1/32"), "127.0.0.1");
  EXPECT_EQ(AddressOf("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(AddressOf("127.3.2.1"), "127.3.2.1");
  // Debian's /etc/hosts gives it both addresses, some systems' only the first.
  EXPECT_THAT(AddressOf("localhost"), AnyOf("127.0.0.1", "::1"));
  EXPECT_EQ(AddressOf("0.0.0.0/0"), "127.0.0.1");  // the first of all
}

TEST(LocalAddressTest, WhatIsNotThereIsRefusedWithWhatIs) {
  for (const char* wanted :
       {"203.0.113.1", "203.0.113.0/24", "2001:db8::/64", "nosuchinterface0"}) {
    const StatusOr<std::string> address = LocalAddress(wanted);
    EXPECT_EQ(address.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(lockstep::Message(address.status()),
                AllOf(HasSubstr(wanted), HasSubstr("lo 127.0.0.1")));
  }
}

TEST(LocalAddressTest, NetworksThatAreNoneAreRefused) {
  for (const char* wanted :
       {"127.0.0.1/", "127.0.0.1/33", "/8", "eth0/8", "127.0.0.1/8x", "127.0.0.1/-1", "::1/129"}) {
    EXPECT_THAT(AddressOf(wanted), HasSubstr("is no network")) << wanted;
  }
}

TEST(LocalAddressTest, TowardsThisHostItIsItself) {
  EXPECT_EQ(*LocalAddressTowards("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(*LocalAddressTowards("127.0.0.9"), "127.0.0.1");
  EXPECT_EQ(LocalAddressTowards("no-such-host.invalid").status().code(), StatusCode::kUnavailable);
}

TEST(LocalAddressTest, LoopbackIsKnown) {
  EXPECT_TRUE(IsLoopbackAddress("127.0.0.1"));
  EXPECT_TRUE(IsLoopbackAddress("127.255.0.1"));
  EXPECT_TRUE(IsLoopbackAddress("::1"));
  EXPECT_FALSE(IsLoopbackAddress("::2"));
  EXPECT_FALSE(IsLoopbackAddress("10.0.0.1"));
  EXPECT_FALSE(IsLoopbackAddress("localhost"));
}

TEST(LocalAddressTest, EndpointsKeepTheirPort) {
  EXPECT_EQ(HostOf("tcp://10.1.2.3:77"), "10.1.2.3");
  EXPECT_EQ(HostOf("tcp://[fd00::1]:77"), "fd00::1");
  EXPECT_EQ(HostOf("ipc:///tmp/x:1"), "");
  EXPECT_EQ(WithHost("tcp://0.0.0.0:77", "10.1.2.3"), "tcp://10.1.2.3:77");
  EXPECT_EQ(WithHost("tcp://[::]:77", "fd00::1"), "tcp://[fd00::1]:77");
}

TEST(LocalAddressTest, ClientsOfThisHostUseLoopbackWhereAListenerIsAtAllAddresses) {
  EXPECT_EQ(FromThisHost("tcp://0.0.0.0:7400"), "tcp://127.0.0.1:7400");
  EXPECT_EQ(FromThisHost("tcp://*:7400"), "tcp://127.0.0.1:7400");
  EXPECT_EQ(FromThisHost("tcp://[::]:7400"), "tcp://[::1]:7400");
  EXPECT_EQ(FromThisHost("tcp://10.0.0.7:7400"), "tcp://10.0.0.7:7400");
  EXPECT_EQ(FromThisHost("ipc:///run/client.sock"), "ipc:///run/client.sock");
}

}  // namespace
}  // namespace lockstep::control
