#include "server/admission/resident_operands.h"

#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/admission/validation.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_device.h"

namespace gemmd {
namespace {

class ResidentOperandsTest : public ::testing::Test {
 protected:
  static StoreOptions Options() {
    StoreOptions options;
    options.all = options.tenant = {16, 1 << 20};
    options.default_lease = options.max_lease = options.upload_lease = 1000000000;
    return options;
  }

  // Keeps a row-major f32 matrix.
  OperandKey Keep(std::int64_t rows, std::int64_t columns) {
    const MatrixLayout layout{DataType::kF32, rows, columns, Order::kRowMajor, columns};
    return {store_.Keep(*store_.BeginResult(tenant_, layout, std::nullopt, &device_)), {}};
  }
  static OperandSpec Resident(const OperandKey& key) {
    OperandSpec operand;
    operand.has_data = false;
    operand.source = Source::kResident;
    operand.resident = key;
    return operand;
  }
  static OperandSpec Inline(std::uint64_t rows, std::uint64_t columns) {
    OperandSpec operand;
    operand.data = {DataType::kF32, rows, columns, Order::kRowMajor, 0};
    return operand;
  }
  // 2 x 3 by what is kept, 3 x 4.
  MatmulCall Call() {
    MatmulCall call;
    call.tenant = tenant_;
    call.a = Inline(2, 3);
    call.b = Resident(Keep(3, 4));
    return call;
  }

