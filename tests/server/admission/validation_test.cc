#include "server/admission/validation.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();

RequestLimits Limits() {
  RequestLimits limits;
  limits.request_bytes = 1 << 30;
  limits.result_bytes = 1 << 26;
  return limits;
}

OperandSpec Matrix(std::uint64_t rows, std::uint64_t columns, DataType type = DataType::kF32) {
  OperandSpec operand;
  operand.data = {type, rows, columns, Order::kRowMajor, 0};
  return operand;
}

// 4 x 6 times 6 x 5.
MatmulCall GoodCall() {
  MatmulCall call;
  call.a = Matrix(4, 6);
  call.b = Matrix(6, 5);
  return call;
}

PlaneSpec Plane(DataType type, std::uint64_t rows, std::uint64_t columns) {
  return {type, rows, columns, Order::kRowMajor, 0};
}

void Quantize(MatmulCall* call, DataType type) { call->a->data.type = call->b->data.type = type; }

struct BadCall {
  const char* name;
  void (*spoil)(MatmulCall* call);
  absl::StatusCode code;
  const char* message;
};

class BadCalls : public ::testing::TestWithParam<BadCall> {};

TEST_P(BadCalls, AreRefusedNamingFieldValueAndLimit) {
  MatmulCall call = GoodCall();
  GetParam().spoil(&call);
  const absl::Status status = ValidateHeader(call, Limits()).status();
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_EQ(status.message(), GetParam().message);
}

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kUnbuilt = absl::StatusCode::kUnimplemented;

