#include "runtime/cuda/monitor.h"

#include "tests/unit/runtime/cuda/gpu_under_test.h"
#ifdef LOCKSTEP_FAKE_GPU
#include <nvml.h>

#include "tests/fakes/nvml/fake_nvml.h"
#endif

namespace lockstep::cuda {
namespace {

class MonitorTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (gpu_ == nullptr) return;
    auto monitor = OpenMonitor(gpu_->facts().bus_id);
#ifndef LOCKSTEP_FAKE_GPU
    if (!monitor.ok()) GTEST_SKIP() << Message(monitor.status());
#endif
    ASSERT_TRUE(monitor.ok()) << monitor.status();
    monitor_ = *std::move(monitor);
  }
  std::unique_ptr<Monitor> monitor_;
};

TEST_F(MonitorTest, TellsAGpusTemperatureAndClocks) {
  const collective::DeviceHealth health = monitor_->Read();
  ASSERT_TRUE(health.temperature_celsius.has_value());
  EXPECT_GT(*health.temperature_celsius, 0);
  EXPECT_LT(*health.temperature_celsius, 120);
  ASSERT_TRUE(health.sm_clock_hertz.has_value());
  EXPECT_GT(*health.sm_clock_hertz, 100e6);
  EXPECT_LT(*health.sm_clock_hertz, 10e9);
  EXPECT_NE(monitor_->DriverVersion(), "");
  EXPECT_TRUE(monitor_->TakeXids().empty());
}

TEST_F(MonitorTest, AGpuThatThereIsNotIsNotWatched) {
  const auto none = OpenMonitor("ffff:ff:1f.0");
  EXPECT_EQ(none.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(Message(none.status()).find("nvmlDeviceGetHandleByPciBusId"), std::string::npos)
      << none.status();
}

#ifdef LOCKSTEP_FAKE_GPU
TEST_F(MonitorTest, EveryXidIsTakenOnce) {
  fake_nvml_report_xid(79);
  fake_nvml_report_xid(94);
  EXPECT_EQ(monitor_->TakeXids(), (std::vector<uint64_t>{79, 94}));
  EXPECT_EQ(monitor_->TakeXids(), std::vector<uint64_t>());
}

TEST_F(MonitorTest, UnitsAreThoseOfTheField) {
  const collective::DeviceHealth health = monitor_->Read();
  EXPECT_EQ(health.sm_clock_hertz, 1980e6);
  EXPECT_EQ(health.memory_clock_hertz, 3201e6);
  EXPECT_EQ(health.power_watts, 412.5);
  EXPECT_EQ(health.corrected_ecc_errors, 7u);
  EXPECT_EQ(health.uncorrected_ecc_errors, 0u);
}

TEST_F(MonitorTest, HeatAndPowerAreToldApart) {
  EXPECT_EQ(monitor_->Read().is_slowed_by_heat, false);
  EXPECT_EQ(monitor_->Read().is_slowed_by_power, false);
  fake_nvml_set_slowdown(nvmlClocksThrottleReasonHwThermalSlowdown);
  EXPECT_EQ(monitor_->Read().is_slowed_by_heat, true);
  EXPECT_EQ(monitor_->Read().is_slowed_by_power, false);
  fake_nvml_set_slowdown(nvmlClocksEventReasonSwPowerCap);
  EXPECT_EQ(monitor_->Read().is_slowed_by_heat, false);
  EXPECT_EQ(monitor_->Read().is_slowed_by_power, true);
  fake_nvml_set_slowdown(0);
}

TEST_F(MonitorTest, WhatAGpuDoesNotTellIsLeftOut) {
  fake_nvml_support(false);
  const collective::DeviceHealth health = monitor_->Read();
  fake_nvml_support(true);
  EXPECT_TRUE(health.temperature_celsius.has_value());
  EXPECT_FALSE(health.sm_clock_hertz.has_value());
  EXPECT_FALSE(health.uncorrected_ecc_errors.has_value());
  EXPECT_FALSE(health.is_slowed_by_heat.has_value());
}
#endif

}  // namespace
}  // namespace lockstep::cuda
