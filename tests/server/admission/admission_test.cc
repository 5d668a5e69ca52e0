#include "server/admission/admission.h"

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/admission/retry_after.h"
#include "tests/testing/fake_alarm.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_device.h"

namespace gemmd {
namespace {

class AdmissionTest : public ::testing::Test {
 protected:
  explicit AdmissionTest(std::uint64_t memory_bytes = 1 << 24)
      : device_(&clock_, memory_bytes, 1), free_bytes_(memory_bytes) {
    limits_.request_bytes = 1 << 30;
    limits_.result_bytes = 1 << 26;
    admission_ =
        std::make_unique<Admission>(limits_, &BuiltinRegistry(), &router_, &statistics_, &clock_);
  }

  ~AdmissionTest() override {
    while (device_.FinishOne()) {
    }
    EXPECT_EQ(device_.memory().usage().free_bytes(), free_bytes_);
  }

  // n x n f32 operands.
  static MatmulCall Call(std::uint64_t n) {
    OperandSpec operand;
    operand.data = {DataType::kF32, n, n, Order::kRowMajor, 0};
    MatmulCall call;
    call.a = call.b = operand;
    return call;
  }

  absl::StatusOr<std::unique_ptr<AdmittedMatmul>> Admit(
      const MatmulCall& call, TimeNs deadline = kNoDeadline,
      Admission::Carrier carrier = Admission::Carrier::kMessage) {
    return admission_->Admit(call, deadline, carrier);
  }

  static absl::Status ReceiveZeros(OperandName operand, std::uint64_t bytes,
                                   const AdmittedMatmul& request) {
    const std::string zeros(bytes, '\0');
    const absl::string_view piece = zeros;
    return request.payload().Receive(
        {operand, PlaneName::kData, 0, absl::MakeConstSpan(&piece, 1)});
  }

  absl::Status Submit(std::unique_ptr<AdmittedMatmul> request) {
    RequestTimes times;
    times.arrival = clock_.Now();
    times.spans = {{Stage::kDecode, times.arrival, times.arrival}};
    return admission_->Submit(
        admission_->NextRequestId(), std::move(request), std::move(times),
        [this](MatmulOutcome outcome) { outcomes_.push_back(std::move(outcome)); });
  }

  // Admits, receives and submits a product of n x n operands.
  absl::Status Run(std::uint64_t n, TimeNs deadline = kNoDeadline) {
    absl::StatusOr<std::unique_ptr<AdmittedMatmul>> request = Admit(Call(n), deadline);
    if (!request.ok()) return request.status();
    for (OperandName operand : {OperandName::kA, OperandName::kB}) {
      if (absl::Status s = ReceiveZeros(operand, n * n * 4, **request); !s.ok()) return s;
    }
    return Submit(*std::move(request));
  }

  testing::FakeClock clock_;
  testing::FakeDevice device_;
  const std::uint64_t free_bytes_;
  testing::FakeAlarm alarm_;
  Scheduler scheduler_{&device_, &clock_, &alarm_, testing::BoundOf(2)};
  Router router_{{{&device_, &scheduler_}}};
  Statistics statistics_;
  RequestLimits limits_;
  std::unique_ptr<Admission> admission_;
  std::vector<MatmulOutcome> outcomes_;
};

TEST_F(AdmissionTest, AnAdmittedRequestHasItsBytesAndPlan) {
  ASSERT_TRUE(Run(16).ok());
  const MemoryUsage usage = device_.memory().usage();
  EXPECT_EQ(usage.in_flight_bytes, 3u * 16 * 16 * 4);
  EXPECT_GT(usage.workspace_bytes, 0u);
  clock_.Advance(5);
  device_.FinishOne();
  ASSERT_EQ(outcomes_.size(), 1u);
  EXPECT_TRUE(outcomes_[0].status.ok());
  ASSERT_EQ(outcomes_[0].d.size(), 1u);
  EXPECT_EQ(outcomes_[0].d[0].size_bytes, 16u * 16 * 4);
  EXPECT_EQ(outcomes_[0].receipt.kernel, "cpu/panel_f32");
  EXPECT_EQ(outcomes_[0].receipt.payload_bytes_in, 2048u);
  EXPECT_EQ(outcomes_[0].receipt.spans.size(), 4u);  // decode, admission, queue, compute
  EXPECT_EQ(statistics_.Read().admitted, 1u);
}

TEST_F(AdmissionTest, AFailedLaunchGivesNoResult) {
  ASSERT_TRUE(Run(4).ok());
  device_.FinishOne(absl::InternalError("broken"));
  ASSERT_EQ(outcomes_.size(), 1u);
  EXPECT_TRUE(outcomes_[0].d.empty());
}

TEST_F(AdmissionTest, AFullQueueTellsWhenToRetry) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Run(64).ok());
  const absl::Status status = Run(64);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(RetryAfterMs(status).has_value());
  EXPECT_GE(*RetryAfterMs(status), 1);
}