INSTANTIATE_TEST_SUITE_P(
    All, BadCalls,
    ::testing::Values(
        BadCall{"MissingA", [](MatmulCall* c) { c->a.reset(); }, kInvalid, "a is missing"},
        BadCall{"MissingB", [](MatmulCall* c) { c->b.reset(); }, kInvalid, "b is missing"},
        BadCall{"ZeroRows", [](MatmulCall* c) { c->a->data.rows = 0; }, kInvalid,
                "a.data.rows is 0; it must be 1 to 2147483647"},
        BadCall{"ZeroColumns", [](MatmulCall* c) { c->b->data.columns = 0; }, kInvalid,
                "b.data.columns is 0; it must be 1 to 2147483647"},
        BadCall{"HugeRows", [](MatmulCall* c) { c->a->data.rows = kHuge; }, kInvalid,
                "a.data.rows is 18446744073709551615; it must be 1 to 2147483647"},
        BadCall{"JustTooManyRows", [](MatmulCall* c) { c->a->data.rows = 2147483648; }, kInvalid,
                "a.data.rows is 2147483648; it must be 1 to 2147483647"},
        BadCall{"OverflowingSize",
                [](MatmulCall* c) {
                  c->a = Matrix(2147483647, 2147483647, DataType::kF64);
                  c->b = Matrix(2147483647, 1, DataType::kF64);
                },
                kInvalid,
                "d is 2147483647 x 1 f64, 17179869176 bytes; a unary response carries at most "
                "67108864"},
        BadCall{"OverflowingLeadingDimension",
                [](MatmulCall* c) { c->a->data.leading_dimension = kHuge; }, kInvalid,
                "a.data.leading_dimension is 18446744073709551615; it must be 6 (the columns of "
                "this row_major plane) to 2147483647"},
        BadCall{"OverflowingOperand",
                [](MatmulCall* c) {
                  c->a = Matrix(1, 2147483647, DataType::kF64);
                  c->b = Matrix(2147483647, 1, DataType::kF64);
                  c->b->data.leading_dimension = 2147483647;
                },
                kInvalid,
                "the operands and the result take more than 2^64 bytes; one request may take "
                "1073741824"},
        BadCall{"ShortLeadingDimension", [](MatmulCall* c) { c->b->data.leading_dimension = 4; },
                kInvalid,
                "b.data.leading_dimension is 4; it must be 5 (the columns of this row_major "
                "plane) to 2147483647"},
        BadCall{"ShortColumnMajorLeadingDimension",
                [](MatmulCall* c) {
                  c->b->data.order = Order::kColumnMajor;
                  c->b->data.leading_dimension = 5;
                },
                kInvalid,
                "b.data.leading_dimension is 5; it must be 6 (the rows of this column_major "
                "plane) to 2147483647"},
        BadCall{"InnerDimensions", [](MatmulCall* c) { c->transpose_a = true; }, kInvalid,
                "op(a) is 6 x 4 and op(b) is 6 x 5: the inner dimensions 4 and 6 must be equal"},
        BadCall{"ShortOutputLeadingDimension",
                [](MatmulCall* c) { c->output_leading_dimension = 3; }, kInvalid,
                "output.leading_dimension is 3; it must be 5 (the columns of this row_major "
                "plane) to 2147483647"},
        BadCall{"NotANumberAlpha", [](MatmulCall* c) { c->alpha = NAN; }, kInvalid,
                "alpha is nan; it must be finite"},
        BadCall{"InfiniteBeta", [](MatmulCall* c) { c->beta = -INFINITY; }, kInvalid,
                "beta is -inf; it must be finite"},
        BadCall{"BetaWithoutC", [](MatmulCall* c) { c->beta = 2; }, kInvalid,
                "c is missing, and beta is 2"},
        BadCall{"WrongShapeOfC", [](MatmulCall* c) { c->c = Matrix(5, 4); }, kInvalid,
                "c is 5 x 4; it must be 4 x 5"},
        BadCall{"WrongTypeOfC", [](MatmulCall* c) { c->c = Matrix(4, 5, DataType::kF64); },
                kInvalid, "c.data.type is f64; it must be the output type, f32"},
        BadCall{"WrongShapeOfBias", [](MatmulCall* c) { c->bias = Matrix(5, 1); }, kInvalid,
                "bias is 5 x 1; it must be 1 x 5"},
        BadCall{"ColumnMajorBias",
                [](MatmulCall* c) {
                  c->bias = Matrix(1, 5);
                  c->bias->data.order = Order::kColumnMajor;
                },
                kInvalid, "bias.data.order is column_major; it must be row_major"},
        BadCall{"Handle", [](MatmulCall* c) { c->b->source = Source::kHandle; }, kUnbuilt,
                "b.handle is set: this server takes inline operands only"},
        BadCall{"Digest", [](MatmulCall* c) { c->a->source = Source::kDigest; }, kUnbuilt,
                "a.digest is set: this server takes inline operands only"},
        BadCall{"SharedMemory", [](MatmulCall* c) { c->a->source = Source::kShared; }, kUnbuilt,
                "a.shared is set: this server takes inline operands only"},
        BadCall{"ZeroPoints", [](MatmulCall* c) { c->a->has_zero_points = true; }, kUnbuilt,
                "a.zero_points is set: this server's quantized types are symmetric"},
        BadCall{"ScalesOfAnUnquantizedType",
                [](MatmulCall* c) { c->a->scales = Plane(DataType::kF32, 1, 1); }, kInvalid,
                "a.scales is set, and a.data.type is f32; only int8, fp8_e4m3 and fp8_e5m2 have "
                "scales"},
        BadCall{"ScalesNotBuilt",
                [](MatmulCall* c) {
                  Quantize(c, DataType::kMxfp8E4M3);
                  c->a->scales = Plane(DataType::kE8M0, 4, 1);
                },
                kUnbuilt, "a.scales is set: this server has no scales for mxfp8_e4m3 yet"},
        BadCall{"ScalesOfC",
                [](MatmulCall* c) {
                  c->c = Matrix(4, 5);
                  c->c->scales = Plane(DataType::kF32, 1, 1);
                },
                kInvalid, "c.scales is set; only a and b have scales"},
        BadCall{"TypeOfScales",
                [](MatmulCall* c) {
                  Quantize(c, DataType::kInt8);
                  c->b->scales = Plane(DataType::kF64, 1, 5);
                },
                kInvalid, "b.scales.type is f64; it must be f32"},
        BadCall{"TooFewScales",
                [](MatmulCall* c) {
                  Quantize(c, DataType::kInt8);
                  c->a->scales = Plane(DataType::kF32, 3, 1);
                },
                kInvalid,
                "a.scales is 3 x 1; it must be 1 x 1, or 4 x 1: one for each row of op(a)"},
        BadCall{"ScalesAcross",
                [](MatmulCall* c) {
                  Quantize(c, DataType::kFp8E4M3);
                  c->b->scales = Plane(DataType::kF32, 5, 1);
                },
                kInvalid,
                "b.scales is 5 x 1; it must be 1 x 1, or 1 x 5: one for each column of op(b)"},
        BadCall{"LayoutOfScales",
                [](MatmulCall* c) {
                  Quantize(c, DataType::kInt8);
                  c->a->scales = Plane(DataType::kF32, 4, 1);
                  c->a->scales->leading_dimension = 2;
                },
                kInvalid,
                "a.scales.leading_dimension is 2; it must be 1 or 0: scales are tightly packed"},
        BadCall{"ScaledInt32",
                [](MatmulCall* c) {
                  Quantize(c, DataType::kInt8);
                  c->b->scales = Plane(DataType::kF32, 1, 1);
                  c->output_type = DataType::kInt32;
                },
                kInvalid,
                "output_type is int32, and b.scales is set; a scaled product is f32, f16 or bf16"},
        BadCall{"MixedTypes", [](MatmulCall* c) { c->a->data.type = DataType::kInt8; }, kInvalid,
                "a.data.type is int8 and b.data.type is f32; they must be equal, or both fp8"},
        BadCall{"Verification", [](MatmulCall* c) { c->verification_vectors = 3; }, kUnbuilt,
                "verification.vectors is 3: this server does not verify products yet"}),
    [](const auto& info) { return info.param.name; });

