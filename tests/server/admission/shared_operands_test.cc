#include "server/admission/shared_operands.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "server/admission/admission.h"
#include "server/admission/validation.h"
#include "tests/testing/fake_alarm.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_device.h"
#include "tests/testing/fake_kernel.h"
#include "tests/testing/shared_file.h"

namespace gemmd {
namespace {

using absl::StatusCode;
using testing::SharedFile;

constexpr std::uint64_t kFileBytes = 4096;
constexpr std::uint64_t kPlaneBytes = 64;  // of 4 x 4 f32

class SharedOperandsTest : public ::testing::Test {
 protected:
  SharedOperandsTest() {
    limits_.request_bytes = limits_.result_bytes = 1 << 20;
    region_ = Register(file_, 0, kFileBytes);
  }

  static RegionOptions Options() {
    RegionOptions options;
    options.name_prefixes = {"gemmd-test-"};
    options.max_regions = 8;
    options.max_bytes = 1 << 20;
    options.default_lease = options.max_lease = 1000000000;
    return options;
  }

  std::string Register(const SharedFile& file, std::uint64_t offset, std::uint64_t bytes) {
    auto registered = table_.Register(PosixRegion{file.name(), offset, bytes}, std::nullopt);
    EXPECT_TRUE(registered.ok()) << registered.status();
    return registered->id;
  }

  OperandSpec Shared(std::uint64_t offset) const {
    OperandSpec operand;
    operand.data = {DataType::kF32, 4, 4, Order::kRowMajor, 0};
    operand.source = Source::kShared;
    operand.shared = {region_, offset};
    return operand;
  }
  // A at byte 64 of the region, B at 128.
  MatmulCall Call() const {
    MatmulCall call;
    call.a = Shared(64);
    call.b = Shared(128);
    return call;
  }

  absl::StatusOr<SharedOperands> Find(const MatmulCall& call) {
    const absl::StatusOr<Problem> problem = ValidateHeader(call, limits_);
    if (!problem.ok()) return problem.status();
    const absl::StatusOr<Stack> stack = ValidateBatch(call, *problem, limits_);
    if (!stack.ok()) return stack.status();
    return SharedOperands::Find(&table_, call, *problem, *stack);
  }
  // Returns the plane that D would overlap with there; empty if it may lie there.
  std::string Overlap(MatmulCall call, const std::string& region, std::uint64_t offset) {
    call.output = SharedMemorySpec{region, offset};
    const absl::Status status = Find(call).status();
    if (status.ok()) return "";
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    const std::string message(status.message());
    constexpr absl::string_view kBefore = "which overlap with ";
    const std::size_t begin = message.find(std::string(kBefore));
    if (begin == std::string::npos) return message;
    return message.substr(begin + kBefore.size(), message.find(';') - begin - kBefore.size());
  }

