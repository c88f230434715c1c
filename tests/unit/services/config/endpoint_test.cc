#include "services/config/endpoint.h"

#include <gtest/gtest.h>

namespace lockstep::config {
namespace {

TEST(EndpointTest, ThisHostIsAllowed) {
  for (const char* endpoint :
       {"tcp://127.0.0.1:7400", "tcp://127.0.0.1:*", "tcp://127.8.9.1:0", "tcp://[::1]:7400",
        "tcp://[::ffff:127.0.0.1]:7400", "tcp://localhost:7400", "tcp://lo:*",
        "ipc:///run/lockstep/client", "inproc://a"}) {
    EXPECT_TRUE(CheckEndpoint(endpoint).ok()) << endpoint << ": " << CheckEndpoint(endpoint);
    EXPECT_TRUE(StaysOnThisHost(endpoint)) << endpoint;
  }
}

TEST(EndpointTest, OtherHostsAreToldFromThisOne) {
  for (const char* endpoint :
       {"tcp://0.0.0.0:7400", "tcp://*:7400", "tcp://10.1.2.3:7400", "tcp://[::]:7400",
        "tcp://[::ffff:10.1.2.3]:7400", "tcp://[fe80::1]:7400", "tcp://example.org:7400",
        "tcp://127.example.org:7400", "tcp://eth0:7400", "tcp://10.1.0.0/16:7400"}) {
    EXPECT_EQ(CheckEndpoint(endpoint), OkStatus()) << endpoint;
    EXPECT_FALSE(StaysOnThisHost(endpoint)) << endpoint;
  }
}

TEST(EndpointTest, MalformedEndpointsAreRefusedWithTheForms) {
  for (const char* endpoint : {"", "7400", "http://127.0.0.1:1", "tcp://", "tcp://127.0.0.1",
                               "tcp://:7400", "tcp://127.0.0.1:65536", "tcp://127.0.0.1:-1",
                               "tcp://127.0.0.1:x", "inproc://", "ipc://", "ipc://relative"}) {
    EXPECT_EQ(CheckEndpoint(endpoint).code(), StatusCode::kInvalidArgument) << endpoint;
  }
  EXPECT_NE(Message(CheckEndpoint("7400")).find("tcp://ADDRESS:PORT"), std::string::npos);
}

TEST(EndpointTest, HttpHasItsOwnForm) {
  for (const char* endpoint : {"http://127.0.0.1:9464", "http://localhost:*", "http://[::1]:0"}) {
    EXPECT_TRUE(CheckHttpEndpoint(endpoint).ok())
        << endpoint << ": " << CheckHttpEndpoint(endpoint);
  }
  EXPECT_TRUE(StaysOnThisHost("http://127.0.0.1:9464"));
  EXPECT_FALSE(StaysOnThisHost("http://0.0.0.0:9464"));
  for (const char* endpoint : {"", "127.0.0.1:9464", "tcp://127.0.0.1:9464", "http://127.0.0.1",
                               "http://127.0.0.1:9464/metrics"}) {
    const Status status = CheckHttpEndpoint(endpoint);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << endpoint;
    EXPECT_NE(Message(status).find("http://ADDRESS:PORT"), std::string::npos) << status;
  }
}

TEST(EndpointTest, SocketPathsFitTheKernelsLimit) {
  const std::string longest = "/" + std::string(kMaxSocketPathBytes - 1, 'x');
  EXPECT_EQ(*IpcEndpoint(longest), "ipc://" + longest);
  const Status status = IpcEndpoint(longest + "x").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(Message(status).find("107"), std::string::npos) << Message(status);
  EXPECT_EQ(CheckEndpoint("ipc://" + longest + "x"), status);
}

}  // namespace
}  // namespace lockstep::config
