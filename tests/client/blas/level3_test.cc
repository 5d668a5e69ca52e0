// Routines by halves give what their definitions say, in every variant. Elements are small integers
// and diagonals ones, so that every sum is exact and results are compared for equality.
#include "client/blas/level3.h"

#include <complex>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/client/blas/plain.h"

namespace gemmd::blas {
namespace {

constexpr std::int64_t kSides[] = {1, 2, 3, 5, 8, 13};
constexpr std::int64_t kPadding = 3;

template <typename T>
T Number(double real, double imaginary) {
  if constexpr (kIsComplex<T>) {
    return {static_cast<Real<T>>(real), static_cast<Real<T>>(imaginary)};
  } else {
    return static_cast<T>(real);
  }
}

// Computes parts plainly, and counts them.
template <typename T>
class Counting {
 public:
  explicit Counting(int depth) : depth_(depth) {}

  bool Splits(std::int64_t m, std::int64_t n, std::int64_t k, int depth) {
    EXPECT_TRUE(m > 0 && n > 0 && k > 0);
    return depth < depth_;
  }
  void Multiply(const Gemm<T>& gemm) {
    EXPECT_TRUE(IsProduct(gemm));
    ++products;
    Plainly(gemm);
  }
  template <typename Routine>
  void Whole(const Routine& routine) {
    ++wholes;
    Plainly(routine);
  }
  void WholeProduct(const Triangular<T>& whole) {
    ++wholes;
    MultiplyPlainly(whole);
  }
  void WholeSolution(const Triangular<T>& whole) {
    ++wholes;
    SolvePlainly(whole);
  }

  int products = 0;
  int wholes = 0;

 private:
  const int depth_;
};

template <typename T>
class Level3Test : public ::testing::Test {
 protected:
  // A matrix with padding, whose elements are -3 to 3.
  std::vector<T> Matrix(std::int64_t ld, std::int64_t columns) {
    std::uniform_int_distribution<int> digit(-3, 3);
    std::vector<T> matrix;
    for (std::int64_t i = 0; i < ld * columns; ++i) {
      matrix.push_back(Number<T>(digit(random_), digit(random_)));
    }
    return matrix;
  }

  // One whose diagonal is ones and whose other elements are few, so that solutions stay small.
  std::vector<T> Solvable(std::int64_t side, std::int64_t ld) {
    std::uniform_int_distribution<int> digit(-1, 1);
    std::vector<T> matrix = Matrix(ld, side);
    for (std::int64_t j = 0; j < side; ++j) {
      for (std::int64_t i = 0; i < side; ++i) {
        T& element = matrix[static_cast<std::size_t>(i + j * ld)];
        element = i == j ? T(1) : Number<T>(digit(random_), digit(random_));
      }
    }
    return matrix;
  }

