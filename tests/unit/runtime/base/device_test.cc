#include "runtime/base/device.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(DeviceTest, TextRoundTrips) {
  for (const Device device :
       {Device{}, Device{DeviceType::kCpu, 2}, Device{DeviceType::kCuda, 13}}) {
    const StatusOr<Device> parsed = ParseDevice(ToString(device));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, device);
  }
}

TEST(DeviceTest, IndexDefaultsToZero) {
  EXPECT_EQ(*ParseDevice("cpu"), (Device{DeviceType::kCpu, 0}));
  EXPECT_EQ(*ParseDevice("cuda"), (Device{DeviceType::kCuda, 0}));
}

TEST(DeviceTest, AnythingElseIsInvalid) {
  for (const char* text : {"", "gpu", "CPU", "cuda:", "cuda:x", "cuda:1x", "cuda:-1", "cuda: 1",
                           "cuda:99999999999", ":0"}) {
    const StatusOr<Device> parsed = ParseDevice(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(Message(parsed.status()).find(text), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep
