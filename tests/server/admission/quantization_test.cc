// Tests the refusals of quantized operands, each with its field, its value and what would be right.
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/admission/inline_payload.h"
#include "server/admission/validation.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_device.h"

namespace gemmd {
namespace {

constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();

RequestLimits Limits() {
  RequestLimits limits;
  limits.request_bytes = limits.result_bytes = 1 << 26;
  return limits;
}

PlaneSpec Plane(DataType type, std::uint64_t rows, std::uint64_t columns) {
  return {type, rows, columns, Order::kRowMajor, 0};
}

OperandSpec Quantized(DataType type, std::uint64_t rows, std::uint64_t columns,
                      const PlaneSpec& scales, const BlockScaling& blocks) {
  OperandSpec operand;
  operand.data = Plane(type, rows, columns);
  operand.scales = scales;
  operand.blocks = blocks;
  return operand;
}

// A: 5 x 70 of nvfp4. B: 70 x 6 of int4 in groups of 64, with zero points.
MatmulCall GoodCall() {
  MatmulCall call;
  call.a = Quantized(DataType::kFp4E2M1, 5, 70, Plane(DataType::kFp8E4M3, 5, 5), {16, 1, false});
  call.a->tensor_scale = Plane(DataType::kF32, 1, 1);
  call.b = Quantized(DataType::kUint4, 70, 6, Plane(DataType::kF16, 2, 6), {64, 1, false});
  call.b->zero_points = Plane(DataType::kUint8, 2, 6);
  return call;
}

void SetA(MatmulCall* call, DataType type, const PlaneSpec& scales, const BlockScaling& blocks) {
  call->a = Quantized(type, 5, 70, scales, blocks);
}

// A and B of int8 with one scale each.
void SetInt8(MatmulCall* call) {
  call->a = OperandSpec();
  call->a->data = Plane(DataType::kInt8, 5, 70);
  call->a->scales = Plane(DataType::kF32, 1, 1);
  call->b = OperandSpec();
  call->b->data = Plane(DataType::kInt8, 70, 6);
  call->b->scales = Plane(DataType::kF32, 1, 1);
}

struct BadCall {
  const char* message;
  void (*spoil)(MatmulCall* call);
  absl::StatusCode code = absl::StatusCode::kInvalidArgument;
};

const BadCall kBadCalls[] = {
    // Types.
    {"a.data.type is fp4_e2m1 and b.data.type is f64; they must be equal, or both quantized, or "
     "one "
     "quantized and the other f32, f16 or bf16",
     [](MatmulCall* c) {
       c->b = OperandSpec();
       c->b->data = Plane(DataType::kF64, 70, 6);
     }},
    {"a.data.type is tf32 and b.data.type is uint4; they must be equal, or both quantized, or one "
     "quantized and the other f32, f16 or bf16",
     [](MatmulCall* c) {
       c->a = OperandSpec();
       c->a->data = Plane(DataType::kTf32, 5, 70);
     }},
    {"a.data.type is int32 and b.data.type is uint4; they must be equal, or both quantized, or one "
     "quantized and the other f32, f16 or bf16",
     [](MatmulCall* c) {
       c->a = OperandSpec();
       c->a->data = Plane(DataType::kInt32, 5, 70);
     }},
    {"a.data.type is e8m0, which only scales may be",
     [](MatmulCall* c) { c->a->data.type = DataType::kE8M0; }},
    {"b.data.type is mxfp8_e4m3: send fp8_e4m3 with b.scales of e8m0 and b.quantization.block_k "
     "32, "
     "which is the same",
     [](MatmulCall* c) { c->b->data.type = DataType::kMxfp8E4M3; },
     absl::StatusCode::kUnimplemented},
    // Planes that are missing.
    {"a.scales is missing; fp4_e2m1 goes with scales",
     [](MatmulCall* c) {
       c->a->scales.reset();
       c->a->tensor_scale.reset();
       c->a->blocks.reset();
     }},
    {"b.scales is missing; uint4 goes with scales",
     [](MatmulCall* c) {
       c->b = OperandSpec();
       c->b->data = Plane(DataType::kUint4, 70, 6);
     }},
    {"b.scales is missing; uint8 goes with scales",
     [](MatmulCall* c) {
       c->b = OperandSpec();
       c->b->data = Plane(DataType::kUint8, 70, 6);
     }},
    {"a.scales is missing; fp6_e3m2 goes with scales",
     [](MatmulCall* c) {
       c->a = OperandSpec();
       c->a->data = Plane(DataType::kFp6E3M2, 5, 70);
     }},
    {"b.scales is missing; nf4 goes with scales",
     [](MatmulCall* c) {
       c->b = OperandSpec();
       c->b->data = Plane(DataType::kNf4, 70, 6);
     }},
    {"b.zero_points is set, and b.scales is missing", [](MatmulCall* c) { c->b->scales.reset(); }},
    {"a.tensor_scale is set, and a.scales is missing", [](MatmulCall* c) { c->a->scales.reset(); }},
    {"b.offsets is set, and b.scales is missing",
     [](MatmulCall* c) {
       c->b->offsets = c->b->scales;
       c->b->scales.reset();
       c->b->zero_points.reset();
     }},
    {"a.offsets is set, and a.data.type is fp4_e2m1; only integers have offsets",
     [](MatmulCall* c) { c->a->offsets = c->a->scales; }},
    {"b.zero_points is set, and b.data.type is iq4_nl; only integers have zero points",
     [](MatmulCall* c) { c->b->data.type = DataType::kIq4Nl; }},
    {"b.offsets is set beside b.zero_points; a block has one of both",
     [](MatmulCall* c) { c->b->offsets = c->b->scales; }},
    {"b.offsets.type is f32; it must be that of b.scales, f16",
     [](MatmulCall* c) {
       c->b->zero_points.reset();
       c->b->offsets = Plane(DataType::kF32, 2, 6);
     }},
    {"b.offsets is 6 x 2 row_major; it must be as b.scales, 2 x 6 row_major",
     [](MatmulCall* c) {
       c->b->zero_points.reset();
       c->b->offsets = Plane(DataType::kF16, 6, 2);
     }},
    {"a.offsets is set, and a.quantization is missing; offsets are of blocks",
     [](MatmulCall* c) {
       SetInt8(c);
       c->a->offsets = c->a->scales;
     }},
    {"accumulate_type is int32; of int8 times uint4 with offsets it must be f32 or f64",
     [](MatmulCall* c) {
       SetA(c, DataType::kInt8, Plane(DataType::kF32, 5, 2), {64, 1, false});
       c->b->zero_points.reset();
       c->b->offsets = c->b->scales;
       c->accumulate_type = DataType::kInt32;
     }},
    {"a.quantization is set, and a.scales is missing",
     [](MatmulCall* c) {
       c->a->scales.reset();
       c->a->tensor_scale.reset();
     }},
    {"a.quantization is missing; blocks of fp4_e2m1 are 1 x 32 (e8m0), 1 x 16 (fp8_e4m3)",
     [](MatmulCall* c) { c->a->blocks.reset(); }},
    {"b.quantization is missing; blocks of uint4 are 1 x 16 (f16, bf16, f32), 1 x 32 (f16, bf16, "
     "f32), 1 x 64 (f16, bf16, f32), 1 x 128 (f16, bf16, f32)",
     [](MatmulCall* c) { c->b->blocks.reset(); }},
    {"a.scales and b.scales are missing; fp8_e4m3 times f32 goes with scales of one or both",
     [](MatmulCall* c) {
       c->a = OperandSpec();
       c->a->data = Plane(DataType::kFp8E4M3, 5, 70);
       c->b = OperandSpec();
       c->b->data = Plane(DataType::kF32, 70, 6);
     }},
    {"a.scales and b.scales are missing; int8 times fp8_e5m2 goes with scales of one or both",
     [](MatmulCall* c) {
       SetInt8(c);
       c->a->scales.reset();
       c->b->scales.reset();
       c->b->data.type = DataType::kFp8E5M2;
     }},
    // Blocks.
    {"a.quantization is blocks of 1 x 0; of fp4_e2m1 they must be 1 x 32 (e8m0), 1 x 16 (fp8_e4m3)",
     [](MatmulCall* c) { c->a->blocks->block_k = 0; }},
    {"a.quantization is blocks of 1 x 17; of fp4_e2m1 they must be 1 x 32 (e8m0), 1 x 16 "
     "(fp8_e4m3)",
     [](MatmulCall* c) { c->a->blocks->block_k = 17; }},
    // 16 + 2^16 and 2^16 look alike in 16 bits.
    {"a.quantization is blocks of 1 x 65552; of fp4_e2m1 they must be 1 x 32 (e8m0), 1 x 16 "
     "(fp8_e4m3)",
     [](MatmulCall* c) { c->a->blocks->block_k = 65552; }},
    {"a.quantization is blocks of 65537 x 16; of fp4_e2m1 they must be 1 x 32 (e8m0), 1 x 16 "
     "(fp8_e4m3)",
     [](MatmulCall* c) { c->a->blocks->block_lines = 65537; }},
    {"a.quantization is blocks of 4294967295 x 4294967295; of fp4_e2m1 they must be 1 x 32 (e8m0), "
     "1 x 16 (fp8_e4m3)",
     [](MatmulCall* c) {
       *c->a->blocks = {4294967295, 4294967295, false};
     }},
    {"b.quantization is blocks of 1 x 8; of uint4 they must be 1 x 16 (f16, bf16, f32), 1 x 32 "
     "(f16, bf16, f32), 1 x 64 (f16, bf16, f32), 1 x 128 (f16, bf16, f32)",
     [](MatmulCall* c) { c->b->blocks->block_k = 8; }},
    {"b.quantization is blocks of 1 x 256; of nf4 they must be 1 x 16 (f16, bf16, f32), 1 x 32 "
     "(f16, bf16, f32), 1 x 64 (f16, bf16, f32), 1 x 128 (f16, bf16, f32)",
     [](MatmulCall* c) {
       c->b->data.type = DataType::kNf4;
       c->b->blocks->block_k = 256;
     }},
    {"a.quantization is blocks of 1 x 64; of fp8_e5m2 they must be 1 x 128 (f32), 128 x 128 (f32), "
     "1 x 32 (e8m0)",
     [](MatmulCall* c) {
       SetA(c, DataType::kFp8E5M2, Plane(DataType::kF32, 5, 2), {64, 1, false});
     }},
    {"a.quantization is blocks of 128 x 128; of int8 they must be 1 x 16 (f32), 1 x 32 (f32), "
     "1 x 64 (f32), 1 x 128 (f32)",
     [](MatmulCall* c) {
       SetA(c, DataType::kInt8, Plane(DataType::kF32, 1, 1), {128, 128, false});
     }},
    {"a.quantization is blocks of 1 x 16; of fp6_e2m3 they must be 1 x 32 (e8m0)",
     [](MatmulCall* c) {
       SetA(c, DataType::kFp6E2M3, Plane(DataType::kE8M0, 5, 5), {16, 1, false});
     }},
    // Types of scales.
    {"a.scales.type is e8m0; of fp4_e2m1 in blocks of 1 x 16 it must be fp8_e4m3",
     [](MatmulCall* c) { c->a->scales->type = DataType::kE8M0; }},
    {"a.scales.type is fp8_e5m2; of fp4_e2m1 in blocks of 1 x 16 it must be fp8_e4m3",
     [](MatmulCall* c) { c->a->scales->type = DataType::kFp8E5M2; }},
    {"a.scales.type is f32; of fp8_e4m3 in blocks of 1 x 32 it must be e8m0",
     [](MatmulCall* c) {
       SetA(c, DataType::kFp8E4M3, Plane(DataType::kF32, 5, 3), {32, 1, false});
     }},
    {"b.scales.type is e8m0; of uint4 in blocks of 1 x 64 it must be f16 or bf16 or f32",
     [](MatmulCall* c) { c->b->scales->type = DataType::kE8M0; }},
    {"a.scales.type is f16; it must be f32, or a.quantization must say what blocks are scaled",
     [](MatmulCall* c) {
       SetInt8(c);
       c->a->scales->type = DataType::kF16;
     }},
    {"a.scales is set, and a.data.type is bf16; only quantized types have scales",
     [](MatmulCall* c) { c->a->data.type = DataType::kBf16; }},
    // Numbers of scales.
    {"a.scales is 5 x 4; it must be 5 x 5: the data are 5 x 70, in blocks of 1 x 16",
     [](MatmulCall* c) { c->a->scales->columns = 4; }},
    {"a.scales is 5 x 6; it must be 5 x 5: the data are 5 x 70, in blocks of 1 x 16",
     [](MatmulCall* c) { c->a->scales->columns = 6; }},
    {"a.scales is 6 x 5; it must be 5 x 5: the data are 5 x 70, in blocks of 1 x 16",
     [](MatmulCall* c) { c->a->scales->rows = 6; }},
    {"a.scales is 0 x 0; it must be 5 x 5: the data are 5 x 70, in blocks of 1 x 16",
     [](MatmulCall* c) { c->a->scales = Plane(DataType::kFp8E4M3, 0, 0); }},
    {"a.scales is 18446744073709551615 x 5; it must be 5 x 5: the data are 5 x 70, in blocks of 1 "
     "x "
     "16",
     [](MatmulCall* c) { c->a->scales->rows = kHuge; }},
    {"b.scales is 6 x 2; it must be 2 x 6: the data are 70 x 6, in blocks of 64 x 1",
     [](MatmulCall* c) { c->b->scales = Plane(DataType::kF16, 6, 2); }},
    {"b.scales is 2 x 6; it must be 6 x 2: the data are 6 x 70, in blocks of 1 x 64",
     [](MatmulCall* c) {
       c->transpose_b = true;
       c->b->data = Plane(DataType::kUint4, 6, 70);
     }},
    {"a.scales is 5 x 1; it must be 1 x 1: the data are 5 x 70, in blocks of 128 x 128",
     [](MatmulCall* c) {
       SetA(c, DataType::kFp8E4M3, Plane(DataType::kF32, 5, 1), {128, 128, false});
     }},
    {"a.scales is 4 x 1; it must be 1 x 1, or 5 x 1: one for each row of op(a)",
     [](MatmulCall* c) {
       SetInt8(c);
       c->a->scales = Plane(DataType::kF32, 4, 1);
     }},
    {"b.scales is 5 x 1; it must be 1 x 1, or 1 x 6: one for each column of op(b)",
     [](MatmulCall* c) {
       SetInt8(c);
       c->b->scales = Plane(DataType::kF32, 5, 1);
     }},
    // Layouts.
    {"a.scales is 5 x 5; it must be 128 x 8: the data are 5 x 70, in blocks of 1 x 16, in whole "
     "tiles of 128 x 4",
     [](MatmulCall* c) { c->a->blocks->is_tiled = true; }},
    {"a.scales.order is column_major; of blocked_128x4 it must be row_major",
     [](MatmulCall* c) {
       c->a->blocks->is_tiled = true;
       c->a->scales = Plane(DataType::kFp8E4M3, 128, 8);
       c->a->scales->order = Order::kColumnMajor;
     }},
    {"b.quantization.scale_layout is blocked_128x4; of f16 scales it must be plain",
     [](MatmulCall* c) { c->b->blocks->is_tiled = true; }},
    {"a.quantization.scale_layout is blocked_128x4; of f32 scales it must be plain",
     [](MatmulCall* c) {
       SetA(c, DataType::kFp8E4M3, Plane(DataType::kF32, 128, 4), {128, 1, true});
     }},
    {"a.scales.leading_dimension is 6; it must be 5 or 0: scales are tightly packed",
     [](MatmulCall* c) { c->a->scales->leading_dimension = 6; }},
    {"b.scales.leading_dimension is 6; it must be 2 or 0: scales are tightly packed",
     [](MatmulCall* c) {
       c->b->scales->order = c->b->zero_points->order = Order::kColumnMajor;
       c->b->scales->leading_dimension = 6;
     }},
    // Zero points.
    {"a.zero_points is set, and a.data.type is fp4_e2m1; only integers have zero points",
     [](MatmulCall* c) { c->a->zero_points = Plane(DataType::kUint8, 5, 5); }},
    {"b.zero_points.type is int8; of uint4 it must be uint8",
     [](MatmulCall* c) { c->b->zero_points->type = DataType::kInt8; }},
    {"a.zero_points.type is int32; of int8 it must be int8",
     [](MatmulCall* c) {
       SetInt8(c);
       c->a->zero_points = Plane(DataType::kInt32, 1, 1);
     }},
    {"b.zero_points is 2 x 5 row_major; it must be as b.scales, 2 x 6 row_major",
     [](MatmulCall* c) { c->b->zero_points->columns = 5; }},
    {"b.zero_points is 2 x 6 column_major; it must be as b.scales, 2 x 6 row_major",
     [](MatmulCall* c) { c->b->zero_points->order = Order::kColumnMajor; }},
    {"a.zero_points is 5 x 1 row_major; it must be as a.scales, 1 x 1 row_major",
     [](MatmulCall* c) {
       SetInt8(c);
       c->a->zero_points = Plane(DataType::kInt8, 5, 1);
     }},
    {"b.zero_points.leading_dimension is 7; it must be 6 or 0: scales are tightly packed",
     [](MatmulCall* c) { c->b->zero_points->leading_dimension = 7; }},
    // The scale of the tensor.
    {"a.tensor_scale is 1 x 1 f64; it must be 1 x 1 f32",
     [](MatmulCall* c) { c->a->tensor_scale->type = DataType::kF64; }},
    {"a.tensor_scale is 5 x 1 f32; it must be 1 x 1 f32",
     [](MatmulCall* c) { c->a->tensor_scale->rows = 5; }},
    {"a.tensor_scale is set, and a is fp4_e2m1 with e8m0 scales; it goes with fp4_e2m1 and "
     "fp8_e4m3 "
     "scales alone",
     [](MatmulCall* c) {
       c->a->blocks->block_k = 32;
       c->a->scales = Plane(DataType::kE8M0, 5, 3);
     }},
    {"b.tensor_scale is set, and b is uint4 with f16 scales; it goes with fp4_e2m1 and fp8_e4m3 "
     "scales alone",
     [](MatmulCall* c) { c->b->tensor_scale = Plane(DataType::kF32, 1, 1); }},
    // C and bias.
    {"c.zero_points is set; only a and b have scales",
     [](MatmulCall* c) {
       c->c = OperandSpec();
       c->c->data = Plane(DataType::kBf16, 5, 6);
       c->c->zero_points = Plane(DataType::kUint8, 1, 1);
     }},
    {"c.k_order is set; only a and b have an order of K",
     [](MatmulCall* c) {
       c->c = OperandSpec();
       c->c->data = Plane(DataType::kBf16, 5, 6);
       c->c->k_order = std::make_shared<const std::vector<std::uint32_t>>(5);
     }},
    {"c.quantization is set; only a and b have scales",
     [](MatmulCall* c) {
       c->c = OperandSpec();
       c->c->data = Plane(DataType::kBf16, 5, 6);
       c->c->blocks = BlockScaling{32, 1, false};
     }},
    {"bias.tensor_scale is set; only a and b have scales",
     [](MatmulCall* c) {
       c->bias = OperandSpec();
       c->bias->data = Plane(DataType::kBf16, 1, 6);
       c->bias->tensor_scale = Plane(DataType::kF32, 1, 1);
     }},
    // Output, sums, epilogue.
    {"output_type is int32, and a.scales is set; a scaled product is f32, f16 or bf16",
     [](MatmulCall* c) { c->output_type = DataType::kInt32; }},
    {"output_type is fp8_e4m3; of fp4_e2m1 times uint4 with sums in f32 it must be f32, f16 or "
     "bf16",
     [](MatmulCall* c) { c->output_type = DataType::kFp8E4M3; }},
    {"output_type is f64; of fp4_e2m1 times uint4 with sums in f32 it must be f32, f16 or bf16",
     [](MatmulCall* c) { c->output_type = DataType::kF64; }},
    {"output_type is int8; of fp4_e2m1 times uint4 with sums in f64 it must be f64, f32, f16 or "
     "bf16",
     [](MatmulCall* c) {
       c->output_type = DataType::kInt8;
       c->accumulate_type = DataType::kF64;
     }},
    {"accumulate_type is int32; of fp4_e2m1 times uint4 it must be f32 or f64",
     [](MatmulCall* c) { c->accumulate_type = DataType::kInt32; }},
    {"accumulate_type is bf16; of fp4_e2m1 times uint4 it must be f32 or f64",
     [](MatmulCall* c) { c->accumulate_type = DataType::kBf16; }},
    {"accumulate_type is f16; of int8 times uint4 it must be int32, f32 or f64",
     [](MatmulCall* c) {
       SetA(c, DataType::kInt8, Plane(DataType::kF32, 5, 3), {32, 1, false});
       c->accumulate_type = DataType::kF16;
     }},
    // Sizes: scales count where they are the larger part, and none of these overflows.
    {"the operands and the result take 117440514 bytes; one request may take 67108864",
     [](MatmulCall* c) {
       c->a = Quantized(DataType::kFp8E4M3, 16777216, 1, Plane(DataType::kF32, 16777216, 1),
                        {128, 1, false});
       c->b = OperandSpec();
       c->b->data = Plane(DataType::kF16, 1, 1);
       c->output_type = DataType::kF16;
     }},
    {"the operands and the result take 5332261967061057531 bytes; one request may take 67108864",
     [](MatmulCall* c) {
       c->a = Quantized(DataType::kInt8, 2147483647, 2147483647,
                        Plane(DataType::kF32, 2147483647, 67108864), {32, 1, false});
       c->a->zero_points = Plane(DataType::kInt8, 2147483647, 67108864);
       c->b = OperandSpec();
       c->b->data = Plane(DataType::kF32, 2147483647, 1);
       c->output_type = DataType::kF16;
       c->keep_result = KeepResult();
     }},
};

TEST(Quantization, TheGoodCallIsGood) {
  const absl::StatusOr<Problem> problem = ValidateHeader(GoodCall(), Limits());
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(Name(problem->a_scaling), "fp8_e4m3/1x16+tensor");
  EXPECT_EQ(Name(problem->b_scaling), "f16/1x64+zp@lines");
  EXPECT_EQ(problem->d.type, DataType::kBf16);
  EXPECT_EQ(problem->accumulate, DataType::kF32);
}

TEST(Quantization, BadCallsAreRefusedNamingFieldValueAndLimit) {
  int refused = 0;
  for (const BadCall& bad : kBadCalls) {
    MatmulCall call = GoodCall();
    bad.spoil(&call);
    const absl::Status status = ValidateHeader(call, Limits()).status();
    EXPECT_EQ(status.code(), bad.code) << status;
    EXPECT_EQ(std::string(status.message()), bad.message);
    ++refused;
  }
  EXPECT_GE(refused, 60);
}

// Each order and transposition of blocks says what kernels understand.
TEST(Quantization, PlainPlanesLieAlongKOrAlongLines) {
  const auto order_of_a = [](bool transpose, Order order, bool is_tiled) {
    MatmulCall call = GoodCall();
    call.transpose_a = transpose;
    call.a->blocks->is_tiled = is_tiled;
    const std::uint64_t lines = is_tiled ? 128 : 5;
    const std::uint64_t blocks = is_tiled ? 8 : 5;
    call.a->data = transpose ? Plane(DataType::kFp4E2M1, 70, 5) : call.a->data;
    call.a->scales = transpose ? Plane(DataType::kFp8E4M3, blocks, lines)
                               : Plane(DataType::kFp8E4M3, lines, blocks);
    call.a->scales->order = order;
    return ValidateHeader(call, Limits())->a_scaling.order;
  };
  EXPECT_EQ(order_of_a(false, Order::kRowMajor, false), ScaleOrder::kAlongK);
  EXPECT_EQ(order_of_a(false, Order::kColumnMajor, false), ScaleOrder::kAlongLines);
  EXPECT_EQ(order_of_a(true, Order::kRowMajor, false), ScaleOrder::kAlongLines);
  EXPECT_EQ(order_of_a(true, Order::kColumnMajor, false), ScaleOrder::kAlongK);
  EXPECT_EQ(order_of_a(false, Order::kRowMajor, true), ScaleOrder::kTiles128x4);
  EXPECT_EQ(order_of_a(true, Order::kRowMajor, true), ScaleOrder::kTiles128x4);
}

TEST(Quantization, TypesOfDAndSumsFollowBothOperands) {
  struct Case {
    DataType a;
    DataType b;
    DataType d;
    DataType sum;
  };
  for (const Case& each : {Case{DataType::kInt8, DataType::kInt8, DataType::kF32, DataType::kInt32},
                           {DataType::kFp8E4M3, DataType::kInt8, DataType::kBf16, DataType::kF32},
                           {DataType::kInt8, DataType::kFp8E4M3, DataType::kF32, DataType::kF32},
                           {DataType::kInt8, DataType::kF16, DataType::kF16, DataType::kF32},
                           {DataType::kBf16, DataType::kInt8, DataType::kBf16, DataType::kF32}}) {
    MatmulCall call;
    SetInt8(&call);
    call.a->data.type = each.a;
    call.b->data.type = each.b;
    if (!IsQuantizedType(each.a)) call.a->scales.reset();
    if (!IsQuantizedType(each.b)) call.b->scales.reset();
    const absl::StatusOr<Problem> problem = ValidateHeader(call, Limits());
    ASSERT_TRUE(problem.ok()) << problem.status();
    EXPECT_EQ(problem->d.type, each.d);
    EXPECT_EQ(problem->accumulate, each.sum);
  }
}

// A long K of int8 is refused where int32 has to hold the sum, and there alone.
TEST(Quantization, SumsInPiecesMayBeLong) {
  MatmulCall call;
  SetInt8(&call);
  call.a->data.columns = call.b->data.rows = 131072;
  EXPECT_FALSE(ValidateHeader(call, Limits()).ok());
  call.a->zero_points = Plane(DataType::kInt8, 1, 1);
  EXPECT_TRUE(ValidateHeader(call, Limits()).ok());
}

// Values, of each type of scales and of zero points.
class ValuesTest : public ::testing::Test {
 protected:
  // A receives these bytes in the plane; zeros are good everywhere else.
  std::string Check(const MatmulCall& call, OperandName operand, PlaneName plane,
                    const std::string& bytes) {
    const absl::StatusOr<Problem> problem = ValidateHeader(call, Limits());
    if (!problem.ok()) return std::string(problem.status().message());
    auto payload = *InlinePayload::Create(
        call, *problem, {}, [this](std::uint64_t size) { return device_.AllocateOperand(size); });
    for (const OperandPlane& each : kOperandPlanes) {
      std::string zeros(PlaneBytes(*problem, each.plane), '\0');
      if (zeros.empty()) continue;
      if (each.operand == operand && each.name == plane) zeros.replace(0, bytes.size(), bytes);
      const absl::string_view piece = zeros;
      const absl::Status status =
          payload->Receive({each.operand, each.name, 0, absl::MakeSpan(&piece, 1)});
      if (!status.ok()) return std::string(status.message());
    }
    return std::string(payload->Check().message());
  }