  std::mt19937 random_{7};
};

using Types = ::testing::Types<double, std::complex<double>>;
TYPED_TEST_SUITE(Level3Test, Types);

TYPED_TEST(Level3Test, RankUpdates) {
  using T = TypeParam;
  for (const std::int64_t n : kSides) {
    for (const std::int64_t k : {1, 4}) {
      for (const bool is_hermitian : {false, true}) {
        for (const Op op : {Op::kNone, Transposed(is_hermitian)}) {
          for (const Triangle triangle : {Triangle::kUpper, Triangle::kLower}) {
            for (const double beta : {0.0, 1.0, 2.0}) {
              const std::int64_t rows = op == Op::kNone ? n : k;
              const std::int64_t columns = op == Op::kNone ? k : n;
              const std::int64_t lda = rows + kPadding;
              const std::int64_t ldc = n + kPadding;
              const std::vector<T> a = this->Matrix(lda, columns);
              const std::vector<T> b = this->Matrix(lda, columns);
              std::vector<T> by_halves = this->Matrix(ldc, n);
              std::vector<T> plain = by_halves;
              const T alpha = is_hermitian ? T(-2) : Number<T>(-2, 1);
              Rank<T> rank{is_hermitian, triangle,         op, n, k, alpha, a.data(), lda,
                           T(beta),      by_halves.data(), ldc};
              Counting<T> counting(2);
              ByHalves(rank, counting);
              rank.c = plain.data();
              Plainly(rank);
              EXPECT_EQ(plain, by_halves) << n << " " << k << " " << static_cast<char>(op);
              EXPECT_EQ(n == 1 ? 0 : n == 2 ? 1 : n == 3 ? 2 : 3, counting.products) << n;

              Rank2<T> rank2{is_hermitian,     triangle,         op,  n,        k,
                             Number<T>(-2, 1), a.data(),         lda, b.data(), lda,
                             T(beta),          by_halves.data(), ldc};
              Counting<T> counting2(2);
              ByHalves(rank2, counting2);
              rank2.c = plain.data();
              Plainly(rank2);
              EXPECT_EQ(plain, by_halves) << n << " " << k << " " << static_cast<char>(op);
              EXPECT_EQ(2 * counting.products, counting2.products) << n;
            }
          }
        }
      }
    }
  }
}

TYPED_TEST(Level3Test, SymmetricProducts) {
  using T = TypeParam;
  for (const std::int64_t m : kSides) {
    for (const std::int64_t n : kSides) {
      for (const bool is_hermitian : {false, true}) {
        for (const Side side : {Side::kLeft, Side::kRight}) {
          for (const Triangle triangle : {Triangle::kUpper, Triangle::kLower}) {
            const std::int64_t order = side == Side::kLeft ? m : n;
            const std::int64_t lda = order + kPadding;
            const std::int64_t ld = m + kPadding;
            std::vector<T> a = this->Matrix(lda, order);
            // A Hermitian diagonal is real.
            for (std::int64_t i = 0; i < order; ++i)
              a[static_cast<std::size_t>(i * (lda + 1))] = T(2);
            const std::vector<T> b = this->Matrix(ld, n);
            std::vector<T> by_halves = this->Matrix(ld, n);
            std::vector<T> plain = by_halves;
            Symmetric<T> symmetric{is_hermitian,
                                   side,
                                   triangle,
                                   m,
                                   n,
                                   Number<T>(3, -1),
                                   a.data(),
                                   lda,
                                   b.data(),
                                   ld,
                                   T(2),
                                   by_halves.data(),
                                   ld};
            Counting<T> counting(2);
            ByHalves(symmetric, counting);
            symmetric.c = plain.data();
            Plainly(symmetric);
            EXPECT_EQ(plain, by_halves) << m << "x" << n;
            EXPECT_EQ(order == 1, counting.products == 0);
          }
        }
      }
    }
  }
}

TYPED_TEST(Level3Test, TriangularProductsAndSolutions) {
  using T = TypeParam;
  for (const std::int64_t m : kSides) {
    for (const std::int64_t n : kSides) {
      for (const Op op : {Op::kNone, Op::kTranspose, Op::kConjugate}) {
        for (const Side side : {Side::kLeft, Side::kRight}) {
          for (const Triangle triangle : {Triangle::kUpper, Triangle::kLower}) {
            for (const char diagonal : {'N', 'U'}) {
              const std::int64_t order = side == Side::kLeft ? m : n;
              const std::int64_t lda = order + kPadding;
              const std::int64_t ldb = m + kPadding;
              const std::vector<T> a = this->Solvable(order, lda);
              const std::vector<T> b = this->Matrix(ldb, n);
              std::vector<T> by_halves = b;
              std::vector<T> plain = b;
              Triangular<T> whole{side, triangle,        op,       diagonal, m,
                                  n,    Number<T>(2, 1), a.data(), lda,      by_halves.data(),
                                  ldb};
              Counting<T> products(3);
              MultiplyByHalves(whole, products);
              whole.b = plain.data();
              MultiplyPlainly(whole);
              EXPECT_EQ(plain, by_halves) << m << "x" << n << " " << static_cast<char>(op);
              EXPECT_EQ(products.products + 1, products.wholes);

              by_halves = plain = b;
              Counting<T> solutions(3);
              whole.b = by_halves.data();
              SolveByHalves(whole, solutions);
              whole.b = plain.data();
              SolvePlainly(whole);
              EXPECT_EQ(plain, by_halves) << m << "x" << n << " " << static_cast<char>(op);
              EXPECT_EQ(products.products, solutions.products);
            }
          }
        }
      }
    }
  }
}

// A routine that is not halved is computed whole: no product stands alone.
TYPED_TEST(Level3Test, WhatDoesNotSplitIsWhole) {
  using T = TypeParam;
  const std::vector<T> a = this->Matrix(8, 8);
  std::vector<T> c = this->Matrix(8, 8);
  Counting<T> counting(0);
  ByHalves(Rank<T>{false, Triangle::kLower, Op::kNone, 8, 8, T(1), a.data(), 8, T(0), c.data(), 8},
           counting);
  EXPECT_EQ(0, counting.products);
  EXPECT_EQ(1, counting.wholes);
}

}  // namespace
}  // namespace gemmd::blas
