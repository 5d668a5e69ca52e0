#include "server/admission/inline_payload.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/admission/validation.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_device.h"

namespace gemmd {
namespace {

OperandSpec Matrix(std::uint64_t rows, std::uint64_t columns, DataType type) {
  OperandSpec operand;
  operand.data = {type, rows, columns, Order::kRowMajor, 0};
  return operand;
}

PlaneSpec Scales(std::uint64_t rows) { return {DataType::kF32, rows, 1, Order::kRowMajor, 0}; }

std::vector<float> FloatsAt(const void* address, int count) {
  const auto* const floats = static_cast<const float*>(address);
  return {floats, floats + count};
}

class InlinePayloadTest : public ::testing::Test {
 protected:
  // 4 x 6 times 6 x 5.
  explicit InlinePayloadTest(DataType type = DataType::kF32) {
    call_.a = Matrix(4, 6, type);
    call_.b = Matrix(6, 5, type);
  }

  void Create() {
    RequestLimits limits;
    limits.request_bytes = limits.result_bytes = 1 << 30;
    const absl::StatusOr<Problem> problem = ValidateHeader(call_, limits);
    ASSERT_TRUE(problem.ok()) << problem.status();
    absl::StatusOr<std::unique_ptr<InlinePayload>> payload = InlinePayload::Create(
        call_, *problem, {}, [this](std::uint64_t bytes) { return UsedMemory(bytes); });
    ASSERT_TRUE(payload.ok()) << payload.status();
    payload_ = *std::move(payload);
  }

  // Holds what another request left.
  absl::StatusOr<HostPiece> UsedMemory(std::uint64_t bytes) {
    absl::StatusOr<HostPiece> memory = device_.AllocateOperand(bytes);
    if (memory.ok()) std::memset(memory->data, 0x5A, bytes);
    return memory;
  }

  absl::Status Receive(OperandName operand, absl::string_view bytes, std::uint64_t offset = 0,
                       PlaneName plane = PlaneName::kData) {
    return payload_->Receive({operand, plane, offset, absl::MakeConstSpan(&bytes, 1)});
  }
  absl::Status ReceiveScales(OperandName operand, const std::vector<float>& scales) {
    return Receive(operand,
                   {reinterpret_cast<const char*>(scales.data()), scales.size() * sizeof(float)}, 0,
                   PlaneName::kScales);
  }

