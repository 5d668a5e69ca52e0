// Tests how a problem becomes a column-major call, and why it does not: no GPU, no library.
#include "kernels/cublaslt/cublaslt_call.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/hash/hash.h"

namespace gemmd::cublaslt {
namespace {

Problem Bf16(bool transpose_b = true) {
  return MakeProblem(24, 40, 64, DataType::kBf16, DataType::kBf16, false, transpose_b);
}

Problem Fp8() { return MakeProblem(17, 48, 64, DataType::kFp8E4M3, DataType::kBf16, false, true); }

TEST(CublasLtCall, RowMajorResultsSwapTheOperands) {
  const std::optional<CublasLtCall> call = FusedCall(Arithmetic::kBf16, Bf16());
  ASSERT_TRUE(call.has_value());
  EXPECT_TRUE(call->swaps_operands);
  EXPECT_EQ(call->m, 40);
  EXPECT_EQ(call->n, 24);
  EXPECT_EQ(call->lda, 64);  // B's
  EXPECT_EQ(call->ldd, 40);
  EXPECT_TRUE(call->transpose_a);  // B is K-major
  EXPECT_FALSE(call->transpose_b);
  const std::optional<CublasLtCall> untransposed = FusedCall(Arithmetic::kBf16, Bf16(false));
  EXPECT_FALSE(untransposed->transpose_a);
  EXPECT_EQ(untransposed->lda, 40);
}

TEST(CublasLtCall, ColumnMajorResultsDoNot) {
  Problem problem = Bf16();
  problem.d.order = Order::kColumnMajor;
  problem.d.leading_dimension = 24;
  const std::optional<CublasLtCall> call = FusedCall(Arithmetic::kBf16, problem);
  ASSERT_TRUE(call.has_value());
  EXPECT_FALSE(call->swaps_operands);
  EXPECT_EQ(call->m, 24);
  EXPECT_EQ(call->lda, 64);        // A's
  EXPECT_TRUE(call->transpose_a);  // A is K-major
  EXPECT_FALSE(call->transpose_b);
  EXPECT_EQ(call->ldd, 24);
}

TEST(CublasLtCall, FusesWhatTheLibraryHas) {
  Problem problem = Bf16();
  problem.epilogue.has_bias = true;
  problem.epilogue.activation = Activation::kGeluTanh;
  problem.epilogue.beta = 0.5;
  const std::optional<CublasLtCall> call = FusedCall(Arithmetic::kBf16, problem);
  ASSERT_TRUE(call.has_value());
  EXPECT_EQ(call->epilogue, FusedEpilogue::kGeluBias);
  EXPECT_TRUE(call->has_c);
  EXPECT_FALSE(call->is_product_only);
}

// Each change of a fusible problem that the library has no epilogue for.
TEST(CublasLtCall, LeavesTheRestToAnEpilogueOfOurs) {
  const auto is_fused = [](Arithmetic arithmetic, Problem problem, auto change) {
    change(&problem);
    EXPECT_EQ(MatmulRejection(arithmetic, problem), "");
    const std::optional<CublasLtCall> product = ProductCall(arithmetic, problem);
    EXPECT_TRUE(product.has_value() && product->is_product_only);
    EXPECT_EQ(product->epilogue, FusedEpilogue::kNone);
    EXPECT_EQ(product->a_scaling, Scaling::kNone);
    return FusedCall(arithmetic, problem).has_value();
  };
  EXPECT_TRUE(is_fused(Arithmetic::kBf16, Bf16(), [](Problem*) {}));
  EXPECT_FALSE(is_fused(Arithmetic::kBf16, Bf16(),
                        [](Problem* p) { p->epilogue.activation = Activation::kSilu; }));
  EXPECT_FALSE(is_fused(Arithmetic::kBf16, Bf16(), [](Problem* p) {
    p->epilogue.has_bias = true;
    p->d.order = Order::kColumnMajor;
    p->d.leading_dimension = 24;
  }));
  EXPECT_FALSE(is_fused(Arithmetic::kBf16, Bf16(), [](Problem* p) {
    p->epilogue.beta = 1;
    p->c.order = Order::kColumnMajor;
    p->c.leading_dimension = 24;
  }));
  EXPECT_FALSE(is_fused(Arithmetic::kBf16, Bf16(), [](Problem* p) { p->d.type = DataType::kF16; }));
  EXPECT_FALSE(is_fused(Arithmetic::kF64, MakeProblem(8, 8, 8, DataType::kF64, DataType::kF64),
                        [](Problem* p) { p->epilogue.has_bias = true; }));
  const auto f16_sum = [](double alpha) {
    return [alpha](Problem* p) {
      p->accumulate = DataType::kF16;
      p->epilogue.alpha = alpha;
    };
  };
  const Problem f16 = MakeProblem(8, 8, 8, DataType::kF16, DataType::kF16);
  EXPECT_TRUE(is_fused(Arithmetic::kF16, f16, f16_sum(0.5)));
  EXPECT_FALSE(is_fused(Arithmetic::kF16, f16, f16_sum(0.1)));  // alpha would be rounded
  const auto scaled = [](Scaling a, Scaling b) {
    return [a, b](Problem* p) {
      p->a_scaling = a;
      p->b_scaling = b;
    };
  };
  EXPECT_TRUE(is_fused(Arithmetic::kFp8Promoted, Fp8(), scaled(Scaling::kTensor, Scaling::kNone)));
  EXPECT_TRUE(
      is_fused(Arithmetic::kFp8Promoted, Fp8(), scaled(Scaling::kVector, Scaling::kVector)));
  EXPECT_FALSE(
      is_fused(Arithmetic::kFp8Promoted, Fp8(), scaled(Scaling::kVector, Scaling::kTensor)));
  Problem int8 = MakeProblem(16, 16, 16, DataType::kInt8, DataType::kBf16, false, true);
  EXPECT_FALSE(is_fused(Arithmetic::kInt8, int8, scaled(Scaling::kTensor, Scaling::kTensor)));
}

TEST(CublasLtCall, ScalesFollowTheirOperands) {
  Problem problem = Fp8();
  problem.a_scaling = Scaling::kTensor;
  const std::optional<CublasLtCall> call = FusedCall(Arithmetic::kFp8Promoted, problem);
  ASSERT_TRUE(call.has_value());
  EXPECT_EQ(call->a_scaling, Scaling::kNone);  // B's
  EXPECT_EQ(call->b_scaling, Scaling::kTensor);
}

TEST(CublasLtCall, ProductsLieInPaddedLines) {
  Problem problem = MakeProblem(5, 48, 64, DataType::kInt8, DataType::kBf16, false, true);
  problem.n = problem.b.rows = problem.d.columns = 48;
  const std::optional<CublasLtCall> call = ProductCall(Arithmetic::kInt8, problem);
  ASSERT_TRUE(call.has_value());
  EXPECT_EQ(call->d_type, DataType::kInt32);
  EXPECT_EQ(call->ldd, 48);
  EXPECT_EQ(ProductBytes(*call), 1024u);  // 5 * 48 * 4 = 960, to a multiple of 256
}

TEST(MatmulRejection, NamesTheValue) {
  const auto reject = [](Arithmetic arithmetic, Problem problem, auto change) {
    change(&problem);
    return MatmulRejection(arithmetic, problem);
  };
  const auto nothing = [](Problem*) {};
  EXPECT_EQ(reject(Arithmetic::kBf16, Bf16(), nothing), "");
  EXPECT_EQ(reject(Arithmetic::kF16, Bf16(), nothing), "takes f16 operands");
  EXPECT_EQ(reject(Arithmetic::kBf16, Bf16(), [](Problem* p) { p->accumulate = DataType::kF16; }),
            "does not accumulate in f16");
  EXPECT_EQ(reject(Arithmetic::kBf16, Bf16(), [](Problem* p) { p->d.type = DataType::kF64; }),
            "does not write f64");
  EXPECT_EQ(reject(Arithmetic::kBf16, Bf16(), [](Problem* p) { p->a_scaling = Scaling::kTensor; }),
            "takes no scales");
  EXPECT_EQ(reject(Arithmetic::kBf16, Bf16(), [](Problem* p) { p->a.leading_dimension = 68; }),
            "takes a leading dimension of A that is a multiple of 8, not 68");
  EXPECT_EQ(reject(Arithmetic::kBf16, Bf16(),
                   [](Problem* p) {
                     p->epilogue.beta = 1;
                     p->c.leading_dimension = 41;
                   }),
            "takes a leading dimension of C that is a multiple of 8, not 41");
  EXPECT_EQ(reject(Arithmetic::kFp8Promoted, Fp8(), nothing), "");
  EXPECT_EQ(reject(Arithmetic::kFp8Promoted, Fp8(),
                   [](Problem* p) {
                     p->a.type = DataType::kFp8E5M2;
                     p->b.type = DataType::kFp8E5M2;
                   }),
            "takes fp8_e5m2 in one operand, not in both");
  EXPECT_EQ(reject(Arithmetic::kFp8Promoted, Fp8(), [](Problem* p) { p->transpose_b = false; }),
            "takes a K-major B: each column of op(B) contiguous");
  EXPECT_EQ(reject(Arithmetic::kFp8Fast, Fp8(), [](Problem* p) { p->k = 40; }),
            "K is 40; 8-bit operands need a multiple of 16");
  EXPECT_EQ(reject(Arithmetic::kFp8Fast, Fp8(), [](Problem* p) { p->n = 40; }),
            "N, which runs fastest in D, is 40; 8-bit operands need a multiple of 16");
  const Problem int8 = MakeProblem(16, 16, 16, DataType::kInt8, DataType::kInt32, false, true);
  EXPECT_EQ(reject(Arithmetic::kInt8, int8, nothing), "");
  EXPECT_EQ(reject(Arithmetic::kInt8, int8, [](Problem* p) { p->b_scaling = Scaling::kTensor; }),
            "int32 output is the exact product: no scales, alpha, beta, bias or activation (ask "
            "for f32)");
  EXPECT_EQ(reject(Arithmetic::kInt8, int8, [](Problem* p) { p->k = 131088; }),
            "K is 131088, and int32 holds every sum only up to 131071 and padding");
  EXPECT_EQ(reject(Arithmetic::kInt8, int8, [](Problem* p) { p->k = 131072; }), "")
      << "what 131071 is padded to";
  EXPECT_EQ(reject(Arithmetic::kBf16, Bf16(), [](Problem* p) { p->m = std::int64_t{1} << 31; }),
            "takes dimensions up to 2147483647, not 2147483648");
}

TEST(CublasLtCall, TellsDifferentCallsApart) {
  CublasLtCall other = *FusedCall(Arithmetic::kBf16, Bf16());
  other.epilogue = FusedEpilogue::kRelu;
  const CublasLtCall call = *FusedCall(Arithmetic::kBf16, Bf16());
  EXPECT_TRUE(call == *FusedCall(Arithmetic::kBf16, Bf16()));
  EXPECT_FALSE(call == other);
  EXPECT_NE(absl::Hash<CublasLtCall>()(call), absl::Hash<CublasLtCall>()(other));
}

// Each fault alone in an otherwise fine product of 1x128 by 128x128 blocks.
TEST(CublasLtCall, BlocksAreOf128InOrdersThatTheLibraryReads) {
  const auto fine = [] {
    Problem problem = MakeProblem(16, 32, 512, DataType::kFp8E4M3, DataType::kBf16, false, true);
    problem.a_scaling = problem.b_scaling = Scaling::kVector;
    problem.a_scaling.block_k = problem.b_scaling.block_k = 128;
    problem.b_scaling.block_lines = 128;
    return problem;
  };
  const auto rejection = [&](auto change) {
    Problem problem = fine();
    change(&problem);
    return MatmulRejection(Arithmetic::kFp8Blocks, problem);
  };
  EXPECT_EQ(rejection([](Problem*) {}), "");
  EXPECT_EQ(rejection([](Problem* p) { p->a_scaling.block_k = 64; }),
            "takes f32 scales of 1x128 and 128x128 blocks in both operands");
  EXPECT_EQ(rejection([](Problem* p) { p->b_scaling = Scaling::kVector; }),
            "takes f32 scales of 1x128 and 128x128 blocks in both operands");
  EXPECT_EQ(rejection([](Problem* p) { p->a_scaling.block_lines = 128; }),
            "takes 128x128 blocks in one operand, not in both");
  EXPECT_EQ(rejection([](Problem* p) { p->k = p->a.columns = p->b.columns = 640; }),
            "K has 5 blocks of 128; takes a multiple of 4");
  EXPECT_EQ(rejection([](Problem* p) { p->m = p->a.rows = p->d.rows = 1; }),
            "M is 1; scales of blocks need a multiple of 4");
  EXPECT_EQ(rejection([](Problem* p) { p->a_scale_lines = 64; }),
            "takes no part of the scales of A");
  EXPECT_EQ(rejection([](Problem* p) { p->b_scaling.order = ScaleOrder::kAlongLines; }),
            "takes scales of B along N for a multiple of 4 blocks, not for 1");
  EXPECT_EQ(MatmulRejection(Arithmetic::kFp8Promoted, fine()),
            "takes scales of operands or of whole lines");
}

}  // namespace
}  // namespace gemmd::cublaslt