  template <typename T>
  static std::string Bytes(std::initializer_list<T> values) {
    std::string bytes(values.size() * sizeof(T), '\0');
    std::memcpy(bytes.data(), values.begin(), bytes.size());
    return bytes;
  }

  testing::FakeClock clock_;
  testing::FakeDevice device_{&clock_, 1 << 20, 1};
};

TEST_F(ValuesTest, ScalesAreFiniteAndOfE4M3AtLeastZero) {
  const MatmulCall call = GoodCall();
  const auto of_a = [&](const std::string& bytes) {
    return Check(call, OperandName::kA, PlaneName::kScales, bytes);
  };
  EXPECT_EQ(of_a(Bytes<std::uint8_t>({0, 0x7E, 0x80, 1})), "");
  EXPECT_EQ(of_a(Bytes<std::uint8_t>({0, 0x7F})),
            "a.scales[1] is nan; it must be finite and, of fp8_e4m3, at least 0");
  EXPECT_EQ(of_a(Bytes<std::uint8_t>({0, 1, 2, 0xB8})),
            "a.scales[3] is -1; it must be finite and, of fp8_e4m3, at least 0");
  const auto of_b = [&](const std::string& bytes) {
    return Check(call, OperandName::kB, PlaneName::kScales, bytes);
  };
  EXPECT_EQ(of_b(Bytes<std::uint16_t>({0, 0x7BFF, 0x8000, 0xC000})), "");
  EXPECT_EQ(of_b(Bytes<std::uint16_t>({0x7C00})), "b.scales[0] is inf; it must be finite");
  EXPECT_EQ(of_b(Bytes<std::uint16_t>({0, 0xFC00})), "b.scales[1] is -inf; it must be finite");
  MatmulCall bf16 = call;
  bf16.b->scales->type = DataType::kBf16;
  EXPECT_EQ(Check(bf16, OperandName::kB, PlaneName::kScales, Bytes<std::uint16_t>({0x7F7F, 0})),
            "");
  EXPECT_EQ(Check(bf16, OperandName::kB, PlaneName::kScales, Bytes<std::uint16_t>({0x7F80})),
            "b.scales[0] is inf; it must be finite");
}

TEST_F(ValuesTest, E8M0HasOneNan) {
  MatmulCall call = GoodCall();
  SetA(&call, DataType::kFp6E3M2, Plane(DataType::kE8M0, 5, 3), {32, 1, false});
  EXPECT_EQ(Check(call, OperandName::kA, PlaneName::kScales, Bytes<std::uint8_t>({0, 0xFE})), "");
  EXPECT_EQ(Check(call, OperandName::kA, PlaneName::kScales, Bytes<std::uint8_t>({0, 0xFE, 0xFF})),
            "a.scales[2] is 0xff, the NaN of e8m0; a scale must be 0 to 0xfe");
}

TEST_F(ValuesTest, TheScaleOfTheTensorIsFinite) {
  const auto check = [this](float scale) {
    return Check(GoodCall(), OperandName::kA, PlaneName::kTensorScale, Bytes<float>({scale}));
  };
  EXPECT_EQ(check(3e38F), "");
  EXPECT_EQ(check(-1), "");
  EXPECT_EQ(check(std::numeric_limits<float>::infinity()),
            "a.tensor_scale[0] is inf; it must be finite");
}

TEST_F(ValuesTest, OffsetsAreFinite) {
  MatmulCall call = GoodCall();
  call.b->zero_points.reset();
  call.b->offsets = call.b->scales;
  const auto check = [&](const std::string& bytes) {
    return Check(call, OperandName::kB, PlaneName::kOffsets, bytes);
  };
  EXPECT_EQ(check(Bytes<std::uint16_t>({0xC000, 0x8000, 0x7BFF})), "");
  EXPECT_EQ(check(Bytes<std::uint16_t>({0, 0xFC00})), "b.offsets[1] is -inf; it must be finite");
}

TEST_F(ValuesTest, ZeroPointsAreValuesOfTheElements) {
  MatmulCall call = GoodCall();
  const auto check = [&](const std::string& bytes) {
    return Check(call, OperandName::kB, PlaneName::kZeroPoints, bytes);
  };
  EXPECT_EQ(check(Bytes<std::uint8_t>({0, 15, 16})), "");
  EXPECT_EQ(check(Bytes<std::uint8_t>({0, 15, 17})),
            "b.zero_points[2] is 17; of uint4 it must be 0 to 16");
  call.b->data.type = DataType::kInt4;
  call.b->zero_points->type = DataType::kInt8;
  EXPECT_EQ(check(Bytes<std::int8_t>({-8, 7})), "");
  EXPECT_EQ(check(Bytes<std::int8_t>({0, -9})),
            "b.zero_points[1] is -9; of int4 it must be -8 to 7");
  EXPECT_EQ(check(Bytes<std::int8_t>({8})), "b.zero_points[0] is 8; of int4 it must be -8 to 7");
}

}  // namespace
}  // namespace gemmd
