#include "server/admission/admission.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/tenants/retry_after.h"
#include "tests/testing/fake_alarm.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_device.h"
#include "tests/testing/fake_kernel.h"

namespace gemmd {
namespace {

class AdmissionTest : public ::testing::Test {
 protected:
  explicit AdmissionTest(std::uint64_t memory_bytes = 1 << 24)
      : device_(&clock_, memory_bytes, 1), free_bytes_(memory_bytes) {
    limits_.request_bytes = 1 << 30;
    limits_.result_bytes = 1 << 26;
    admission_ = std::make_unique<Admission>(limits_, &BuiltinRegistry(), &router_, &clock_);
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
  absl::Status Run(std::uint64_t n, TimeNs deadline = kNoDeadline, const Tenant& tenant = {}) {
    MatmulCall call = Call(n);
    call.tenant = tenant;
    absl::StatusOr<std::unique_ptr<AdmittedMatmul>> request = Admit(call, deadline);
    if (!request.ok()) return request.status();
    for (OperandName operand : {OperandName::kA, OperandName::kB}) {
      if (absl::Status s = ReceiveZeros(operand, n * n * 4, **request); !s.ok()) return s;
    }
    return Submit(*std::move(request));
  }

  // Runs a product of n x n operands on a device that takes `ns` for it. The deadline is `left_ns`
  // away; 0: there is none.
  absl::Status RunFor(std::uint64_t n, TimeNs ns, TimeNs left_ns = 0) {
    absl::Status status = Run(n, left_ns == 0 ? kNoDeadline : clock_.Now() + left_ns);
    if (!status.ok()) return status;
    clock_.Advance(ns);
    device_.FinishOne();
    return outcomes_.back().status;
  }

  testing::FakeClock clock_;
  testing::FakeDevice device_;
  const std::uint64_t free_bytes_;
  testing::FakeAlarm alarm_;
  Scheduler scheduler_{&device_, &clock_, &alarm_, testing::BoundOf(2)};
  Router router_{{{&device_, &scheduler_}}};
  RequestLimits limits_;
  std::unique_ptr<Admission> admission_;
  std::vector<MatmulOutcome> outcomes_;
};

TEST_F(AdmissionTest, AnAdmittedRequestHasItsBytesAndPlan) {
  ASSERT_TRUE(Run(16).ok());
  const MemoryUsage usage = device_.memory().usage();
  EXPECT_EQ(usage.in_flight_bytes, 3u * 16 * 16 * 4);
  clock_.Advance(5);
  device_.FinishOne();
  ASSERT_EQ(outcomes_.size(), 1u);
  EXPECT_TRUE(outcomes_[0].status.ok());
  ASSERT_EQ(outcomes_[0].d.size(), 1u);
  EXPECT_EQ(outcomes_[0].d[0].size_bytes, 16u * 16 * 4);
  EXPECT_EQ(outcomes_[0].receipt.kernel, "cpu/panel_f32");
  EXPECT_EQ(outcomes_[0].receipt.payload_bytes_in, 2048u);
  EXPECT_EQ(outcomes_[0].receipt.spans.size(), 4u);  // decode, admission, queue, compute
  EXPECT_EQ(scheduler_.statistics().requests, 1u);
}

TEST_F(AdmissionTest, AnAdmittedRequestHasItsWorkspace) {
  MatmulCall call = Call(16);
  call.alpha = 2;  // so that sums are kept apart from D
  const auto request = Admit(call);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_GT((*request)->job->work.plan.workspace_bytes, 0u);
  EXPECT_GE(device_.memory().usage().workspace_bytes, (*request)->job->work.plan.workspace_bytes);
}

// It is whatever the memory held before: another's result, perhaps.
TEST_F(AdmissionTest, WhatLiesBetweenTheLinesOfAResultIsNotTold) {
  MatmulCall call = Call(4);
  call.output_leading_dimension = 6;
  auto request = Admit(call);
  ASSERT_TRUE(request.ok()) << request.status();
  for (OperandName operand : {OperandName::kA, OperandName::kB}) {
    ASSERT_TRUE(ReceiveZeros(operand, 4 * 4 * 4, **request).ok());
  }
  const HostPiece d = (*request)->completion->d.front();
  std::fill_n(d.data, d.size_bytes, 'x');
  ASSERT_TRUE(Submit(*std::move(request)).ok());
  device_.FinishOne();
  std::string expected;
  for (int line = 0; line < 4; ++line) {
    expected += std::string(16, 'x') + std::string(line < 3 ? 8 : 0, '\0');
  }
  EXPECT_EQ(std::string(d.data, d.size_bytes), expected);
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
  EXPECT_GE(*RetryAfterMs(status), LeastRetryMs(WaitsFor::kRequests));
}

TEST_F(AdmissionTest, ADeadlineThatCannotBeMetIsRefusedBeforeAnyByteIsHeld) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(RunFor(64, 524000).ok());
  const absl::Status late = Run(64, clock_.Now() + 100000);
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(late.message(),
            "the deadline leaves 88 us, and the product alone takes at least 451 us by what was "
            "measured");
  EXPECT_EQ(Run(64, clock_.Now()).message(), "the deadline passed before admission");
  EXPECT_EQ(device_.memory().usage().free_bytes(), free_bytes_);
  EXPECT_TRUE(Run(64, clock_.Now() + 600000).ok());
}

// A result of 16 KiB may take 3 * 16384 ns, where that is no more than an eighth of what is left.
TEST_F(AdmissionTest, TheDeviceIsDoneInTimeForTheResult) {
  for (const auto& [left, kept] : {std::pair<TimeNs, TimeNs>{1000000, 49152}, {80000, 10000}}) {
    const auto request = Admit(Call(64), clock_.Now() + left);
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_EQ((*request)->job->deadline, clock_.Now() + left - kept);
    EXPECT_EQ((*request)->completion->deadline, clock_.Now() + left);
  }
  EXPECT_EQ((*Admit(Call(64)))->job->deadline, kNoDeadline);
}

// Nobody knows how long it will take: the fake device's 1 GFLOP/s are a guess.
TEST_F(AdmissionTest, WhatWasNotMeasuredIsTriedByAnIdleDevice) {
  EXPECT_TRUE(Run(64, clock_.Now() + 100000).ok());
}

TEST_F(AdmissionTest, NoHistoryRefusesForGood) {
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(RunFor(64, 524000000).ok());  // a bad hour
  int refused = 0;
  while (!RunFor(64, 524000, 5240000).ok()) ASSERT_LT(++refused, 100);
  EXPECT_GT(refused, 0);
  for (int i = 0; i < 100; ++i) {
    if (!RunFor(64, 524000, 5240000).ok()) ++refused;
  }
  EXPECT_TRUE(RunFor(64, 524000, 1000000).ok());
}

// 4.2 ms of the hog's are with the device, and 8.4 ms wait: that tenant's next product waits for
// all of it, another's for its share.
class AdmissionOfTenants : public AdmissionTest {
 protected:
  AdmissionOfTenants() {
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(Run(128, clock_.Now() + 9000000, hog_).ok());
  }