  RequestLimits limits_;
  testing::FakeClock clock_;
  testing::FakeDevice device_{&clock_, 1 << 20, 1};
  RegionTable table_{Options(), {&device_}, &clock_, std::chrono::milliseconds(0)};
  SharedFile file_{kFileBytes};
  std::string region_;
};

TEST_F(SharedOperandsTest, DMayTouchItsOperandsAndNotOverlapWithThem) {
  EXPECT_EQ(Overlap(Call(), region_, 0), "");
  EXPECT_EQ(Overlap(Call(), region_, 1), "a.shared");
  EXPECT_EQ(Overlap(Call(), region_, 64), "a.shared");
  EXPECT_EQ(Overlap(Call(), region_, 191), "b.shared");
  EXPECT_EQ(Overlap(Call(), region_, 192), "");
}

TEST_F(SharedOperandsTest, RegionsOfOneFileAreOneMemory) {
  const std::string other = Register(file_, 100, 1000);
  EXPECT_EQ(Overlap(Call(), other, 0), "a.shared");
  EXPECT_EQ(Overlap(Call(), other, 91), "b.shared");
  EXPECT_EQ(Overlap(Call(), other, 92), "");
  const SharedFile elsewhere(kFileBytes);
  EXPECT_EQ(Overlap(Call(), Register(elsewhere, 0, kFileBytes), 64), "");
}

TEST_F(SharedOperandsTest, DMayBeCItselfAndNothingElse) {
  MatmulCall call = Call();
  call.c = Shared(256);
  call.beta = 1;
  EXPECT_EQ(Overlap(call, region_, 256), "");
  EXPECT_EQ(Overlap(call, region_, 260), "c.shared");
  EXPECT_EQ(Overlap(call, Register(file_, 0, kFileBytes), 256), "c.shared");
  EXPECT_EQ(Overlap(call, region_, 64), "a.shared");
  call.output_order = Order::kColumnMajor;
  EXPECT_EQ(Overlap(call, region_, 256), "c.shared");
  call.output_order = Order::kRowMajor;
  call.output_leading_dimension = 5;
  EXPECT_EQ(Overlap(call, region_, 256), "c.shared");
}

TEST_F(SharedOperandsTest, ABiasIsAnOperandLikeAnother) {
  MatmulCall call = Call();
  call.bias = Shared(256);
  call.bias->data.rows = 1;  // 16 bytes
  EXPECT_EQ(Overlap(call, region_, 271), "bias.shared");
  EXPECT_EQ(Overlap(call, region_, 272), "");
}

TEST_F(SharedOperandsTest, PlanesLieInTheirRegions) {
  MatmulCall call = Call();
  call.a = Shared(kFileBytes - kPlaneBytes);
  EXPECT_TRUE(Find(call).ok());
  call.a = Shared(kFileBytes - kPlaneBytes + 1);
  EXPECT_EQ(Find(call).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Overlap(Call(), region_, kFileBytes - kPlaneBytes), "");
  EXPECT_NE(Overlap(Call(), region_, kFileBytes - kPlaneBytes + 1), "");
  file_.Resize(kFileBytes - 1);
  EXPECT_EQ(Find(Call()).status().code(), StatusCode::kFailedPrecondition);
}

// Int8, with 4 scales after the 16 bytes of A.
TEST_F(SharedOperandsTest, ScalesFollowTheirPlaneAndAreChecked) {
  MatmulCall call = Call();
  call.a->data.type = call.b->data.type = DataType::kInt8;
  call.a->scales = PlaneSpec{DataType::kF32, 4, 1, Order::kRowMajor, 0};
  call.output_type = DataType::kF32;
  const auto read = [&](float last) {
    const float scales[] = {1, 2, 0, last};
    file_.Write(64 + 16, scales, sizeof scales);
    auto shared = Find(call);
    if (!shared.ok()) return shared.status();
    EXPECT_EQ(shared->bytes_in(), 16u + 16 + 16);
    auto placed = shared->PlaceOn(&device_);
    if (!placed.ok()) return placed.status();
    absl::Status status = shared->Read(*placed);
    HostBuffers buffers;
    shared->Overlay(*placed, &buffers);
    const auto* const placed_scales = static_cast<const float*>(buffers[WorkPlane::kAScales]);
    EXPECT_TRUE(std::equal(std::begin(scales), std::end(scales), placed_scales));
    EXPECT_EQ(buffers[WorkPlane::kBScales], nullptr);
    return status;
  };
  EXPECT_TRUE(read(3).ok());
  EXPECT_TRUE(read(-1).ok());
  EXPECT_EQ(read(INFINITY).code(), StatusCode::kInvalidArgument);
  call.a = Shared(kFileBytes - 16);
  call.a->data.type = DataType::kInt8;
  EXPECT_TRUE(Find(call).ok());
  call.a->scales = PlaneSpec{DataType::kF32, 4, 1, Order::kRowMajor, 0};
  EXPECT_EQ(Find(call).status().code(), StatusCode::kInvalidArgument);
}

// The way of a request whose operands and result all are shared.
class SharedRequest : public SharedOperandsTest {
 protected:
  SharedRequest() {
    call_ = Call();
    call_.output = SharedMemorySpec{region_, 1024};
    call_.output_leading_dimension = 5;  // 76 bytes
    const std::string ones(kFileBytes, 1);
    file_.Write(0, ones.data(), ones.size());
  }