  testing::FakeClock clock_;
  testing::FakeDevice device_{&clock_, 1 << 20, 1};
  MatmulCall call_;
  std::unique_ptr<InlinePayload> payload_;
  const std::string a_ = std::string(50, 'a') + std::string(46, 'A');
  const std::string b_ = std::string(120, 'b');
};

TEST_F(InlinePayloadTest, ChunksOfAllPlanesComeInAnyOrder) {
  Create();
  const absl::string_view a = a_;
  ASSERT_TRUE(Receive(OperandName::kA, a.substr(50), 50).ok());
  ASSERT_TRUE(Receive(OperandName::kB, b_).ok());
  EXPECT_FALSE(payload_->complete());
  ASSERT_TRUE(Receive(OperandName::kA, a.substr(0, 50)).ok());
  EXPECT_TRUE(payload_->complete());
  EXPECT_TRUE(payload_->Check().ok());
  EXPECT_EQ(payload_->received_bytes(), 216u);
  const HostBuffers buffers = payload_->buffers();
  EXPECT_EQ(std::string(static_cast<const char*>(buffers[WorkPlane::kA]), 96), a_);
  EXPECT_EQ(std::string(static_cast<const char*>(buffers[WorkPlane::kB]), 120), b_);
  EXPECT_EQ(buffers[WorkPlane::kC], nullptr);
  EXPECT_EQ(buffers[WorkPlane::kAScales], nullptr);
}

TEST_F(InlinePayloadTest, OperandsWithoutElementsAreZerosOfWhichNothingComes) {
  call_.a->data.columns = call_.b->data.rows = 0;
  Create();
  EXPECT_TRUE(payload_->complete());
  EXPECT_TRUE(payload_->Check().ok());
  EXPECT_TRUE(Receive(OperandName::kB, "").ok());
  EXPECT_EQ(Receive(OperandName::kA, "abcd").message(),
            "payload of a: a chunk of 4 bytes is at offset 0; the plane has 0");
  EXPECT_EQ(payload_->received_bytes(), 0u);
  EXPECT_EQ(FloatsAt(payload_->buffers()[WorkPlane::kA], 4), std::vector<float>(4, 0));
  EXPECT_EQ(FloatsAt(payload_->buffers()[WorkPlane::kB], 5), std::vector<float>(5, 0));
}

TEST_F(InlinePayloadTest, APlaneThatLacksBytesIsNamed) {
  Create();
  ASSERT_TRUE(Receive(OperandName::kA, a_).ok());
  EXPECT_EQ(payload_->Check().message(),
            "payload of b has 0 bytes, and the next byte is 0; its plane has 120");
  ASSERT_TRUE(Receive(OperandName::kB, absl::string_view(b_).substr(1)).ok());
  EXPECT_EQ(payload_->Check().message(),
            "payload of b has 119 bytes, and the next byte is 119; its plane has 120");
}

TEST_F(InlinePayloadTest, ChunksOfUnknownPlanesAreRefused) {
  Create();
  EXPECT_EQ(Receive(OperandName::kBias, b_).message(),
            "payload has a chunk for a plane of bias that the header does not have");
  EXPECT_FALSE(Receive(OperandName::kA, b_, 0, PlaneName::kScales).ok());
  EXPECT_FALSE(Receive(OperandName::kA, b_, 0, PlaneName::kZeroPoints).ok());
}

TEST_F(InlinePayloadTest, EmptyChunksEnd) {
  Create();
  for (int i = 0; i < 1024; ++i) ASSERT_TRUE(Receive(OperandName::kA, "").ok());
  EXPECT_EQ(Receive(OperandName::kB, "").message(),
            "payload has 1025 chunks of 0 bytes together; it may have 1024 of them, and one more "
            "for each 4096 bytes");
}

TEST_F(InlinePayloadTest, TheLastLinesPaddingMayComeOrNot) {
  call_.a->data.leading_dimension = 8;
  const std::string padded(4 * 8 * 4, 'a');
  for (std::size_t bytes : {128, 120}) {
    Create();
    ASSERT_TRUE(Receive(OperandName::kA, absl::string_view(padded).substr(0, bytes)).ok());
    ASSERT_TRUE(Receive(OperandName::kB, b_).ok());
    EXPECT_TRUE(payload_->Check().ok()) << bytes;
  }
  Create();
  ASSERT_TRUE(Receive(OperandName::kA, absl::string_view(padded).substr(0, 124)).ok());
  EXPECT_EQ(payload_->Check().message(),
            "payload of a has 124 bytes; its plane has 120 (128 with the last line's padding)");
}

class ScaledPayloadTest : public InlinePayloadTest {
 protected:
  ScaledPayloadTest() : InlinePayloadTest(DataType::kInt8) {
    call_.a->scales = Scales(4);
    call_.b->scales = Scales(1);
    Create();
    EXPECT_TRUE(Receive(OperandName::kA, absl::string_view(a_).substr(0, 24)).ok());
    EXPECT_TRUE(Receive(OperandName::kB, absl::string_view(b_).substr(0, 30)).ok());
  }
};

TEST_F(ScaledPayloadTest, ScalesComeAsPlanesOfTheirOwn) {
  const std::vector<float> a_scales = {0.5F, 0, 3e38F, 1e-45F};
  EXPECT_FALSE(payload_->Check().ok());
  ASSERT_TRUE(ReceiveScales(OperandName::kA, a_scales).ok());
  ASSERT_TRUE(ReceiveScales(OperandName::kB, {2}).ok());
  ASSERT_TRUE(payload_->Check().ok());
  const HostBuffers buffers = payload_->buffers();
  EXPECT_EQ(FloatsAt(buffers[WorkPlane::kAScales], 4), a_scales);
  EXPECT_EQ(FloatsAt(buffers[WorkPlane::kBScales], 1), std::vector<float>{2});
  EXPECT_EQ(payload_->received_bytes(), 24u + 30 + 16 + 4);
}

TEST_F(ScaledPayloadTest, AScaleThatNoQuantizerMakesIsRefusedByIndexAndValue) {
  ASSERT_TRUE(ReceiveScales(OperandName::kB, {2}).ok());
  ASSERT_TRUE(ReceiveScales(OperandName::kA, {0.5F, 1, INFINITY, 1}).ok());
  EXPECT_EQ(payload_->Check().message(), "a.scales[2] is inf; it must be finite");
}

TEST_F(ScaledPayloadTest, NanIsRefusedAndANegativeScaleIsNot) {
  ASSERT_TRUE(ReceiveScales(OperandName::kB, {NAN}).ok());
  ASSERT_TRUE(ReceiveScales(OperandName::kA, {0.5F, 1, 0, 1}).ok());
  EXPECT_EQ(payload_->Check().message(), "b.scales[0] is nan; it must be finite");
  Create();
  EXPECT_TRUE(ReceiveScales(OperandName::kA, {1, -0.25F, 1, 1}).ok());
  EXPECT_TRUE(ReceiveScales(OperandName::kB, {1}).ok());
  EXPECT_TRUE(Receive(OperandName::kA, absl::string_view(a_).substr(0, 24)).ok());
  EXPECT_TRUE(Receive(OperandName::kB, absl::string_view(b_).substr(0, 30)).ok());
  EXPECT_EQ(payload_->Check(), absl::OkStatus());
}

}  // namespace
}  // namespace gemmd
