// Every form of RowGemm() that this processor has gives the bits of the chains that it promises.
#include "kernels/cpu/row_gemm.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

constexpr RowGemmForm kForms[] = {RowGemmForm::kPlain, RowGemmForm::kAvx2, RowGemmForm::kAvx512};

struct Shape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_b = false;
};

// Rows around the tiles of both widths, and what is few; columns around strips and their groups; K
// around one chain, a step of all chains, and a span.
std::vector<Shape> Shapes() {
  std::vector<Shape> shapes;
  for (const bool transpose_b : {false, true}) {
    for (std::int64_t m = 1; m <= 17; ++m) {
      shapes.push_back({m, 37, 19, transpose_b});
      shapes.push_back({m, 37, 275, transpose_b});
    }
    for (const std::int64_t n : {1, 3, 4, 8, 15, 16, 17, 31, 32, 33, 64, 65, 129}) {
      for (const std::int64_t m : {2, 14}) {
        shapes.push_back({m, n, 21, transpose_b});
        shapes.push_back({m, n, 290, transpose_b});
      }
    }
    for (const std::int64_t k : {1, 3, 255, 256, 257, 272, 520, 1023, 1024, 1025, 1300, 2048}) {
      for (const std::int64_t m : {3, 14}) shapes.push_back({m, 34, k, transpose_b});
    }
    shapes.push_back({2, 520, 300, transpose_b});
    shapes.push_back({64, 66, 260, transpose_b});
  }
  return shapes;
}

template <typename Real>
std::vector<Real> Random(std::int64_t count, std::mt19937* random) {
  std::normal_distribution<Real> normal;
  std::vector<Real> values(static_cast<std::size_t>(count));
  for (Real& value : values) value = normal(*random);
  return values;
}

// Element (i, j) of A * op(B), as row_gemm.h says: by FMAs, and by products and sums.
template <typename Real>
struct Sums {
  Real fused;
  Real apart;
};
template <typename Real>
Sums<Real> SumOfChains(const Shape& shape, const Real* a, const Real* b, std::int64_t ldb) {
  const std::int64_t chains = std::is_same_v<Real, float> && shape.k > 256 ? 16 : 1;
  // A single chain goes on through all spans.
  const std::int64_t span_k = chains == 1 ? shape.k : 1024;
  Sums<Real> sums = {0, 0};
  for (std::int64_t span = 0; span < shape.k; span += span_k) {
    const std::int64_t end = std::min(shape.k, span + span_k);
    for (std::int64_t chain = 0; chain < chains; ++chain) {
      Real fused = 0;
      volatile Real apart = 0;  // so that the compiler fuses nothing
      for (std::int64_t p = span + chain; p < end; p += chains) {
        const Real y = shape.transpose_b ? b[p] : b[p * ldb];
        fused = std::fma(a[p], y, fused);
        volatile Real product = a[p] * y;
        apart = apart + product;
      }
      if (chains == 1) return {fused, apart};
      sums = {sums.fused + fused, sums.apart + apart};
    }
  }
  return sums;
}

// Brings what lies in memory, as a decoder would.
template <typename Real>
class Copying final : public ColumnSource<Real> {
 public:
  explicit Copying(const Columns<Real>& columns) : columns_(columns) {}
  void Read(std::int64_t column, std::int64_t columns, std::int64_t k, std::int64_t depth,
            Real* out, std::int64_t pitch) const override {
    const bool along_k = columns_.has_lines_of_k;
    for (std::int64_t line = 0; line < (along_k ? columns : depth); ++line) {
      const Real* const from =
          columns_.data + (along_k ? column + line : k + line) * columns_.pitch;
      std::copy_n(from + (along_k ? k : column), along_k ? depth : columns, out + line * pitch);
    }
  }

 private:
  const Columns<Real> columns_;
};

template <typename Real>
class RowGemmTest : public ::testing::Test {};
using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(RowGemmTest, Reals);