  static MatmulCall CallOf(const Tenant& tenant) {
    MatmulCall call = Call(128);
    call.tenant = tenant;
    return call;
  }

  const Tenant hog_ = *Tenant::Named("hog");
  const Tenant polite_ = *Tenant::Named("polite");
};

TEST_F(AdmissionOfTenants, ADeadlineIsHeldAgainstTheCallersOwnTurn) {
  const TimeNs deadline = clock_.Now() + 10000000;
  EXPECT_EQ(Admit(CallOf(hog_), deadline).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Admit(CallOf({}), deadline).status(), absl::OkStatus());
  EXPECT_EQ(Admit(CallOf(polite_), deadline).status(), absl::OkStatus());
}

TEST_F(AdmissionOfTenants, AnEstimateIsOfTheCallersOwnTurn) {
  const auto queue_us = [&](const MatmulCall& call) {
    return admission_->Estimate(call)->queue_us;
  };
  EXPECT_NEAR(queue_us(CallOf(hog_)), 3 * 4194, 1);
  // The device's, one turn of the other's, and as much as it takes itself.
  EXPECT_NEAR(queue_us(CallOf(polite_)), 2 * 4194 + 500, 1);
  MatmulCall high = CallOf(hog_);
  high.priority = Priority::kHigh;
  EXPECT_NEAR(queue_us(high), 4194, 1);
}

TEST_F(AdmissionOfTenants, AProductWhosePayloadIsToComeIsWaitedFor) {
  device_.FinishOne();  // two may wait
  const auto wait_us = [&] { return admission_->Estimate(CallOf(polite_))->queue_us; };
  auto request = Admit(CallOf(polite_));
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_NEAR(wait_us(), 2 * 4194 + 500, 1);
  (*request)->ExpectPayload();
  const double expected = wait_us();
  EXPECT_NEAR(expected, 4 * 4194.304, 1) << "the device's, its own, and twice what the hog has";
  for (OperandName operand : {OperandName::kA, OperandName::kB}) {
    ASSERT_TRUE(ReceiveZeros(operand, 128 * 128 * 4, **request).ok());
  }
  ASSERT_TRUE(Submit(*std::move(request)).ok());
  EXPECT_NEAR(wait_us(), expected, 1) << "as if it had been here";
  auto dropped = Admit(CallOf(polite_));
  ASSERT_TRUE(dropped.ok()) << dropped.status();
  (*dropped)->ExpectPayload();
  EXPECT_GT(wait_us(), expected + 4000);
  dropped->reset();
  EXPECT_NEAR(wait_us(), expected, 1);
}

// Two of the hog's jobs are still to be done.
TEST_F(AdmissionOfTenants, ARequestKeepsItsPriority) {
  device_.FinishOne();
  MatmulCall call = Call(8);
  call.tenant = hog_;
  call.priority = Priority::kHigh;
  auto request = Admit(call);
  ASSERT_TRUE(request.ok()) << request.status();
  for (OperandName operand : {OperandName::kA, OperandName::kB}) {
    ASSERT_TRUE(ReceiveZeros(operand, 8 * 8 * 4, **request).ok());
  }
  ASSERT_TRUE(Submit(*std::move(request)).ok());
  device_.FinishOne();
  device_.FinishOne();
  EXPECT_EQ(outcomes_.back().problem.m, 8);
}

TEST_F(AdmissionTest, ARequestKeepsItsDeadline) {
  ASSERT_TRUE(Run(8, clock_.Now() + 1000000).ok());
  clock_.Advance(1000000);
  device_.FinishOne();
  EXPECT_EQ(outcomes_.back().status.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(AdmissionTest, TheHeaderAloneHoldsAllTheBytesAndDroppingItFreesThem) {
  auto request = Admit(Call(8));
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(device_.memory().usage().in_flight_bytes, 3u * 8 * 8 * 4);
  request->reset();
  EXPECT_EQ(device_.memory().usage().free_bytes(), free_bytes_);
  EXPECT_EQ(scheduler_.statistics().requests, 0u);
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
  Admission admission(limits_, &BuiltinRegistry(), &router_, &clock_);
  EXPECT_EQ(admission.Admit(Call(8), kNoDeadline, Admission::Carrier::kMessage).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(admission.Admit(Call(8), kNoDeadline, Admission::Carrier::kStream).ok());
}

TEST_F(AdmissionTest, DrainingComesBeforeEverything) {
  router_.StartDraining();
  EXPECT_EQ(Admit({}).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(AdmissionTest, WhatWasAdmittedIsSubmittedWhileTheServerDrains) {
  auto admitted = Admit(Call(8));
  ASSERT_TRUE(admitted.ok()) << admitted.status();
  router_.StartDraining();
  for (OperandName operand : {OperandName::kA, OperandName::kB}) {
    ASSERT_TRUE(ReceiveZeros(operand, 8 * 8 * 4, **admitted).ok());
  }
  EXPECT_TRUE(Submit(*std::move(admitted)).ok());
}

TEST_F(AdmissionTest, AnEstimateFollowsWhatLaunchesTook) {
  const auto before = admission_->Estimate(Call(64));
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_NEAR(before->offer.cost.compute_us, 524, 1);  // at 1 GFLOP/s
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(Run(64).ok());
    clock_.Advance(2000000 + i * 10000);
    device_.FinishOne();
  }
  EXPECT_NEAR(outcomes_[0].receipt.predicted.compute_us, 524, 1);
  EXPECT_NEAR(outcomes_[4].receipt.predicted.compute_us, 2000, 40);
  EXPECT_EQ(outcomes_[4].receipt.predicted.device_us, outcomes_[4].receipt.predicted.compute_us);
  const auto after = admission_->Estimate(Call(64));
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_NEAR(after->offer.cost.compute_us, 2000, 40);
  EXPECT_EQ(after->offer.plan.kernel->traits().name, outcomes_[0].receipt.kernel);
  EXPECT_EQ(after->queue_us, 0);
  EXPECT_EQ(scheduler_.cost().accuracy().device.count, 5U);
}

TEST_F(AdmissionTest, AnEstimateCountsBytesAndBacklogAndHoldsNothing) {
  MatmulCall call = Call(64);
  auto estimate = admission_->Estimate(call);
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  EXPECT_EQ(estimate->receive_bytes, 2U * 64 * 64 * 4);
  EXPECT_EQ(estimate->send_bytes, 64U * 64 * 4);
  EXPECT_NEAR(estimate->receive_us, 32.768, 0.001);
  EXPECT_FALSE(estimate->receive_is_measured);
  EXPECT_DOUBLE_EQ(estimate->total_us(),
                   estimate->receive_us + estimate->send_us + estimate->offer.cost.device_us);
  EXPECT_EQ(device_.memory().usage().free_bytes(), free_bytes_);
  admission_->transport()->Observe(TransferDirection::kSend, 64 * 64 * 4, 100);
  ASSERT_TRUE(Run(64).ok());
  estimate = admission_->Estimate(call);
  EXPECT_GT(estimate->queue_us, 500);
  EXPECT_NEAR(estimate->send_us, 100, 0.1);
  EXPECT_TRUE(estimate->send_is_measured);
}

TEST_F(AdmissionTest, AnEstimateIsRefusedAsTheProductWouldBe) {
  MatmulCall wrong = Call(8);
  wrong.b->data.rows = 9;
  EXPECT_EQ(admission_->Estimate(wrong).status(), Admit(wrong).status());
  MatmulCall unknown = Call(8);
  unknown.kernel = "none";
  EXPECT_EQ(admission_->Estimate(unknown).status(), Admit(unknown).status());
  EXPECT_EQ(admission_->Estimate(Call(3000)).status(), Admit(Call(3000)).status());
  // Full memory and a result that only a stream carries are no reasons.
  EXPECT_TRUE(admission_->Estimate(Call(1000)).ok());
  router_.StartDraining();
  EXPECT_EQ(admission_->Estimate(Call(8)).status().code(), absl::StatusCode::kUnavailable);
}

class VerifyingAdmission : public AdmissionTest {
 protected:
  explicit VerifyingAdmission(std::uint32_t sampled_per_million = 0)
      : verifier_({sampled_per_million, 3, 16, 1 << 30, 1, 1}) {
    admission_ = std::make_unique<Admission>(limits_, &BuiltinRegistry(), &router_, &clock_,
                                             AdmissionHelpers{nullptr, nullptr, &verifier_});
  }

  // A product of zeros, whose D holds `d` when the device is done.
  void RunWith(float d, std::uint32_t vectors, TimeNs deadline = kNoDeadline) {
    MatmulCall call = Call(16);
    call.verification_vectors = vectors;
    auto request = Admit(call, deadline);
    ASSERT_TRUE(request.ok()) << request.status();
    for (OperandName operand : {OperandName::kA, OperandName::kB}) {
      ASSERT_TRUE(ReceiveZeros(operand, 16 * 16 * 4, **request).ok());
    }
    auto* const values = reinterpret_cast<float*>((*request)->completion->d.front().data);
    std::fill_n(values, 16 * 16, 0.0F);
    values[77] = d;
    ASSERT_TRUE(Submit(*std::move(request)).ok());
    clock_.Advance(1000);
  }

  const MatmulOutcome& Finish() {
    device_.FinishOne();
    verifier_.WaitUntilIdle();
    return outcomes_.back();
  }

  Verifier verifier_;
};

TEST_F(VerifyingAdmission, ARightProductComesWithItsResidual) {
  RunWith(0, 3);
  const MatmulOutcome& outcome = Finish();
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(outcome.receipt.verification_residual, 0);
  EXPECT_EQ(outcome.receipt.spans.back().stage, Stage::kVerify);
  EXPECT_FALSE(outcome.d.empty());
  outcomes_.clear();
  RunWith(0, 0);
  EXPECT_FALSE(Finish().receipt.verification_residual.has_value());
}

TEST_F(VerifyingAdmission, AWrongProductIsDataLossAndNothingOfItIsSent) {
  RunWith(1, 3);
  const MatmulOutcome& outcome = Finish();
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(outcome.status.message().find("the product failed its verification"),
            std::string::npos);
  EXPECT_TRUE(outcome.d.empty());
  EXPECT_EQ(verifier_.statistics().failed, 1U);
}

TEST_F(VerifyingAdmission, AFailedLaunchIsNotVerified) {
  RunWith(1, 3);
  device_.FinishOne(absl::InternalError("broken"));
  EXPECT_EQ(outcomes_.back().status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(verifier_.statistics().checked, 0U);
}

TEST_F(VerifyingAdmission, ADeadlineThatPassesMeanwhileCounts) {
  RunWith(0, 3, clock_.Now() + 1000000000);
  // The verifier's thread is kept busy until the deadline has passed.
  std::mutex gate;
  gate.lock();
  testing::FakeClock& clock = clock_;
  FinishedProduct other;
  other.problem = MakeProblem(1, 1, 1, DataType::kF32, DataType::kF32);
  float zero[3] = {};
  other.buffers[WorkPlane::kA] = &zero[0];
  other.buffers[WorkPlane::kB] = &zero[1];
  other.buffers.d = {{reinterpret_cast<char*>(&zero[2]), 4, nullptr}};
  other.device = &device_;
  other.kernel = BuiltinRegistry().kernels().front().get();
  verifier_.Verify(other, 1, [&gate](const absl::StatusOr<double>&) {
    const std::lock_guard<std::mutex> lock(gate);
  });
  device_.FinishOne();
  clock.Advance(2000000000);
  gate.unlock();
  verifier_.WaitUntilIdle();
  EXPECT_EQ(outcomes_.back().status.message(),
            "the deadline passed while the product was verified");
}

TEST_F(AdmissionTest, WithoutAVerifierNothingIsVerified) {
  MatmulCall call = Call(8);
  call.verification_vectors = 1;
  EXPECT_EQ(Admit(call).status().code(), absl::StatusCode::kUnimplemented);
}

class SamplingAdmission : public VerifyingAdmission {
 protected:
  SamplingAdmission() : VerifyingAdmission(1000000) {}
};

TEST_F(SamplingAdmission, AWrongProductIsSentAndCounted) {
  RunWith(1, 0);
  const MatmulOutcome& outcome = Finish();
  EXPECT_TRUE(outcome.status.ok());
  EXPECT_FALSE(outcome.d.empty());
  EXPECT_FALSE(outcome.receipt.verification_residual.has_value());
  EXPECT_EQ(verifier_.statistics().failed, 1U);
  RunWith(0, 0);
  Finish();
  EXPECT_EQ(verifier_.statistics().checked, 2U);
  EXPECT_EQ(verifier_.statistics().failed, 1U);
}

TEST_F(SamplingAdmission, WhatWasVerifiedIsNoSample) {
  RunWith(0, 3);
  EXPECT_TRUE(Finish().status.ok());
  verifier_.WaitUntilIdle();
  EXPECT_EQ(verifier_.statistics().checked, 1U);
}

class SmallMemory : public AdmissionTest {
 protected:
  SmallMemory() : AdmissionTest(1 << 19) {}
};

TEST_F(SmallMemory, FullNowIsAnAnswerAndTooLargeIsAnother) {
  ASSERT_TRUE(Run(180).ok());
  const absl::Status full = Run(180);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryAfterMs(full).has_value());
  const absl::Status never = Run(400);
  EXPECT_EQ(never.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(never.message().find("which has 524288"), std::string::npos) << never;
  device_.FinishOne();
  EXPECT_TRUE(Run(180).ok());
}

// 4000 x 1 by 1 x 1: 32004 bytes, and 512000 of workspace.
TEST_F(SmallMemory, WorkspaceThatNeverFitsIsTooLargeToo) {
  Admission admission(limits_, &testing::OneFakeKernel(), &router_, &clock_);
  MatmulCall call = Call(1);
  call.a->data.rows = 4000;
  const absl::Status never =
      admission.Admit(call, kNoDeadline, Admission::Carrier::kMessage).status();
  EXPECT_EQ(never.message(),
            "the request needs 32004 bytes and 512000 of workspace on fake, which has 524288");
  call.a->data.rows = 3800;
  EXPECT_TRUE(admission.Admit(call, kNoDeadline, Admission::Carrier::kMessage).ok());
}

}  // namespace
}  // namespace gemmd