  absl::Status Submit() {
    auto admitted = admission_.Admit(call_, kNoDeadline, Admission::Carrier::kMessage);
    if (!admitted.ok()) return admitted.status();
    for (const HostPiece& piece : (*admitted)->completion->d) {
      std::memset(piece.data, 'd', piece.size_bytes);
    }
    if (before_submit_) before_submit_();
    RequestTimes times;
    times.spans = {{Stage::kDecode, 0, 0}};
    return admission_.Submit(1, *std::move(admitted), std::move(times),
                             [this](MatmulOutcome outcome) { outcome_ = std::move(outcome); });
  }

  MatmulCall call_;
  testing::FakeAlarm alarm_;
  Scheduler scheduler_{&device_, &clock_, &alarm_, testing::BoundOf(2)};
  Router router_{{{&device_, &scheduler_}}};
  Admission admission_{limits_, &testing::OneFakeKernel(), &router_, &clock_, {nullptr, &table_}};
  std::function<void()> before_submit_;
  MatmulOutcome outcome_;
};

TEST_F(SharedRequest, DGoesWhereItIsToGoLineByLine) {
  ASSERT_TRUE(Submit().ok());
  device_.FinishOne();
  ASSERT_TRUE(outcome_.status.ok()) << outcome_.status;
  EXPECT_TRUE(outcome_.d.empty());
  EXPECT_EQ(outcome_.receipt.shared_bytes_in, 2 * kPlaneBytes);
  EXPECT_EQ(outcome_.receipt.shared_bytes_out, 76u);
  EXPECT_EQ(outcome_.receipt.payload_bytes_out, 0u);
  // The bytes between the lines are the client's.
  std::string expected(1 + 80, 1);
  for (std::size_t line = 0; line < 4; ++line) expected.replace(1 + line * 20, 16, 16, 'd');
  EXPECT_EQ(file_.Read(1023, 81), expected);
  EXPECT_EQ(device_.memory().usage().free_bytes(), std::uint64_t{1} << 20);
}

TEST_F(SharedRequest, AnEstimateCountsWhatTravelsAlone) {
  auto estimate = admission_.Estimate(call_);
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  EXPECT_EQ(estimate->receive_bytes, 0u);
  EXPECT_EQ(estimate->send_bytes, 0u);
  call_.b->source = Source::kInline;
  call_.output.reset();
  estimate = admission_.Estimate(call_);
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  EXPECT_EQ(estimate->receive_bytes, kPlaneBytes);
  EXPECT_EQ(estimate->send_bytes, 76u);
}

// The file is whole again before anybody looks a second time.
TEST_F(SharedRequest, WhatCannotBeReadIsNotComputed) {
  before_submit_ = [this] { file_.Resize(100); };
  EXPECT_EQ(Submit().code(), StatusCode::kFailedPrecondition);
  file_.Resize(kFileBytes);
  EXPECT_EQ(device_.running(), 0u);
  EXPECT_EQ(scheduler_.queued().jobs, 0u);
  EXPECT_EQ(scheduler_.statistics().requests, 0u);
}

TEST_F(SharedRequest, AFileThatWasCutShortMeanwhileIsNotMadeWholeAgain) {
  ASSERT_TRUE(Submit().ok());
  file_.Resize(512);
  device_.FinishOne();
  EXPECT_EQ(outcome_.status.code(), StatusCode::kFailedPrecondition);
  file_.Resize(kFileBytes);
  EXPECT_EQ(file_.Read(1024, 76), std::string(76, '\0'));
}

TEST_F(SharedRequest, AFailedProductIsNotWritten) {
  ASSERT_TRUE(Submit().ok());
  device_.FinishOne(absl::InternalError("broken"));
  EXPECT_EQ(outcome_.status.code(), StatusCode::kInternal);
  EXPECT_EQ(file_.Read(1024, 76), std::string(76, 1));
}

}  // namespace
}  // namespace gemmd