TEST(ValidateHeader, DerivesTheProblem) {
  MatmulCall call = GoodCall();
  call.a = Matrix(6, 4);
  call.transpose_a = true;
  call.a->data.leading_dimension = 9;
  call.output_order = Order::kColumnMajor;
  call.alpha = 2;
  const absl::StatusOr<Problem> problem = ValidateHeader(call, Limits());
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(problem->m, 4);
  EXPECT_EQ(problem->n, 5);
  EXPECT_EQ(problem->k, 6);
  EXPECT_EQ(problem->a.leading_dimension, 9);
  EXPECT_EQ(problem->b.leading_dimension, 5);
  EXPECT_EQ(problem->d.leading_dimension, 4);
  EXPECT_EQ(problem->epilogue.alpha, 2);
  EXPECT_EQ(problem->accumulate, DataType::kF32);
}

TEST(ValidateHeader, DerivesScalings) {
  MatmulCall call = GoodCall();
  Quantize(&call, DataType::kInt8);
  EXPECT_EQ(ValidateHeader(call, Limits())->d.type, DataType::kInt32);
  call.a->scales = Plane(DataType::kF32, 4, 1);
  call.b->scales = Plane(DataType::kF32, 1, 1);
  absl::StatusOr<Problem> problem = ValidateHeader(call, Limits());
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(problem->a_scaling, Scaling::kVector);
  EXPECT_EQ(problem->b_scaling, Scaling::kTensor);
  EXPECT_EQ(problem->d.type, DataType::kF32);
  EXPECT_EQ(problem->accumulate, DataType::kInt32);

  call.a->data.type = DataType::kFp8E4M3;
  call.b->data.type = DataType::kFp8E5M2;
  // A vector is the same bytes in either order.
  call.a->scales->order = Order::kColumnMajor;
  call.a->scales->leading_dimension = 4;
  problem = ValidateHeader(call, Limits());
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(problem->d.type, DataType::kBf16);
  EXPECT_EQ(problem->accumulate, DataType::kF32);
}

// Scales go with op(A): its rows are A's columns.
TEST(ValidateHeader, CountsScalesByTheRowsOfTheTransposed) {
  MatmulCall call = GoodCall();
  call.a = Matrix(6, 4, DataType::kInt8);
  call.b->data.type = DataType::kInt8;
  call.transpose_a = true;
  call.a->scales = Plane(DataType::kF32, 6, 1);
  EXPECT_EQ(ValidateHeader(call, Limits()).status().message(),
            "a.scales is 6 x 1; it must be 1 x 1, or 4 x 1: one for each row of op(a)");
  call.a->scales->rows = 4;
  EXPECT_TRUE(ValidateHeader(call, Limits()).ok());
}

