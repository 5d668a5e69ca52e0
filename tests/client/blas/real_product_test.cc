// A product as the server gets it, merged into C, is the product of BLAS.
#include "client/blas/real_product.h"

#include <complex>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tests/client/blas/plain.h"

namespace gemmd::blas {
namespace {

// The server's side: D = op(A) op(B), rows contiguous.
template <typename R>
std::vector<R> Served(const RealProduct& product) {
  EXPECT_EQ(sizeof(R) == 8, product.is_double);
  const auto* const a = static_cast<const R*>(product.a);
  const auto* const b = static_cast<const R*>(product.b);
  std::vector<R> d;
  for (std::int64_t m = 0; m < product.m; ++m) {
    for (std::int64_t n = 0; n < product.n; ++n) {
      R sum(0);
      for (std::int64_t k = 0; k < product.k; ++k) {
        sum += (product.transpose_a ? a[k * product.a_stride + m] : a[m * product.a_stride + k]) *
               (product.transpose_b ? b[n * product.b_stride + k] : b[k * product.b_stride + n]);
      }
      d.push_back(sum);
    }
  }
  return d;
}

TEST(RealProductTest, ABatchHasTheStridesOfItsOperandsAndIsMergedOneByOne) {
  std::vector<float> c(10, 1);
  GemmBatch<float> batch;
  batch.first.m = 2;
  batch.first.n = batch.first.k = 1;
  batch.first.beta = 3;
  batch.first.c = c.data();
  batch.first.lda = batch.first.ldc = 2;
  batch.first.ldb = 1;
  batch.count = 3;
  batch.a_stride = 7;
  batch.c_stride = 4;
  EXPECT_TRUE(IsProduct(batch));
  const RealProduct product = Described(batch);
  EXPECT_EQ(3, product.count);
  EXPECT_EQ(0, product.a_batch_stride);  // the transposed product's A is B
  EXPECT_EQ(7, product.b_batch_stride);
  const std::vector<float> d = {10, 20, 30, 40, 50, 60};
  Merge(d.data(), batch);
  EXPECT_EQ((std::vector<float>{13, 23, 1, 1, 33, 43, 1, 1, 53, 63}), c);
}

TEST(RealProductTest, ResultsThatOverlapAndStridesThatGoBackAreForThisMachine) {
  GemmBatch<float> batch;
  batch.first.m = batch.first.n = batch.first.k = 2;
  batch.first.lda = batch.first.ldb = batch.first.ldc = 2;
  batch.count = 2;
  batch.c_stride = 4;
  EXPECT_TRUE(IsProduct(batch));
  batch.c_stride = 3;
  EXPECT_FALSE(IsProduct(batch));
  batch.c_stride = 4;
  batch.a_stride = -4;
  EXPECT_FALSE(IsProduct(batch));
  batch.a_stride = 0;
  batch.count = 0;
  EXPECT_FALSE(IsProduct(batch));
}

template <typename T>
class RealProductTypesTest : public ::testing::Test {};

using Types = ::testing::Types<float, double, std::complex<float>, std::complex<double>>;
TYPED_TEST_SUITE(RealProductTypesTest, Types);

template <typename T>
T Digit(std::int64_t i) {
  if constexpr (kIsComplex<T>) {
    return {static_cast<Real<T>>(i % 5 - 2), static_cast<Real<T>>(i * 7 % 3 - 1)};
  } else {
    return static_cast<T>(i % 5 - 2);
  }
}

template <typename T>
std::vector<T> Digits(std::int64_t count) {
  std::vector<T> digits;
  for (std::int64_t i = 0; i < count; ++i) digits.push_back(Digit<T>(i));
  return digits;
}

template <typename T>
void GoThere(const Gemm<T>& gemm) {
  const Prepared prepared = Prepare(gemm);
  ASSERT_FALSE(prepared.is_short_of_memory);
  const std::vector<Real<T>> d = Served<Real<T>>(prepared.product);
  Merge(reinterpret_cast<const T*>(d.data()), gemm);
}

TYPED_TEST(RealProductTypesTest, EveryPairOfOperations) {
  using T = TypeParam;
  constexpr std::int64_t kM = 5;
  constexpr std::int64_t kN = 3;
  constexpr std::int64_t kK = 4;
  constexpr std::int64_t kLd = 8;  // padding, which keeps what it has
  const std::vector<T> a = Digits<T>(kLd * kLd);
  const std::vector<T> b = Digits<T>(kLd * kLd);
  for (const Op op_a : {Op::kNone, Op::kTranspose, Op::kConjugate}) {
    for (const Op op_b : {Op::kNone, Op::kTranspose, Op::kConjugate}) {
      for (const T alpha : {T(1), Digit<T>(3), Digit<T>(6)}) {
        for (const T beta : {T(0), T(1), Digit<T>(9)}) {
          std::vector<T> there = Digits<T>(kLd * kN);
          std::vector<T> plain = there;
          Gemm<T> gemm{op_a, op_b,     kM,  kN,   kK,           alpha, a.data(),
                       kLd,  b.data(), kLd, beta, there.data(), kLd};
          GoThere(gemm);
          gemm.c = plain.data();
          Plainly(gemm);
          EXPECT_EQ(plain, there) << static_cast<char>(op_a) << static_cast<char>(op_b);
        }
      }
    }
  }
}

TYPED_TEST(RealProductTypesTest, BetaZeroReadsNothingOfC) {
  using T = TypeParam;
  const std::vector<T> ones(4, T(1));
  std::vector<T> c(4, T(std::numeric_limits<Real<T>>::quiet_NaN()));
  GoThere(Gemm<T>{Op::kNone, Op::kNone, 2, 2, 2, T(3), ones.data(), 2, ones.data(), 2, T(0),
                  c.data(), 2});
  EXPECT_EQ(std::vector<T>(4, T(6)), c);
}

// An infinite part of a complex number times 1 + 0i is no NaN.
TEST(MergeTest, FactorsOfOneMultiplyNothing) {
  using T = std::complex<double>;
  const double infinity = std::numeric_limits<double>::infinity();
  const T d(1, infinity);
  T c(2, 3);
  Gemm<T> gemm;
  gemm.m = gemm.n = gemm.ldc = 1;
  gemm.alpha = gemm.beta = T(1);
  gemm.c = &c;
  Merge(&d, gemm);
  EXPECT_EQ(T(3, infinity), c);
  gemm.beta = T(0);
  Merge(&d, gemm);
  EXPECT_EQ(d, c);
}

TEST(IsProductTest, OthersAreThisMachinesToAnswer) {
  const double x = 1;
  double c = 0;
  const Gemm<double> good{Op::kNone, Op::kTranspose, 2, 3, 4, 1, &x, 2, &x, 3, 0, &c, 2};
  EXPECT_TRUE(IsProduct(good));
  const auto with = [&good](auto change) {
    Gemm<double> gemm = good;
    change(gemm);
    return IsProduct(gemm);
  };
  EXPECT_FALSE(with([](Gemm<double>& gemm) { gemm.m = 0; }));
  EXPECT_FALSE(with([](Gemm<double>& gemm) { gemm.n = -1; }));
  EXPECT_FALSE(with([](Gemm<double>& gemm) { gemm.k = 0; }));
  EXPECT_FALSE(with([](Gemm<double>& gemm) { gemm.alpha = 0; }));
  EXPECT_FALSE(with([](Gemm<double>& gemm) { gemm.lda = 1; }));
  EXPECT_FALSE(with([](Gemm<double>& gemm) { gemm.ldb = 2; }));
  EXPECT_FALSE(with([](Gemm<double>& gemm) { gemm.ldc = 1; }));
  // A transposed A has K rows.
  EXPECT_FALSE(with([](Gemm<double>& gemm) { gemm.op_a = Op::kTranspose; }));
}

}  // namespace
}  // namespace gemmd::blas
