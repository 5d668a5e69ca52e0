// Every form of RowGemm() that this processor has gives the bits of the chain that it promises.
#include "kernels/cpu/row_gemm.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
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

// Rows around the tiles of both widths, columns around their strips, K around what is packed at a
// time.
std::vector<Shape> Shapes() {
  std::vector<Shape> shapes;
  for (const bool transpose_b : {false, true}) {
    for (std::int64_t m = 1; m <= 15; ++m) shapes.push_back({m, 37, 19, transpose_b});
    for (const std::int64_t n : {1, 3, 4, 8, 15, 16, 17, 31, 32, 33, 64, 65}) {
      shapes.push_back({7, n, 21, transpose_b});
    }
    for (const std::int64_t k : {1, 3, 255, 256, 257, 520}) {
      shapes.push_back({14, 34, k, transpose_b});
    }
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

template <typename Real>
class RowGemmTest : public ::testing::Test {};
using Reals = ::testing::Types<float, double>;
TYPED_TEST_SUITE(RowGemmTest, Reals);

TYPED_TEST(RowGemmTest, HasTheBitsOfItsChain) {
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
        Real fused_sum = 0;
        volatile Real apart_sum = 0;  // so that the compiler fuses nothing
        for (std::int64_t p = 0; p < k; ++p) {
          const Real x = a[i * lda + p];
          const Real y = transpose_b ? b[j * ldb + p] : b[p * ldb + j];
          fused_sum = std::fma(x, y, fused_sum);
          volatile Real product = x * y;
          apart_sum = apart_sum + product;
        }
        fused[i * ldc + j] = fused_sum;
        apart[i * ldc + j] = apart_sum;
      }
    }
    for (const RowGemmForm form : kForms) {
      if (!HasRowGemmForm(form)) continue;
      // Between its lines C stays as it is.
      std::vector<Real> c(static_cast<std::size_t>(m * ldc), Real{7});
      RowGemm(transpose_b, m, n, k, a.data(), lda, b.data(), ldb, c.data(), ldc, form);
      const std::vector<Real>& expected = form == RowGemmForm::kPlain ? apart : fused;
      EXPECT_EQ(std::memcmp(c.data(), expected.data(), c.size() * sizeof(Real)), 0)
          << "form " << static_cast<int>(form) << ", " << m << " x " << n << " x " << k
          << (transpose_b ? ", B transposed" : "");
    }
  }
}

// Many strips of B and pieces of K, each with many tiles of rows: what is packed for one serves no
// other. Forms differ in their strips, so one that is used again in the wrong place shows; and some
// elements are compared with their chain.
TYPED_TEST(RowGemmTest, FormsAgreeOnRandomShapes) {
  using Real = TypeParam;
  std::mt19937 random(2);
  const auto upto = [&random](std::uint32_t most) {
    return 1 + static_cast<std::int64_t>(random() % (1 + random() % most));
  };
  for (int i = 0; i < 40; ++i) {
    const std::int64_t m = upto(300);
    const std::int64_t n = upto(300);
    const std::int64_t k = upto(900);
    const bool transpose_b = random() % 2 == 0;
    const std::int64_t lda = k + upto(20);
    const std::int64_t ldb = (transpose_b ? k : n) + upto(20);
    const std::int64_t ldc = n + upto(20);
    const std::vector<Real> a = Random<Real>(m * lda, &random);
    const std::vector<Real> b = Random<Real>((transpose_b ? n : k) * ldb, &random);
    const auto product = [&](RowGemmForm form) {
      std::vector<Real> c(static_cast<std::size_t>(m * ldc), Real{7});
      RowGemm(transpose_b, m, n, k, a.data(), lda, b.data(), ldb, c.data(), ldc, form);
      return c;
    };
    const std::vector<Real> best = product(BestRowGemmForm());
    const std::vector<Real> plain = product(RowGemmForm::kPlain);
    for (int element = 0; element < 50; ++element) {
      const std::int64_t row = upto(static_cast<std::uint32_t>(m)) - 1;
      const std::int64_t column = upto(static_cast<std::uint32_t>(n)) - 1;
      Real fused = 0;
      volatile Real apart = 0;
      for (std::int64_t p = 0; p < k; ++p) {
        const Real x = a[row * lda + p];
        const Real y = transpose_b ? b[column * ldb + p] : b[p * ldb + column];
        fused = std::fma(x, y, fused);
        volatile Real product = x * y;
        apart = apart + product;
      }
      ASSERT_EQ(best[row * ldc + column], BestRowGemmForm() == RowGemmForm::kPlain ? apart : fused);
      ASSERT_EQ(plain[row * ldc + column], apart);
    }
    if (HasRowGemmForm(RowGemmForm::kAvx2)) {
      ASSERT_EQ(best, product(RowGemmForm::kAvx2))
          << m << " x " << n << " x " << k << (transpose_b ? ", B transposed" : "");
    }
  }
}

TEST(RowGemmForm, TheBestIsOneThatIsThere) {
  EXPECT_TRUE(HasRowGemmForm(RowGemmForm::kPlain));
  EXPECT_TRUE(HasRowGemmForm(BestRowGemmForm()));
  EXPECT_EQ(RowGemmArithmetic() == std::string("fma"), BestRowGemmForm() != RowGemmForm::kPlain);
}

}  // namespace
}  // namespace gemmd