class PayloadTest : public ::testing::Test {
 protected:
  absl::StatusOr<Payload> Collect() {
    const absl::StatusOr<Problem> problem = ValidateHeader(call_, Limits());
    EXPECT_TRUE(problem.ok()) << problem.status();
    return CollectPayload(call_, *problem);
  }

  void Add(OperandName operand, std::uint64_t offset, absl::string_view bytes) {
    call_.payload.push_back({operand, PlaneName::kData, offset, bytes});
  }

  MatmulCall call_ = GoodCall();
  const std::string a_ = std::string(50, 'a') + std::string(46, 'A');
  const std::string b_ = std::string(120, 'b');
};

TEST_F(PayloadTest, OneChunkIsUsedInPlace) {
  Add(OperandName::kA, 0, a_);
  Add(OperandName::kB, 0, b_);
  const absl::StatusOr<Payload> payload = Collect();
  ASSERT_TRUE(payload.ok()) << payload.status();
  EXPECT_EQ(payload->operands[0], a_.data());
  EXPECT_EQ(payload->operands[1], b_.data());
  EXPECT_EQ(payload->operands[2], nullptr);
  EXPECT_EQ(payload->bytes, 216u);
}

TEST_F(PayloadTest, ChunksInAnyOrderAreGathered) {
  const absl::string_view a = a_;
  Add(OperandName::kA, 50, a.substr(50));
  Add(OperandName::kB, 0, b_);
  Add(OperandName::kA, 0, a.substr(0, 50));
  const absl::StatusOr<Payload> payload = Collect();
  ASSERT_TRUE(payload.ok()) << payload.status();
  EXPECT_EQ(std::string(static_cast<const char*>(payload->operands[0]), 96), a_);
}

TEST_F(PayloadTest, AMissingOrShortOrLongPlaneIsRefused) {
  Add(OperandName::kA, 0, a_);
  EXPECT_EQ(Collect().status().message(), "payload of b has 0 bytes; its plane has 120");
  Add(OperandName::kB, 0, absl::string_view(b_).substr(1));
  EXPECT_EQ(Collect().status().message(), "payload of b has 119 bytes; its plane has 120");
  call_.payload.back().bytes = a_;
  Add(OperandName::kB, 96, a_);
  EXPECT_EQ(Collect().status().message(), "payload of b has 192 bytes; its plane has 120");
}

TEST_F(PayloadTest, GapsAndOverlapsAreRefused) {
  Add(OperandName::kB, 0, b_);
  Add(OperandName::kA, 0, absl::string_view(a_).substr(0, 50));
  Add(OperandName::kA, 51, absl::string_view(a_).substr(51));
  EXPECT_EQ(Collect().status().message(),
            "payload of a: a chunk of 45 bytes is at offset 51; chunks must cover the plane "
            "exactly once, and the next byte is 50");
  call_.payload.back() = {OperandName::kA, PlaneName::kData, 49, absl::string_view(a_).substr(49)};
  EXPECT_FALSE(Collect().ok());
  call_.payload.back().offset = kHuge;
  EXPECT_FALSE(Collect().ok());
}

class ScaledPayloadTest : public PayloadTest {
 protected:
  ScaledPayloadTest() {
    Quantize(&call_, DataType::kInt8);
    call_.a->scales = Plane(DataType::kF32, 4, 1);
    call_.b->scales = Plane(DataType::kF32, 1, 1);
    Add(OperandName::kA, 0, absl::string_view(a_).substr(0, 24));
    Add(OperandName::kB, 0, absl::string_view(b_).substr(0, 30));
  }

  void AddScales(OperandName operand, absl::string_view bytes) {
    call_.payload.push_back({operand, PlaneName::kScales, 0, bytes});
  }
  static absl::string_view Bytes(const std::vector<float>& scales) {
    return {reinterpret_cast<const char*>(scales.data()), scales.size() * sizeof(float)};
  }

