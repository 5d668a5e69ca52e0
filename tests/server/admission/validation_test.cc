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
        BadCall{"ALongBias",
                [](MatmulCall* c) {
                  c->a = Matrix(1, 15);
                  c->b = Matrix(15, 16000000);
                  c->bias = Matrix(1, 16000000);
                },
                kInvalid,
                "the operands and the result take 1088000060 bytes; one request may take "
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
        BadCall{"Resident", [](MatmulCall* c) { c->b->source = Source::kResident; }, kUnbuilt,
                "b is a resident operand: here it must be inline"},
        BadCall{"ScalesOfAnUnquantizedType",
                [](MatmulCall* c) { c->a->scales = Plane(DataType::kF32, 1, 1); }, kInvalid,
                "a.scales is set, and a.data.type is f32; only quantized types have scales"},
        BadCall{"TypeWithAnotherName",
                [](MatmulCall* c) { Quantize(c, DataType::kMxfp8E4M3); }, kUnbuilt,
                "a.data.type is mxfp8_e4m3: send fp8_e4m3 with a.scales of e8m0 and "
                "a.quantization.block_k 32, which is the same"},
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
                kInvalid,
                "b.scales.type is f64; it must be f32, or b.quantization must say what blocks are "
                "scaled"},
        BadCall{"TooFewScales",
                [](MatmulCall* c) {
                  Quantize(c, DataType::kInt8);
                  c->a->scales = Plane(DataType::kF32, 3, 1);
                },
                kInvalid,
                "a.scales is 3 x 1; it must be 1 x 1, or 4 x 1: one for each row of op(a)"},
        BadCall{"ScalesOfOtherLines",
                [](MatmulCall* c) {
                  Quantize(c, DataType::kFp8E4M3);
                  c->b->scales = Plane(DataType::kF32, 4, 1);
                },
                kInvalid,
                "b.scales is 4 x 1; it must be 1 x 1, or 1 x 5: one for each column of op(b)"},
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
        BadCall{"AlphaOfInt32",
                [](MatmulCall* c) {
                  Quantize(c, DataType::kInt8);
                  c->alpha = 2;
                },
                kInvalid, "output_type is int32, and alpha is 2; "
                "int32 is the exact product: ask for f32, f16 or bf16"},
        BadCall{"ActivationOfInt32",
                [](MatmulCall* c) {
                  Quantize(c, DataType::kInt8);
                  c->activation = Activation::kRelu;
                },
                kInvalid, "output_type is int32, and activation is relu; "
                "int32 is the exact product: ask for f32, f16 or bf16"},
        BadCall{"BiasOfInt32",
                [](MatmulCall* c) {
                  Quantize(c, DataType::kInt8);
                  c->bias = Matrix(1, 5);
                  c->bias->data.type = DataType::kInt32;
                },
                kInvalid, "output_type is int32, and bias is set; "
                "int32 is the exact product: ask for f32, f16 or bf16"},
        BadCall{"InnerDimensionOfInt8",
                [](MatmulCall* c) {
                  Quantize(c, DataType::kInt8);
                  c->a->data.columns = c->b->data.rows = 131072;
                },
                kInvalid,
                "the inner dimension is 131072; of int8 it must be 1 to 131071, for which int32 "
                "holds "
                "every sum"},
        BadCall{"MixedTypes", [](MatmulCall* c) { c->a->data.type = DataType::kF16; }, kInvalid,
                "a.data.type is f16 and b.data.type is f32; they must be equal, or both quantized, "
                "or one quantized and the other f32, f16 or bf16"},
        BadCall{"Verification", [](MatmulCall* c) { c->verification_vectors = 65; }, kInvalid,
                "verification.vectors is 65; it must be 0 to 64"},
        BadCall{"VerificationOfAnActivation",
                [](MatmulCall* c) {
                  c->verification_vectors = 3;
                  c->activation = Activation::kRelu;
                },
                kInvalid,
                "verification.vectors is 3, and activation is relu; only products without "
                "activation are verified"}),
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

// C and the bias are added as to any other product.
TEST(ValidateHeader, ASumOfNothingIsOneZero) {
  for (const bool is_transposed : {false, true}) {
    MatmulCall call = GoodCall();
    call.a = is_transposed ? Matrix(0, 4) : Matrix(4, 0);
    call.b = is_transposed ? Matrix(5, 0) : Matrix(0, 5);
    call.a->data.leading_dimension = 9;
    call.transpose_a = call.transpose_b = is_transposed;
    const absl::StatusOr<Problem> problem = ValidateHeader(call, Limits());
    ASSERT_TRUE(problem.ok()) << problem.status();
    EXPECT_EQ(problem->m, 4);
    EXPECT_EQ(problem->n, 5);
    EXPECT_EQ(problem->k, 1);
    EXPECT_EQ(problem->a.leading_dimension, is_transposed ? 4 : 1);
    EXPECT_EQ(problem->b.size_bytes(), 20U);
    call.b->source = Source::kShared;
    call.b->is_found = true;
    EXPECT_EQ(ValidateHeader(call, Limits()).status().message(),
              is_transposed ? "a.data.rows is 0; it must be 1 to 2147483647"
                            : "a.data.columns is 0; it must be 1 to 2147483647");
  }
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

// 4 x 6 by 6 x 5 of f32 are 96, 120 and 80 bytes; C is 80 more.
TEST(Limits, MayBeFilledAndNotExceeded) {
  RequestLimits limits = Limits();
  MatmulCall call = GoodCall();
  const auto code = [&] { return ValidateHeader(call, limits).status().code(); };
  limits.request_bytes = 296;
  EXPECT_EQ(code(), absl::StatusCode::kOk);
  limits.request_bytes = 295;
  EXPECT_EQ(code(), kInvalid);
  limits.request_bytes = 296;
  limits.result_bytes = 80;
  EXPECT_EQ(code(), absl::StatusCode::kOk);
  limits.result_bytes = 79;
  EXPECT_EQ(code(), kInvalid);
  limits = Limits();
  call.c = Matrix(4, 5);
  call.beta = 1;
  limits.request_bytes = 376;
  EXPECT_EQ(code(), absl::StatusCode::kOk);
  limits.request_bytes = 375;
  EXPECT_EQ(code(), kInvalid);
}

}  // namespace
}  // namespace gemmd