TYPED_TEST(RowGemmTest, HasTheBitsOfItsChains) {
  using Real = TypeParam;
  std::mt19937 random(1);
  constexpr std::int64_t kPad = 3;
  for (const Shape& shape : Shapes()) {
    const auto& [m, n, k, transpose_b] = shape;
    const std::int64_t lda = k + kPad;
    const std::int64_t ldb = (transpose_b ? k : n) + kPad;
    const std::int64_t ldc = n + kPad;
    const std::vector<Real> a = Random<Real>(m * lda, &random);
    const std::vector<Real> b = Random<Real>((transpose_b ? n : k) * ldb, &random);
    std::vector<Real> fused(static_cast<std::size_t>(m * ldc), Real{7});
    std::vector<Real> apart = fused;
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        const Sums<Real> sums =
            SumOfChains(shape, &a[i * lda], &b[j * (transpose_b ? ldb : 1)], ldb);
        fused[i * ldc + j] = sums.fused;
        apart[i * ldc + j] = sums.apart;
      }
    }
    const Columns<Real> in_place = {transpose_b, b.data(), ldb};
    const Copying<Real> copying(in_place);
    for (const RowGemmForm form : kForms) {
      if (!HasRowGemmForm(form)) continue;
      for (const bool is_in_place : {true, false}) {
        const Columns<Real> columns =
            is_in_place ? in_place : Columns<Real>{transpose_b, nullptr, 0, &copying};
        // Between its lines C stays as it is.
        std::vector<Real> c(static_cast<std::size_t>(m * ldc), Real{7});
        RowGemm(columns, m, n, k, a.data(), lda, c.data(), ldc, form);
        const std::vector<Real>& expected = form == RowGemmForm::kPlain ? apart : fused;
        EXPECT_EQ(std::memcmp(c.data(), expected.data(), c.size() * sizeof(Real)), 0)
            << "form " << static_cast<int>(form) << ", " << m << " x " << n << " x " << k
            << (transpose_b ? ", B transposed" : "") << (is_in_place ? "" : ", B read");
      }
    }
  }
}

// Many strips of B and spans of K, each with many tiles of rows: what is packed for one serves no
// other. Forms differ in their strips, so one that is used again in the wrong place shows; and some
// elements are compared with their chains, and a row with itself alone.
TYPED_TEST(RowGemmTest, FormsAgreeOnRandomShapes) {
  using Real = TypeParam;
  std::mt19937 random(2);
  const auto upto = [&random](std::uint32_t most) {
    return 1 + static_cast<std::int64_t>(random() % (1 + random() % most));
  };
  for (int i = 0; i < 40; ++i) {
    const std::int64_t m = upto(300);
    const std::int64_t n = upto(300);
    const std::int64_t k = upto(2500);
    const bool transpose_b = random() % 2 == 0;
    const std::int64_t lda = k + upto(20);
    const std::int64_t ldb = (transpose_b ? k : n) + upto(20);
    const std::int64_t ldc = n + upto(20);
    const std::vector<Real> a = Random<Real>(m * lda, &random);
    const std::vector<Real> b = Random<Real>((transpose_b ? n : k) * ldb, &random);
    const Columns<Real> columns = {transpose_b, b.data(), ldb};
    const auto product = [&](RowGemmForm form) {
      std::vector<Real> c(static_cast<std::size_t>(m * ldc), Real{7});
      RowGemm(columns, m, n, k, a.data(), lda, c.data(), ldc, form);
      return c;
    };
    const std::vector<Real> best = product(BestRowGemmForm());
    const std::vector<Real> plain = product(RowGemmForm::kPlain);
    for (int element = 0; element < 20; ++element) {
      const std::int64_t row = upto(static_cast<std::uint32_t>(m)) - 1;
      const std::int64_t column = upto(static_cast<std::uint32_t>(n)) - 1;
      const Sums<Real> sums = SumOfChains({m, n, k, transpose_b}, &a[row * lda],
                                          &b[column * (transpose_b ? ldb : 1)], ldb);
      ASSERT_EQ(best[row * ldc + column],
                BestRowGemmForm() == RowGemmForm::kPlain ? sums.apart : sums.fused);
      ASSERT_EQ(plain[row * ldc + column], sums.apart);
      std::vector<Real> alone(static_cast<std::size_t>(n));
      RowGemm(columns, 1, n, k, &a[row * lda], lda, alone.data(), n);
      ASSERT_EQ(std::memcmp(alone.data(), &best[row * ldc], alone.size() * sizeof(Real)), 0);
    }
    if (HasRowGemmForm(RowGemmForm::kAvx2)) {
      ASSERT_EQ(best, product(RowGemmForm::kAvx2))
          << m << " x " << n << " x " << k << (transpose_b ? ", B transposed" : "");
    }
  }
}