  std::vector<float> a_scales_ = {0.5F, 0, 3e38F, 1e-45F};
  std::vector<float> b_scales_ = {2};
};

TEST_F(ScaledPayloadTest, ScalesComeAsPlanesOfTheirOwn) {
  AddScales(OperandName::kB, Bytes(b_scales_));
  AddScales(OperandName::kA, Bytes(a_scales_));
  const absl::StatusOr<Payload> payload = Collect();
  ASSERT_TRUE(payload.ok()) << payload.status();
  EXPECT_EQ(payload->a_scales, a_scales_.data());
  EXPECT_EQ(payload->b_scales[0], 2);
  EXPECT_EQ(payload->operands[0], a_.data());
  EXPECT_EQ(payload->bytes, 24u + 30 + 16 + 4);
}

TEST_F(ScaledPayloadTest, ScalesAtAnOddAddressAreMoved) {
  const std::string shifted = absl::StrCat("x", Bytes(a_scales_));
  AddScales(OperandName::kA, absl::string_view(shifted).substr(1));
  AddScales(OperandName::kB, Bytes(b_scales_));
  const absl::StatusOr<Payload> payload = Collect();
  ASSERT_TRUE(payload.ok()) << payload.status();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(payload->a_scales) % alignof(float), 0u);
  EXPECT_EQ(std::vector<float>(payload->a_scales, payload->a_scales + 4), a_scales_);
}

TEST_F(ScaledPayloadTest, MissingOrShortScalesAreRefused) {
  AddScales(OperandName::kA, Bytes(a_scales_));
  EXPECT_EQ(Collect().status().message(), "payload of b.scales has 0 bytes; its plane has 4");
  AddScales(OperandName::kB, Bytes(b_scales_).substr(1));
  EXPECT_EQ(Collect().status().message(), "payload of b.scales has 3 bytes; its plane has 4");
}

TEST_F(ScaledPayloadTest, AScaleThatNoQuantizerMakesIsRefusedByIndexAndValue) {
  AddScales(OperandName::kA, Bytes(a_scales_));
  AddScales(OperandName::kB, Bytes(b_scales_));
  a_scales_[3] = NAN;
  EXPECT_EQ(Collect().status().message(),
            "a.scales[3] is nan; a scale must be finite and at least 0");
  a_scales_[2] = INFINITY;
  EXPECT_EQ(Collect().status().message(),
            "a.scales[2] is inf; a scale must be finite and at least 0");
  a_scales_[1] = -0.25F;
  const absl::Status status = Collect().status();
  EXPECT_EQ(status.code(), kInvalid);
  EXPECT_EQ(status.message(), "a.scales[1] is -0.25; a scale must be finite and at least 0");
}

TEST_F(PayloadTest, ChunksOfUnknownPlanesAreRefused) {
  Add(OperandName::kA, 0, a_);
  Add(OperandName::kB, 0, b_);
  Add(OperandName::kBias, 0, b_);
  EXPECT_EQ(Collect().status().message(),
            "payload has a chunk for a plane of bias that the header does not have");
  call_.payload.back() = {OperandName::kA, PlaneName::kScales, 0, b_};
  EXPECT_FALSE(Collect().ok());
}

TEST_F(PayloadTest, TheLastLinesPaddingMayComeOrNot) {
  call_.a->data.leading_dimension = 8;
  const std::string padded(4 * 8 * 4, 'a');
  Add(OperandName::kA, 0, padded);
  Add(OperandName::kB, 0, b_);
  EXPECT_TRUE(Collect().ok());
  call_.payload.front().bytes = absl::string_view(padded).substr(8);
  EXPECT_TRUE(Collect().ok());
  call_.payload.front().bytes = absl::string_view(padded).substr(4);
  EXPECT_EQ(Collect().status().message(),
            "payload of a has 124 bytes; its plane has 120 (128 with the last line's padding)");
}

}  // namespace
}  // namespace gemmd
