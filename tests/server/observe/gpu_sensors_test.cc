#include "server/observe/gpu_sensors.h"

#include <cstring>

#include "gtest/gtest.h"
#include "tests/testing/fake_clock.h"

namespace gemmd {
namespace {

constexpr std::chrono::milliseconds kWhenTold(0);
constexpr int kNotSupported = 3;  // NVML_ERROR_NOT_SUPPORTED

int known = 0;  // an address for the device
unsigned long long slowdown = 0;
unsigned long long millijoules = 5'000'000'000'123;

NvmlFunctions FakeNvml() {
  NvmlFunctions nvml;
  nvml.initialize = [] { return 0; };
  nvml.device_by_bus_id = [](const char* bus_id, void** device) {
    *device = &known;
    return std::strcmp(bus_id, "0000:1b:00.0") == 0 ? 0 : kNotSupported;
  };
  nvml.clock_mhz = [](void*, int kind, unsigned int* mhz) {
    *mhz = kind == 1 ? 1980 : 3201;
    return 0;
  };
  nvml.power_milliwatts = [](void*, unsigned int* value) {
    *value = 512500;
    return 0;
  };
  nvml.energy_millijoules = [](void*, unsigned long long* value) {
    *value = millijoules;
    return 0;
  };
  nvml.temperature_celsius = [](void*, int, unsigned int*) { return kNotSupported; };
  nvml.utilization = [](void*, NvmlFunctions::Utilization* value) {
    value->gpu = 75;
    return 0;
  };
  nvml.ecc_errors = [](void*, int type, int counter, unsigned long long* count) {
    *count = type == 1 ? 2 : 40;
    return counter == 0 ? 0 : kNotSupported;
  };
  nvml.slowdown_reasons = [](void*, unsigned long long* value) {
    *value = slowdown;
    return 0;
  };
  return nvml;
}

TEST(GpuSensors, ReadInBaseUnitsWhatTheGpuTells) {
  slowdown = 0x4;  // SwPowerCap
  const testing::FakeClock clock;
  GpuSensors sensors(FakeNvml(), {{"cuda:0", "0000:1b:00.0"}, {"cuda:1", "0000:99:00.0"}},
                     kWhenTold, &clock);
  EXPECT_TRUE(sensors.readings().empty());
  sensors.ReadNow();
  const auto readings = sensors.readings();
  ASSERT_EQ(readings.size(), 1u) << "one that NVML does not know is left out";
  EXPECT_EQ(readings[0].first, "cuda:0");
  const GpuReading& reading = readings[0].second;
  EXPECT_DOUBLE_EQ(*reading.sm_hertz, 1.98e9);
  EXPECT_DOUBLE_EQ(*reading.memory_hertz, 3.201e9);
  EXPECT_DOUBLE_EQ(*reading.power_watts, 512.5);
  EXPECT_DOUBLE_EQ(*reading.energy_joules, 5'000'000'000.123);
  EXPECT_DOUBLE_EQ(*reading.utilization, 0.75);
  EXPECT_EQ(*reading.corrected_errors, 40u);
  EXPECT_EQ(*reading.uncorrected_errors, 2u);
  EXPECT_TRUE(*reading.slowed_by_power);
  EXPECT_FALSE(*reading.slowed_by_heat);
  EXPECT_FALSE(reading.temperature_celsius.has_value()) << "it does not tell";
  EXPECT_FALSE(reading.power_limit_watts.has_value()) << "the library has no such function";
}

TEST(GpuSensors, HeatIsToldFromPower) {
  slowdown = 0x40;  // HwThermalSlowdown
  const testing::FakeClock clock;
  GpuSensors sensors(FakeNvml(), {{"cuda:0", "0000:1b:00.0"}}, kWhenTold, &clock);
  sensors.ReadNow();
  EXPECT_TRUE(*sensors.readings()[0].second.slowed_by_heat);
  EXPECT_FALSE(*sensors.readings()[0].second.slowed_by_power);
}

TEST(GpuSensors, TellTheMeterOfEachReading) {
  testing::FakeClock clock;
  EnergyMeter meter;
  GpuSensors sensors(FakeNvml(), {{"cuda:0", "0000:1b:00.0", &meter}}, kWhenTold, &clock);
  sensors.ReadNow();
  const TimeNs start = clock.Now();
  clock.Advance(1'000'000'000);
  meter.AddLaunch(start, clock.Now());
  millijoules += 350'000;
  sensors.ReadNow();
  EXPECT_NEAR(*meter.JoulesOf(2), 700, 1e-3);
}

TEST(GpuSensors, ALibraryThatIsNotThereSaysSo) {
  const absl::Status status = OpenNvml("libno-such-nvml.so.1").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("libno-such-nvml.so.1"), std::string::npos) << status;
}

TEST(GpuSensors, AnotherLibraryIsNone) {
  EXPECT_EQ(OpenNvml("libm.so.6").status().code(), absl::StatusCode::kFailedPrecondition);
}

// A thread of its own reads at once, and its end is awaited.
TEST(GpuSensors, AThreadReads) {
  const testing::FakeClock clock;
  GpuSensors sensors(FakeNvml(), {{"cuda:0", "0000:1b:00.0"}}, std::chrono::hours(1), &clock);
  while (sensors.readings().empty()) std::this_thread::yield();
}

}  // namespace
}  // namespace gemmd
