#include "server/device/cpu_device.h"

#include <future>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/products/matrices.h"

namespace gemmd {
namespace {

CpuDevice::Options SmallOptions() {
  CpuDevice::Options options;
  options.threads = 2;
  options.memory_bytes = 1 << 20;
  return options;
}

TEST(CpuDevice, ComputesManyWorksAndTellsWhenEachRan) {
  const SteadyClock clock;
  CpuDevice device(SmallOptions(), &clock);
  EXPECT_GT(device.traits().f32_gflops, 0);
  EXPECT_GT(device.traits().memory_gbps, 0);
  const Problem problem = MakeProblem(70, 40, 30, DataType::kF32, DataType::kF32);
  std::vector<testing::Operands> operands;
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    operands.emplace_back(problem, testing::Distribution::kNormal, seed);
  }
  std::vector<std::future<DeviceResult>> results;
  for (testing::Operands& each : operands) {
    DeviceWork work;
    work.problem = problem;
    work.plan = *Select(BuiltinRegistry(), problem, device.traits());
    work.buffers[WorkPlane::kA] = each.a.data();
    work.buffers[WorkPlane::kB] = each.b.data();
    work.buffers.d = {{each.d.data(), each.d.size(), nullptr}};
    std::promise<DeviceResult> promise;
    results.push_back(promise.get_future());
    device.Submit(std::move(work), [promise = std::move(promise)](DeviceResult result) mutable {
      promise.set_value(std::move(result));
    });
  }
  TimeNs previous_end = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const DeviceResult result = results[i].get();
    EXPECT_TRUE(result.status.ok()) << result.status;
    ASSERT_EQ(result.spans.size(), 1u);
    EXPECT_EQ(result.spans[0].stage, Stage::kCompute);
    EXPECT_GE(result.spans[0].start, previous_end);
    EXPECT_GT(result.spans[0].end, result.spans[0].start);
    previous_end = result.spans[0].end;
    EXPECT_EQ(testing::CompareWithReference(problem, operands[i]), "");
  }
}

TEST(CpuDeviceTest, PlanesCountUntilTheirLastCopyIsGone) {
  const SteadyClock clock;
  CpuDevice::Options options;
  options.memory_bytes = 1 << 20;
  auto device = std::make_unique<CpuDevice>(options, &clock);
  HostPiece operand = *device->AllocateOperand(1000);
  HostBuffer result = *device->AllocateResult({DataType::kF32, 10, 10, Order::kRowMajor, 10});
  EXPECT_EQ(device->memory().usage().in_flight_bytes, 1400u);
  EXPECT_EQ(device->AllocateOperand(1 << 20).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(device->AllocateOperand((1 << 20) + 1).status().code(),
            absl::StatusCode::kInvalidArgument);
  const HostPiece copy = operand;
  operand = {};
  EXPECT_EQ(device->memory().usage().in_flight_bytes, 1400u);
  device.reset();
  result.clear();  // after the device
}

}  // namespace
}  // namespace gemmd