// A chain of products that vanish is -0 where they were negative; several are added to 0.
TYPED_TEST(RowGemmTest, HasTheSignOfZeroOfItsChains) {
  using Real = TypeParam;
  constexpr Real kTiny = std::numeric_limits<Real>::min();
  for (const std::int64_t k : {3, 300}) {
    const bool is_one_chain = k == 3 || !std::is_same_v<Real, float>;
    for (const std::int64_t m : {1, 12}) {
      const std::vector<Real> a(static_cast<std::size_t>(m * k), -kTiny);
      const std::vector<Real> b(static_cast<std::size_t>(k), kTiny);
      std::vector<Real> c(static_cast<std::size_t>(m));
      RowGemm<Real>({true, b.data(), k}, m, 1, k, a.data(), k, c.data(), 1);
      for (const Real element : c) {
        EXPECT_EQ(element, 0);
        EXPECT_EQ(std::signbit(element), is_one_chain && BestRowGemmForm() != RowGemmForm::kPlain);
      }
    }
  }
}

// A term goes through its chain, and through the sums from that chain on.
TYPED_TEST(RowGemmTest, StatesTheRoundingsOfATerm) {
  using Real = TypeParam;
  EXPECT_EQ(RowGemmRoundings<Real>(256), 256);
  const bool has_chains = std::is_same_v<Real, float>;
  EXPECT_EQ(RowGemmRoundings<Real>(1024), has_chains ? 64 + 16 : 1024);
  EXPECT_EQ(RowGemmRoundings<Real>(4096), has_chains ? 64 + 4 * 16 : 4096);
}

TEST(RowGemmError, IsSmallerThanOfOneChain) {
  constexpr std::int64_t kK = 4096;
  constexpr std::int64_t kN = 64;
  std::mt19937 random(3);
  const std::vector<float> a = Random<float>(kK, &random);
  const std::vector<float> b = Random<float>(kK * kN, &random);
  std::vector<float> c(kN);
  RowGemm<float>({true, b.data(), kK}, 1, kN, kK, a.data(), kK, c.data(), kN);
  double of_chains = 0;
  double of_one = 0;
  for (std::int64_t j = 0; j < kN; ++j) {
    double exact = 0;
    float one = 0;
    for (std::int64_t p = 0; p < kK; ++p) {
      exact += static_cast<double>(a[p]) * static_cast<double>(b[j * kK + p]);
      one = std::fma(a[p], b[j * kK + p], one);
    }
    of_chains += std::pow(static_cast<double>(c[j]) - exact, 2);
    of_one += std::pow(static_cast<double>(one) - exact, 2);
  }
  EXPECT_LT(std::sqrt(of_chains), 0.5 * std::sqrt(of_one));
}

TEST(RowGemmForm, TheBestIsOneThatIsThere) {
  EXPECT_TRUE(HasRowGemmForm(RowGemmForm::kPlain));
  EXPECT_TRUE(HasRowGemmForm(BestRowGemmForm()));
  const bool is_fused = BestRowGemmForm() != RowGemmForm::kPlain;
  EXPECT_EQ(RowGemmArithmetic<float>(256), std::string(is_fused ? "fma" : "multiply-add"));
  EXPECT_EQ(RowGemmArithmetic<float>(257), std::string(is_fused ? "fma16" : "multiply-add16"));
  EXPECT_EQ(RowGemmArithmetic<double>(257), std::string(is_fused ? "fma" : "multiply-add"));
}

}  // namespace
}  // namespace gemmd