  const Tenant tenant_ = *Tenant::Named("a");
  testing::FakeClock clock_;
  testing::FakeDevice device_{&clock_, 1 << 20, 1};
  OperandStore store_{Options(), &device_, &clock_, 1};
};

TEST_F(ResidentOperandsTest, CompleteTheCallByWhatTheyAre) {
  MatmulCall call = Call();
  ASSERT_TRUE(ResidentOperands::Find(&store_, &call).ok());
  EXPECT_TRUE(call.b->is_found);
  EXPECT_EQ(call.b->data.rows, 3u);
  EXPECT_EQ(call.b->data.columns, 4u);
  EXPECT_EQ(call.b->data.type, DataType::kF32);
}

TEST_F(ResidentOperandsTest, WhatTheCallSaysOfThemMustBeSo) {
  const auto message = [this](auto say) {
    MatmulCall call = Call();
    call.b->has_data = true;
    call.b->data = {DataType::kF32, 3, 4, Order::kRowMajor, 0};
    say(&*call.b);
    return std::string(ResidentOperands::Find(&store_, &call).status().message());
  };
  EXPECT_EQ(message([](OperandSpec*) {}), "");
  EXPECT_EQ(message([](OperandSpec* b) { b->data.leading_dimension = 4; }), "");
  const std::string is =
      "; the resident operand is 3 x 4 f32 row_major, tightly packed (leave the field out to mean "
      "that)";
  EXPECT_EQ(message([](OperandSpec* b) { b->data.rows = 5; }),
            "b.data is 5 x 4 f32 row_major" + is);
  EXPECT_EQ(message([](OperandSpec* b) { b->data.columns = 5; }),
            "b.data is 3 x 5 f32 row_major" + is);
  EXPECT_EQ(message([](OperandSpec* b) { b->data.type = DataType::kF64; }),
            "b.data is 3 x 4 f64 row_major" + is);
  EXPECT_EQ(message([](OperandSpec* b) { b->data.order = Order::kColumnMajor; }),
            "b.data is 3 x 4 f32 column_major" + is);
  EXPECT_EQ(message([](OperandSpec* b) { b->data.leading_dimension = 5; }),
            "b.data is 3 x 4 f32 row_major with leading dimension 5" + is);
  EXPECT_EQ(message([](OperandSpec* b) { b->scales = PlaneSpec(); }),
            "b.scales is set, and the resident operand has none");
}

// A call need not say how a resident operand's scales lie: nothing else says it for the operand.
TEST_F(ResidentOperandsTest, AreScaledAsTheyWereStored) {
  OperandForm form;
  form.data = {DataType::kInt8, 3, 64, Order::kRowMajor, 64};
  form.scales = MatrixLayout{DataType::kF32, 3, 2, Order::kRowMajor, 2};
  form.blocks = BlockScaling{32, 1};
  const std::string codes(3 * 64, '\1');
  const std::string scales(3 * 2 * sizeof(float), '\0');
  OperandPlanes<std::vector<Sha256Digest>> chunks;
  chunks[PlaneName::kData] = ChunkDigests(codes);
  chunks[PlaneName::kScales] = ChunkDigests(scales);
  const Sha256Digest digest = DigestOf(form, chunks);
  const auto session = *store_.BeginUpload(tenant_, digest, form, std::nullopt);
  absl::string_view piece = scales;
  ASSERT_TRUE(session->Receive({PlaneName::kScales, 0, {&piece, 1}}).ok());
  piece = codes;
  ASSERT_TRUE(*session->Receive({PlaneName::kData, 0, {&piece, 1}}));

  MatmulCall call = Call();
  call.b = Resident({{}, ToBytes(digest)});
  ASSERT_TRUE(ResidentOperands::Find(&store_, &call).ok());
  EXPECT_EQ(call.b->blocks, form.blocks);
  ASSERT_TRUE(call.b->scales.has_value());
  EXPECT_EQ(call.b->scales->columns, 2U);
  call.b->blocks = BlockScaling{64, 1};
  EXPECT_EQ(ResidentOperands::Find(&store_, &call).status().message(),
            "b.quantization is not that of the resident operand (leave the field out to mean "
            "that)");
}

// All that is missing is named at once, so that one round of uploads is enough.
TEST_F(ResidentOperandsTest, AllThatIsMissingIsToldAtOnce) {
  MatmulCall call = Call();
  call.a = Resident({"none", {}});
  call.c = Resident({{}, std::string(32, 'x')});
  call.bias = Resident({{}, std::string(32, 'y')});
  const absl::Status status = ResidentOperands::Find(&store_, &call).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  const MissingOperands missing = MissingOf(status);
  EXPECT_EQ(missing.handles, std::vector<std::string>{"none"});
  EXPECT_EQ(missing.digests,
            (std::vector<std::string>{std::string(32, 'x'), std::string(32, 'y')}));
}

TEST_F(ResidentOperandsTest, AnotherTenantsAreMissing) {
  MatmulCall call = Call();
  call.tenant = Tenant();
  EXPECT_EQ(ResidentOperands::Find(&store_, &call).status().code(), absl::StatusCode::kNotFound);
}

// Rows share a launch over one B if whatever belongs to its columns is kept too.
TEST_F(ResidentOperandsTest, WeightsAreTheSameWhereBAndItsBiasAre) {
  MatmulCall call = Call();
  const auto weights_id = [&] {
    MatmulCall completed = call;
    const auto found = ResidentOperands::Find(&store_, &completed);
    EXPECT_TRUE(found.ok()) << found.status();
    RequestLimits limits;
    limits.request_bytes = limits.result_bytes = 1 << 20;
    const auto problem = ValidateHeader(completed, limits);
    EXPECT_TRUE(problem.ok()) << problem.status();
    std::uint64_t landed_bytes = 0;
    const auto placed = found->PlaceOn(&device_, *problem, &landed_bytes);
    EXPECT_TRUE(placed.ok()) << placed.status();
    EXPECT_NE(placed->buffers[WorkPlane::kB], nullptr);
    EXPECT_EQ(placed->buffers[WorkPlane::kA], nullptr);
    return placed->weights_id;
  };
  const std::uint64_t without_bias = weights_id();
  EXPECT_NE(without_bias, 0u);
  EXPECT_EQ(weights_id(), without_bias);
  call.bias = Inline(1, 4);
  EXPECT_EQ(weights_id(), 0u);
  call.bias = Resident(Keep(1, 4));
  EXPECT_EQ(weights_id(), without_bias);
  call.b = Resident(Keep(3, 4));
  EXPECT_NE(weights_id(), without_bias);
  // Each matrix of a stack is a B of its own.
  call.b = Resident(Keep(6, 4));
  call.b->has_data = true;
  call.b->data = {DataType::kF32, 3, 4, Order::kRowMajor, 0};
  call.b->matrix = 0;
  const std::uint64_t first = weights_id();
  EXPECT_EQ(weights_id(), first);
  call.b->matrix = 1;
  EXPECT_NE(weights_id(), first);
}

}  // namespace
}  // namespace gemmd
