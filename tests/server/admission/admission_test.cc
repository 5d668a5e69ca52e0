#include "server/admission/admission.h"

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/admission/retry_after.h"
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

  // n x n f32 operands with their payload.
  MatmulJob Request(std::uint64_t n, TimeNs deadline = kNoDeadline) {
    MatmulJob job;
    OperandSpec operand;
    operand.data = {DataType::kF32, n, n, Order::kRowMajor, 0};
    job.call.a = job.call.b = operand;
    bytes_.resize(n * n * 4);
    job.call.payload = {{OperandName::kA, PlaneName::kData, 0, bytes_},
                        {OperandName::kB, PlaneName::kData, 0, bytes_}};
    job.arrival = clock_.Now();
    job.decode = {Stage::kDecode, job.arrival, job.arrival};
    job.deadline = deadline;
    return job;
  }

  absl::Status Submit(const MatmulJob& job) {
    return admission_->Submit(admission_->NextRequestId(), job, [this](MatmulOutcome outcome) {
      outcomes_.push_back(std::move(outcome));
    });
  }

  testing::FakeClock clock_;
  testing::FakeDevice device_;
  const std::uint64_t free_bytes_;
  Scheduler scheduler_{&device_, &clock_, {2}};
  Router router_{{{&device_, &scheduler_}}};
  Statistics statistics_;
  RequestLimits limits_;
  std::unique_ptr<Admission> admission_;
  std::string bytes_;
  std::vector<MatmulOutcome> outcomes_;
};

TEST_F(AdmissionTest, AnAdmittedRequestHasItsBytesAndPlan) {
  ASSERT_TRUE(Submit(Request(16)).ok());
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
  ASSERT_TRUE(Submit(Request(4)).ok());
  device_.FinishOne(absl::InternalError("broken"));
  ASSERT_EQ(outcomes_.size(), 1u);
  EXPECT_TRUE(outcomes_[0].d.empty());
}

TEST_F(AdmissionTest, AFullQueueTellsWhenToRetry) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Submit(Request(64)).ok());
  const absl::Status status = Submit(Request(64));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(RetryAfterMs(status).has_value());
  EXPECT_GE(*RetryAfterMs(status), 1);
}

TEST_F(AdmissionTest, ADeadlineThatCannotBeMetIsRefusedBeforeAnyByteIsHeld) {
  // The fake device computes 1 GFLOP/s: 64 x 64 x 64 takes half a millisecond.
  const absl::Status late = Submit(Request(64, clock_.Now() + 100000));
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(late.message(),
            "the deadline is 100 us away, and the product alone is predicted to take 524 us");
  EXPECT_EQ(Submit(Request(64, clock_.Now())).message(), "the deadline passed before admission");
  EXPECT_EQ(device_.memory().usage().free_bytes(), free_bytes_);
  EXPECT_TRUE(Submit(Request(64, clock_.Now() + 600000)).ok());
}

TEST_F(AdmissionTest, ABadPayloadGivesItsBytesBack) {
  MatmulJob job = Request(8);
  job.call.payload.pop_back();
  EXPECT_EQ(Submit(job).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(AdmissionTest, DrainingComesBeforeEverything) {
  scheduler_.StartDraining();
  EXPECT_EQ(Submit({}).code(), absl::StatusCode::kUnavailable);
}

class SmallMemory : public AdmissionTest {
 protected:
  SmallMemory() : AdmissionTest(1 << 19) {}
};

TEST_F(SmallMemory, FullNowIsAnAnswerAndTooLargeIsAnother) {
  ASSERT_TRUE(Submit(Request(100)).ok());
  const absl::Status full = Submit(Request(100));
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryAfterMs(full).has_value());
  const absl::Status never = Submit(Request(400));
  EXPECT_EQ(never.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(never.message().find("which has 524288"), std::string::npos) << never;
  device_.FinishOne();
  EXPECT_TRUE(Submit(Request(100)).ok());
}

}  // namespace
}  // namespace gemmd
