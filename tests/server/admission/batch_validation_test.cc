// Limits and errors of strided batches. Bits of products: tests/e2e/strided_batch_test.cc.
#include <functional>
#include <limits>
#include <string>

#include "gtest/gtest.h"
#include "server/admission/validation.h"

namespace gemmd {
namespace {

constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();

RequestLimits Limits() {
  RequestLimits limits;
  limits.request_bytes = 1 << 20;
  limits.result_bytes = 1 << 18;
  return limits;
}

OperandSpec Matrix(std::uint64_t rows, std::uint64_t columns, DataType type = DataType::kF32) {
  OperandSpec operand;
  operand.data = {type, rows, columns, Order::kRowMajor, 0};
  return operand;
}

// 10 of 4 x 6 times 6 x 5.
MatmulCall GoodCall() {
  MatmulCall call;
  call.a = Matrix(4, 6);
  call.b = Matrix(6, 5);
  call.batch = BatchSpec{10, 24, 30, 0, 0, 0};
  return call;
}

absl::StatusOr<Stack> Validate(const MatmulCall& call) {
  const absl::StatusOr<Problem> problem = ValidateHeader(call, Limits());
  if (!problem.ok()) return problem.status();
  return ValidateBatch(call, *problem, Limits());
}

// Returns the refusal.
std::string Spoilt(const std::function<void(MatmulCall&)>& spoil) {
  MatmulCall call = GoodCall();
  spoil(call);
  return Validate(call).status().ToString();
}

void IntoSharedMemory(MatmulCall& call) { call.output = SharedMemorySpec{"region", 0}; }

TEST(BatchValidation, StatesTheStack) {
  const Stack stack = *Validate(GoodCall());
  EXPECT_EQ(stack.count, 10);
  EXPECT_EQ(stack.strides[WorkPlane::kA], 24);
  EXPECT_EQ(stack.strides[WorkPlane::kB], 30);
  EXPECT_EQ(stack.d_stride, 20);
  MatmulCall call = GoodCall();
  call.output_leading_dimension = 8;
  EXPECT_EQ(Validate(call)->d_stride, 32);
  call.batch.reset();
  EXPECT_TRUE(Validate(call)->is_one());
  call.batch = BatchSpec{1, kHuge, kHuge, 0, 0, 0};
  EXPECT_TRUE(Validate(call)->is_one());
}

TEST(BatchValidation, RefusesNamingFieldValueAndLimit) {
  EXPECT_EQ(Spoilt([](MatmulCall& c) { c.batch->count = 0; }),
            "INVALID_ARGUMENT: batch.count is 0; it must be 1 to 16777216");
  EXPECT_EQ(Spoilt([](MatmulCall& c) { c.batch->count = std::uint64_t{1} << 40; }),
            "INVALID_ARGUMENT: batch.count is 1099511627776; it must be 1 to 16777216");
  EXPECT_EQ(Spoilt([](MatmulCall& c) { c.batch->c_stride = 20; }),
            "INVALID_ARGUMENT: batch.c_stride is 20, and c is missing");
  EXPECT_EQ(Spoilt([](MatmulCall& c) { c.batch->bias_stride = 5; }),
            "INVALID_ARGUMENT: batch.bias_stride is 5, and bias is missing");
  EXPECT_EQ(
      Spoilt([](MatmulCall& c) { c.batch->output_stride = 24; }),
      "INVALID_ARGUMENT: batch.output_stride is 24; of a result that is sent back it must be 0 "
      "or 20, which is all lines of one product");
  EXPECT_EQ(Spoilt([](MatmulCall& c) { c.keep_result.emplace(); }),
            "UNIMPLEMENTED: keep_result is set, and batch.count is 10: it must be 1, or "
            "batch.row_ends set");
}

// 10 rows of 6 in 4 groups, by 6 x 5 each.
MatmulCall GroupedCall() {
  MatmulCall call;
  call.a = Matrix(10, 6);
  call.b = Matrix(6, 5);
  call.batch = BatchSpec{4, 0, 30, 0, 0, 0, {3, 3, 8, 10}};
  return call;
}

std::string SpoiltGroups(const std::function<void(MatmulCall&)>& spoil) {
  MatmulCall call = GroupedCall();
  spoil(call);
  return Validate(call).status().ToString();
}

TEST(BatchValidation, StatesTheGroups) {
  const Stack stack = *Validate(GroupedCall());
  EXPECT_EQ(stack.count, 4);
  ASSERT_TRUE(stack.has_groups());
  EXPECT_EQ(stack.row_begin(2), 3);
  EXPECT_EQ(stack.row_end(2), 8);
  EXPECT_EQ(stack.strides[WorkPlane::kA], 0);
  EXPECT_EQ(stack.strides[WorkPlane::kB], 30);
  EXPECT_EQ(stack.d_stride, 0);
  MatmulCall call = GroupedCall();
  call.batch = BatchSpec{1, 0, 0, 0, 0, 0, {10}};
  EXPECT_FALSE(Validate(call)->has_groups());
}

TEST(BatchValidation, RefusesGroupsNamingFieldValueAndLimit) {
  const std::string equal = "; they must be equal, and 1 to 4096";
  EXPECT_EQ(SpoiltGroups([](MatmulCall& c) { c.batch->count = 5; }),
            "INVALID_ARGUMENT: batch.row_ends has 4 and batch.count is 5" + equal);
  EXPECT_EQ(SpoiltGroups([](MatmulCall& c) {
              c.batch->count = 4097;
              c.batch->row_ends.assign(4097, 10);
            }),
            "INVALID_ARGUMENT: batch.row_ends has 4097 and batch.count is 4097" + equal);
  EXPECT_EQ(SpoiltGroups([](MatmulCall& c) { c.batch->row_ends[2] = 2; }),
            "INVALID_ARGUMENT: batch.row_ends[2] is 2, behind one of 3; none may be less than the "
            "one before");
  for (const std::uint64_t last : {std::uint64_t{9}, std::uint64_t{11}, kHuge}) {
    EXPECT_EQ(SpoiltGroups([&](MatmulCall& c) { c.batch->row_ends[3] = last; }),
              "INVALID_ARGUMENT: the last of batch.row_ends is " + std::to_string(last) +
                  "; it must be 10, the rows of op(a)");
  }
  EXPECT_EQ(SpoiltGroups([](MatmulCall& c) { c.batch->a_stride = 6; }),
            "INVALID_ARGUMENT: batch.a_stride is 6, and batch.row_ends is set: it must be 0");
  EXPECT_EQ(SpoiltGroups([](MatmulCall& c) { c.batch->output_stride = 50; }),
            "INVALID_ARGUMENT: batch.output_stride is 50, and batch.row_ends is set: it must be 0");
  EXPECT_EQ(SpoiltGroups([](MatmulCall& c) { c.output_order = Order::kColumnMajor; }),
            "INVALID_ARGUMENT: output_order is column_major, and batch.row_ends is set: it must be "
            "row_major");
}

// A D that stays is no part of an answer.
TEST(BatchValidation, GroupsThatStayMayBeLargerThanAnAnswer) {
  MatmulCall call = GroupedCall();
  call.a = Matrix(20000, 6);
  call.batch->row_ends = {1, 5000, 5000, 20000};
  EXPECT_FALSE(Validate(call).ok());
  call.keep_result.emplace();
  const absl::StatusOr<Stack> stack = Validate(call);
  ASSERT_TRUE(stack.ok()) << stack.status();
  EXPECT_TRUE(stack->has_groups());
}

TEST(BatchValidation, SizesDoNotOverflow) {
  const char* const over =
      "INVALID_ARGUMENT: the operands and the results of batch.count 10 products take more than "
      "1048576 bytes, which one request may take";
  for (const std::uint64_t stride : {std::uint64_t{30000}, std::uint64_t{1} << 61U, kHuge}) {
    EXPECT_EQ(Spoilt([&](MatmulCall& c) { c.batch->a_stride = stride; }), over) << stride;
  }
  EXPECT_EQ(Spoilt([](MatmulCall& c) { c.batch->count = 16777216; }),
            "INVALID_ARGUMENT: d is 16777216 x 4 x 5 f32; a unary response carries at most 262144 "
            "bytes");
  // The results find room in a request, and with the operands they do not.
  EXPECT_EQ(
      Spoilt([](MatmulCall& c) {
        c.batch->count = 20000;
        IntoSharedMemory(c);
      }),
      "INVALID_ARGUMENT: the operands and the results of batch.count 20000 products take more "
      "than 1048576 bytes, which one request may take");
}

TEST(BatchValidation, MatricesBeginAtWholeBytes) {
  const auto of = [](DataType type, std::uint64_t stride) {
    MatmulCall call = GoodCall();
    call.a = Matrix(4, 32, type);
    call.b = Matrix(32, 5, DataType::kF32);
    call.a->scales = PlaneSpec{DataType::kF32, 4, 1, Order::kRowMajor, 0};
    if (SizeBits(type) < 8) {
      call.a->blocks = BlockScaling{};
      call.a->blocks->block_k = 32;
      call.a->blocks->block_lines = 1;
      call.a->scales->type = type == DataType::kInt4 ? DataType::kF16 : DataType::kE8M0;
    }
    call.batch->b_stride = 0;
    call.batch->a_stride = stride;
    return Validate(call).status().ToString();
  };
  EXPECT_EQ(of(DataType::kInt8, 129), "OK");
  EXPECT_EQ(of(DataType::kInt4, 130), "OK");
  EXPECT_EQ(of(DataType::kInt4, 129),
            "INVALID_ARGUMENT: batch.a_stride is 129; of int4 it must be a multiple of 2, so that "
            "each matrix begins a byte");
  EXPECT_EQ(of(DataType::kFp6E3M2, 132), "OK");
  EXPECT_EQ(of(DataType::kFp6E3M2, 130),
            "INVALID_ARGUMENT: batch.a_stride is 130; of fp6_e3m2 it must be a multiple of 4, so "
            "that each matrix begins a byte");
}

// Against the elements themselves.
TEST(BatchValidation, ResultsDoNotOverlap) {
  int legal = 0;
  for (std::uint64_t pitch = 3; pitch <= 13; ++pitch) {
    for (std::uint64_t stride = 1; stride <= 40; ++stride) {
      for (const std::uint64_t count : {2, 3, 4}) {
        MatmulCall call;
        call.a = Matrix(3, 2);
        call.b = Matrix(2, 3);
        call.output_leading_dimension = pitch;
        call.batch = BatchSpec{count, 6, 6, 0, 0, stride};
        IntoSharedMemory(call);
        const absl::StatusOr<Stack> stack = Validate(call);
        std::vector<int> writes(200, 0);
        for (std::uint64_t i = 0; i < count; ++i) {
          for (std::uint64_t row = 0; row < 3; ++row) {
            for (std::uint64_t column = 0; column < 3; ++column) {
              ++writes[i * stride + row * pitch + column];
            }
          }
        }
        const bool overlap = *std::max_element(writes.begin(), writes.end()) > 1;
        if (stack.ok()) {
          EXPECT_FALSE(overlap) << pitch << " " << stride << " " << count;
          ++legal;
        } else if (stride >= 2 * pitch + 3 || (stride >= 3 && (count - 1) * stride + 3 <= pitch)) {
          ADD_FAILURE() << stack.status();
        }
      }
    }
  }
  EXPECT_GT(legal, 100);
}

TEST(BatchValidation, OfAKOf0NoStrideIsLeft) {
  MatmulCall call;
  call.a = Matrix(4, 0);
  call.b = Matrix(0, 5);
  call.batch = BatchSpec{3, 7, 9, 0, 0, 0};
  const Stack stack = *Validate(call);
  EXPECT_EQ(stack.count, 3);
  EXPECT_EQ(stack.strides[WorkPlane::kA], 0);
  EXPECT_EQ(stack.strides[WorkPlane::kB], 0);
}

}  // namespace
}  // namespace gemmd
