// Tests the answers of a new server after whatever its first users tried, on the CPU.
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/time/units.h"
#include "gtest/gtest.h"
#include "server/admission/admission.h"
#include "server/device/cpu_device.h"
#include "tests/testing/fake_alarm.h"

namespace gemmd {
namespace {

class FirstMinute : public ::testing::Test {
 protected:
  static MatmulCall Call(std::uint64_t n, DataType type) {
    OperandSpec operand;
    operand.data = {type, n, n, Order::kRowMajor, 0};
    MatmulCall call;
    call.a = call.b = operand;
    return call;
  }

  absl::Status Admits(const MatmulCall& call, TimeNs left_ns) {
    return admission_.Admit(call, clock_.Now() + left_ns, Admission::Carrier::kStream).status();
  }

  // Computes a product of zeros.
  void Run(const MatmulCall& call) {
    auto request = admission_.Admit(call, kNoDeadline, Admission::Carrier::kStream);
    ASSERT_TRUE(request.ok()) << request.status();
    const std::string zeros(
        call.a->data.rows * call.a->data.columns * SizeBits(call.a->data.type) / 8, '\0');
    const absl::string_view piece = zeros;
    for (const OperandName operand : {OperandName::kA, OperandName::kB}) {
      ASSERT_TRUE((*request)
                      ->payload()
                      .Receive({operand, PlaneName::kData, 0, absl::MakeConstSpan(&piece, 1)})
                      .ok());
    }
    RequestTimes times;
    times.arrival = clock_.Now();
    ASSERT_TRUE(admission_
                    .Submit(admission_.NextRequestId(), *std::move(request), std::move(times),
                            [](const MatmulOutcome& outcome) { EXPECT_TRUE(outcome.status.ok()); })
                    .ok());
    while (!scheduler_.WaitUntilIdle(1000)) {
    }
  }

  SteadyClock clock_;
  CpuDevice device_{{1, std::uint64_t{1} << 30}, &clock_};
  testing::FakeAlarm alarm_;
  Scheduler scheduler_{&device_, &clock_, &alarm_, SchedulerOptions()};
  Router router_{{{&device_, &scheduler_}}};
  RequestLimits limits_{2147483647, 1 << 30, 1 << 26};
  Admission admission_{limits_, &BuiltinRegistry(), &router_, &clock_};
};

TEST_F(FirstMinute, OneByOneDoesNotMakeTheServerRefuseLargeProducts) {
  Run(Call(1, DataType::kF32));
  EXPECT_TRUE(Admits(Call(700, DataType::kF32), kSecond).ok());
  EXPECT_TRUE(Admits(Call(700, DataType::kInt8), kSecond).ok());
}

TEST_F(FirstMinute, NoHistoryOfSmallProductsRefusesALargeOne) {
  constexpr DataType kTypes[] = {DataType::kF32, DataType::kF64, DataType::kInt8, DataType::kBf16};
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 20; ++i) {
      const double size = std::exp2(std::uniform_real_distribution<double>(0, 6)(random));
      Run(Call(static_cast<std::uint64_t>(size), kTypes[random() % 4]));
    }
    for (const DataType type : kTypes) {
      EXPECT_TRUE(Admits(Call(700, type), kSecond).ok()) << "round " << round;
    }
    const auto estimate = admission_.Estimate(Call(700, DataType::kF32));
    ASSERT_TRUE(estimate.ok()) << estimate.status();
    EXPECT_LT(estimate->offer.cost.device_us, 1e6) << "round " << round;
  }
}

}  // namespace
}  // namespace gemmd