TEST_F(AdmissionTest, ADeadlineThatCannotBeMetIsRefusedBeforeAnyByteIsHeld) {
  // The fake device computes 1 GFLOP/s: 64 x 64 x 64 takes half a millisecond.
  const absl::Status late = Run(64, clock_.Now() + 100000);
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(late.message(),
            "the deadline is 100 us away, and the product alone is predicted to take 524 us");
  EXPECT_EQ(Run(64, clock_.Now()).message(), "the deadline passed before admission");
  EXPECT_EQ(device_.memory().usage().free_bytes(), free_bytes_);
  EXPECT_TRUE(Run(64, clock_.Now() + 600000).ok());
}

TEST_F(AdmissionTest, TheHeaderAloneHoldsAllTheBytesAndDroppingItFreesThem) {
  auto request = Admit(Call(8));
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(device_.memory().usage().in_flight_bytes, 3u * 8 * 8 * 4);
  request->reset();
  EXPECT_EQ(device_.memory().usage().free_bytes(), free_bytes_);
  EXPECT_EQ(statistics_.Read().admitted, 0u);
}

TEST_F(AdmissionTest, ABadPayloadGivesItsBytesBack) {
  auto request = Admit(Call(8));
  ASSERT_TRUE(request.ok()) << request.status();
  ASSERT_TRUE(ReceiveZeros(OperandName::kA, 8 * 8 * 4, **request).ok());
  EXPECT_EQ(Submit(*std::move(request)).message(),
            "payload of b has 0 bytes, and the next byte is 0; its plane has 256");
}

TEST_F(AdmissionTest, OnlyAMessageLimitsTheResult) {
  limits_.result_bytes = 100;
  Admission admission(limits_, &BuiltinRegistry(), &router_, &statistics_, &clock_);
  EXPECT_EQ(admission.Admit(Call(8), kNoDeadline, Admission::Carrier::kMessage).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(admission.Admit(Call(8), kNoDeadline, Admission::Carrier::kStream).ok());
}

TEST_F(AdmissionTest, DrainingComesBeforeEverything) {
  scheduler_.StartDraining();
  EXPECT_EQ(Admit({}).status().code(), absl::StatusCode::kUnavailable);
}

class SmallMemory : public AdmissionTest {
 protected:
  SmallMemory() : AdmissionTest(1 << 19) {}
};

TEST_F(SmallMemory, FullNowIsAnAnswerAndTooLargeIsAnother) {
  ASSERT_TRUE(Run(100).ok());
  const absl::Status full = Run(100);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryAfterMs(full).has_value());
  const absl::Status never = Run(400);
  EXPECT_EQ(never.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(never.message().find("which has 524288"), std::string::npos) << never;
  device_.FinishOne();
  EXPECT_TRUE(Run(100).ok());
}

}  // namespace
}  // namespace gemmd
