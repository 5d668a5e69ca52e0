// int8 by VNNI: exact sums, and the bits of cpu/panel_int8.
#include "kernels/cpu/int8_rows.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "kernels/cpu/panel_gemm.h"
#include "tests/testing/products/matrices.h"

namespace gemmd {
namespace {

struct FreeDeleter {
  void operator()(void* memory) const { std::free(memory); }
};

struct Shape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};

// Bytes of the whole range, and many of those whose products are largest.
std::vector<std::int8_t> RandomBytes(std::int64_t count, std::mt19937* random) {
  std::vector<std::int8_t> bytes(static_cast<std::size_t>(count));
  for (std::int8_t& byte : bytes) {
    byte = (*random)() % 4 == 0 ? std::int8_t{-128} : static_cast<std::int8_t>((*random)());
  }
  return bytes;
}

void CheckProduct(const Shape& shape, bool b_is_k_major, std::mt19937* random) {
  const auto [m, n, k] = shape;
  const std::vector<std::int8_t> a = RandomBytes(m * k, random);
  const std::vector<std::int8_t> b = RandomBytes(n * k, random);
  const std::int64_t inner_stride = b_is_k_major ? 1 : n;
  const std::int64_t column_stride = b_is_k_major ? k : 1;
  const std::int64_t strips = (n + kInt8StripColumns - 1) / kInt8StripColumns;
  const std::int64_t pitch = strips * kInt8StripColumns;
  const std::unique_ptr<std::int8_t, FreeDeleter> packed(static_cast<std::int8_t*>(
      std::aligned_alloc(64, static_cast<std::size_t>(strips * Int8StripBytes(k)))));
  std::vector<std::uint8_t> lines(static_cast<std::size_t>(m * Int8Depth(k)));
  std::vector<std::int32_t> c(static_cast<std::size_t>(m * pitch));
  PackInt8Strips(k, n, b.data(), inner_stride, column_stride, packed.get());
  for (std::int64_t row = 0; row < m; ++row) {
    PackInt8Line(k, a.data() + row * k, 1, lines.data() + row * Int8Depth(k));
  }
  for (const bool as_it_lies : {false, true}) {
    if (as_it_lies && (m > kInt8FewRows || !b_is_k_major)) continue;
    std::fill(c.begin(), c.end(), 7);
    if (as_it_lies) {
      MultiplyInt8Columns(m, n, k, lines.data(), b.data(), column_stride, c.data(), pitch);
    } else {
      MultiplyInt8Rows(m, n, k, lines.data(), packed.get(), c.data(), pitch);
    }
    for (std::int64_t row = 0; row < m; ++row) {
      for (std::int64_t column = 0; column < n; ++column) {
        std::int64_t sum = 0;
        for (std::int64_t at = 0; at < k; ++at) {
          sum += std::int64_t{a[static_cast<std::size_t>(row * k + at)]} *
                 b[static_cast<std::size_t>(at * inner_stride + column * column_stride)];
        }
        ASSERT_EQ(c[static_cast<std::size_t>(row * pitch + column)], sum)
            << m << "x" << n << "x" << k << " (" << row << ", " << column << ")"
            << (as_it_lies ? " as it lies" : "");
      }
    }
  }
}

TEST(Int8Rows, AreExactForEveryShapeOfEdges) {
  if (!HasInt8Rows()) GTEST_SKIP() << "this processor has no AVX-512 VNNI";
  std::mt19937 random(1);
  for (const std::int64_t m : {1, 3, 4, 7, 8, 11, 12, 13, 25}) {
    for (const std::int64_t n : {1, 31, 32, 33, 65}) {
      for (const std::int64_t k : {1, 3, 4, 5, 64, 70, 192}) {
        CheckProduct({m, n, k}, random() % 2 == 0, &random);
      }
    }
  }
  CheckProduct({14, 40, 1023}, true, &random);
  CheckProduct({14, 40, 2050}, false, &random);
}

// The longest K, with the largest products of one sign: near the ends of int32.
TEST(Int8Rows, HoldTheLargestSums) {
  if (!HasInt8Rows()) GTEST_SKIP() << "this processor has no AVX-512 VNNI";
  const std::vector<std::int8_t> a(kMaxInt8K, -128);
  std::vector<std::uint8_t> line(static_cast<std::size_t>(Int8Depth(kMaxInt8K)));
  PackInt8Line(kMaxInt8K, a.data(), 1, line.data());
  const std::unique_ptr<std::int8_t, FreeDeleter> strip(static_cast<std::int8_t*>(
      std::aligned_alloc(64, static_cast<std::size_t>(Int8StripBytes(kMaxInt8K)))));
  for (const int factor : {-128, 127}) {
    const std::vector<std::int8_t> b(kMaxInt8K, static_cast<std::int8_t>(factor));
    PackInt8Strips(kMaxInt8K, 1, b.data(), 1, kMaxInt8K, strip.get());
    std::int32_t c[kInt8StripColumns];
    MultiplyInt8Rows(1, 1, kMaxInt8K, line.data(), strip.get(), c, kInt8StripColumns);
    EXPECT_EQ(c[0], static_cast<std::int32_t>(-128 * factor * kMaxInt8K));
  }
}

class OneThread final : public ParallelExecutor {
 public:
  void Run(std::int64_t count, absl::FunctionRef<void(int, std::int64_t)> body) override {
    for (std::int64_t i = 0; i < count; ++i) body(0, i);
  }
  int workers() const override { return 1; }
};

testing::PlaneBytes Compute(const Kernel& kernel, const Problem& problem,
                            testing::Operands* operands) {
  DeviceTraits traits;
  traits.compute_units = 1;
  const Config config = kernel.Configure(problem, traits);
  const testing::Workspace workspace(kernel.WorkspaceBytes(problem, config));
  Arguments arguments = operands->arguments();
  testing::PlaneBytes d = testing::PoisonedPlane(problem.d);
  arguments.d = d.data();
  arguments.workspace = workspace.data();
  OneThread executor;
  LaunchTarget target;
  target.executor = &executor;
  EXPECT_TRUE(kernel.Launch(problem, config, arguments, target).ok());
  return d;
}

TEST(Int8Kernels, HaveTheSameBits) {
  if (!HasInt8Rows()) GTEST_SKIP() << "this processor has no AVX-512 VNNI";
  std::vector<std::unique_ptr<const Kernel>> kernels;
  AppendCpuKernels(&kernels);
  const auto find = [&kernels](absl::string_view name) {
    return std::find_if(kernels.begin(), kernels.end(),
                        [name](const auto& kernel) { return kernel->traits().name == name; })
        ->get();
  };
  const Kernel& with_vnni = *find("cpu/vnni_int8");
  const Kernel& with_blas = *find("cpu/panel_int8");
  int compared = 0;
  for (const DataType output : {DataType::kInt32, DataType::kF32, DataType::kBf16}) {
    std::uint32_t seed = 0;
    for (const Problem& problem : testing::SmallProblems(DataType::kInt8, output)) {
      if (++seed % 2 != 0 || problem.n < 8) continue;
      testing::Operands operands(problem, testing::Distribution::kNormal, seed);
      ASSERT_EQ(with_vnni.Rejection(problem), "");
      ASSERT_EQ(with_vnni.NumericsId(problem), with_blas.NumericsId(problem));
      ASSERT_EQ(Compute(with_vnni, problem, &operands), Compute(with_blas, problem, &operands))
          << ToString(problem);
      ++compared;
    }
  }
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace gemmd
