// Every quantized format through the registry on the CPU: random products within the bounds of
// kernels/cpu/quantized_gemm.h, and bits that do not depend on which rows stand beside a row.
#include "kernels/cpu/quantized_gemm.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "base/numbers/quant/elements.h"
#include "base/numbers/quant/packed_codes.h"
#include "gtest/gtest.h"
#include "kernels/gemm.h"
#include "tests/testing/products/matrices.h"
#include "tests/testing/products/quantized_product.h"
#include "tests/testing/products/reference.h"

namespace gemmd {
namespace {

// Random products of each format; GEMMD_QUANT_PRODUCTS is another number, for a longer search.
int ProductCount() {
  const char* given = std::getenv("GEMMD_QUANT_PRODUCTS");
  return given == nullptr ? 100 : std::atoi(given);
}

class InlineExecutor final : public ParallelExecutor {
 public:
  explicit InlineExecutor(int workers) : workers_(workers) {}
  void Run(std::int64_t count, absl::FunctionRef<void(int, std::int64_t)> body) override {
    for (std::int64_t i = 0; i < count; ++i) body(static_cast<int>(i % workers_), i);
  }
  int workers() const override { return workers_; }

 private:
  const int workers_;
};

DeviceTraits Cpu(int threads) {
  DeviceTraits traits;
  traits.name = "cpu";
  traits.compute_units = threads;
  traits.f32_gflops = 10;
  traits.memory_gbps = 10;
  return traits;
}

using testing::CheckQuantizedProduct;
using testing::Draws;
using Operand = testing::QuantizedOperand;
using Product = testing::QuantizedProduct;
using testing::MakeQuantizedProduct;
using testing::Partner;

// Computes product->d, and returns the kernel's name.
std::string Compute(Product* product, int threads) {
  const absl::StatusOr<Plan> plan = Select(BuiltinRegistry(), product->problem, Cpu(threads));
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return "";
  InlineExecutor executor(threads);
  const testing::Workspace workspace(plan->workspace_bytes);
  Arguments arguments = product->arguments();
  arguments.workspace = workspace.data();
  LaunchTarget target;
  target.executor = &executor;
  const absl::Status status =
      plan->kernel->Launch(product->problem, plan->config, arguments, target);
  EXPECT_TRUE(status.ok()) << status;
  return plan->kernel->traits().name;
}

class QuantizedGemm : public ::testing::TestWithParam<NamedFormat> {};

TEST_P(QuantizedGemm, RandomProductsAreWithinTheStatedBound) {
  Draws draws(static_cast<std::uint32_t>(17 + 31 * GetParam().name.size()));
  for (int i = 0; i < ProductCount(); ++i) {
    const std::int64_t m = 1 + draws.Below(draws.Below(8) == 0 ? 140 : 6);
    const std::int64_t n = 1 + draws.Below(draws.Below(8) == 0 ? 140 : 6);
    const std::int64_t k = 1 + draws.Below(draws.Below(8) == 0 ? 700 : 70);
    const QuantFormat partner = Partner(&draws);
    const bool is_a = draws.Below(2) == 0;
    const QuantFormat& of_a = is_a ? GetParam().format : partner;
    const QuantFormat& of_b = is_a ? partner : GetParam().format;
    const bool are_integers = HasIntegerSums(of_a) && HasIntegerSums(of_b);
    const auto is_of_panels = [](const QuantFormat& format) {
      return (format.element == DataType::kInt8 || format.element == DataType::kFp8E4M3 ||
              format.element == DataType::kFp8E5M2) &&
             format.scaling.scales_whole_lines();
    };
    // These kernels have one way to sum, and take no int8 beside fp8.
    const bool are_of_panels =
        is_of_panels(of_a) && is_of_panels(of_b) &&
        (of_a.element == DataType::kInt8) == (of_b.element == DataType::kInt8);
    DataType accumulate = are_integers ? DataType::kInt32 : DataType::kF32;
    if (!are_of_panels && draws.Below(3) == 0) {
      accumulate = draws.Below(2) == 0 ? DataType::kF64 : DataType::kF32;
    }
    constexpr DataType kOutputs[] = {DataType::kF32, DataType::kF16, DataType::kBf16};
    const DataType output = accumulate == DataType::kF64 && draws.Below(2) == 0
                                ? DataType::kF64
                                : kOutputs[draws.Below(3)];
    Product product = MakeQuantizedProduct(
        draws.Lines(of_a, m, k, true), draws.Lines(of_b, n, k, false), m, n, k, accumulate, output);
    Epilogue& e = product.problem.epilogue;
    if (draws.Below(3) == 0) e.alpha = draws.Normal();
    if (draws.Below(3) == 0) e.beta = draws.Normal();
    e.has_bias = draws.Below(3) == 0;
    const auto seed = static_cast<std::uint32_t>(i);
    product.c = RandomPlane(product.problem.c, testing::Distribution::kNormal, seed);
    product.bias =
        RandomPlane({output, 1, n, Order::kRowMajor, n}, testing::Distribution::kNormal, seed + 1);
    const std::string kernel = Compute(&product, 1 + static_cast<int>(draws.Below(3)));
    ASSERT_NE(absl::StartsWith(kernel, "cpu/quantized_"), are_of_panels) << kernel;
    ASSERT_EQ(CheckQuantizedProduct(&product, kernel), "") << "product " << i;
  }
}

// Rows [first, first + rows) of an operand whose lines are rows, K running fastest.
Operand Rows(const Operand& whole, std::int64_t k, std::int64_t first, std::int64_t rows) {
  Operand part = whole;
  const QuantizedView from = whole.quantized.view();
  part.layout.rows = rows;
  part.codes.assign(part.layout.size_bytes(), 0);
  part.quantized.lines = rows;
  const Scaling& scaling = whole.scaling;
  const std::int64_t count = scaling.count(rows, k);
  const int bits = SizeBits(scaling.type);
  part.quantized.scales.assign(static_cast<std::size_t>(PackedBytes(bits, count)), 0);
  part.quantized.zero_points.assign(static_cast<std::size_t>(count), 0);
  part.quantized.offsets.assign(part.quantized.scales.size(), 0);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t at = 0; at < k; ++at) {
      StoreCode(part.codes.data(), SizeBits(whole.layout.type), row * k + at,
                from.code(first + row, at));
      const std::int64_t index = scaling.index(from.lines, k, first + row, at);
      const std::int64_t to = scaling.index(rows, k, row, at);
      StoreCode(part.quantized.scales.data(), bits, to, LoadCode(from.scales, bits, index));
      if (scaling.has_offsets) {
        StoreCode(part.quantized.offsets.data(), bits, to, LoadCode(from.offsets, bits, index));
      }
      if (scaling.has_zero_points) {
        part.quantized.zero_points[static_cast<std::size_t>(to)] =
            whole.quantized.zero_points[static_cast<std::size_t>(index)];
      }
    }
  }
  return part;
}

TEST_P(QuantizedGemm, ARowsBitsDoNotDependOnItsMates) {
  Draws draws(5);
  constexpr std::int64_t kRows = 150;
  constexpr std::int64_t kColumns = 37;
  constexpr std::int64_t kSize = 300;
  const QuantFormat& format = GetParam().format;
  std::vector<float> values;
  for (std::int64_t i = 0; i < kRows * kSize; ++i) {
    const double value = draws.Normal();
    values.push_back(static_cast<float>(HasSign(format) ? value : std::abs(value)));
  }
  Operand whole;
  whole.scaling = format.scaling;
  whole.layout = {format.element, kRows, kSize, Order::kRowMajor, kSize};
  whole.quantized = *Quantize(format, {values.data(), kRows, kSize, kSize});
  whole.codes = whole.quantized.codes;
  const Operand b = draws.Lines(*FindQuantFormat("int4-g64-f16-zp"), kColumns, kSize, false);
  const DataType accumulate = HasIntegerSums(format) ? DataType::kInt32 : DataType::kF32;
  const auto multiply = [&](Operand a, std::int64_t rows, int threads) {
    Product product =
        MakeQuantizedProduct(std::move(a), b, rows, kColumns, kSize, accumulate, DataType::kF32);
    Compute(&product, threads);
    return product.d;
  };
  const testing::PlaneBytes expected = multiply(whole, kRows, 1);
  // A block of 128 lines is cut at its edge alone.
  const std::int64_t step = std::max<std::int64_t>(format.scaling.block_lines, 1);
  for (const std::int64_t rows : {1, 2, 5, 63, 64, 65, 128, 149}) {
    const std::int64_t places = (kRows - rows) / step;
    const std::int64_t first = places == 0 ? 0 : draws.Below(places + 1) * step;
    const testing::PlaneBytes d =
        multiply(Rows(whole, kSize, first, rows), rows, static_cast<int>(rows % 3) + 1);
    ASSERT_EQ(std::memcmp(d.data(), expected.data() + first * kColumns * 4,
                          static_cast<std::size_t>(rows * kColumns * 4)),
              0)
        << rows << " rows from " << first;
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedGemm, ::testing::ValuesIn(QuantFormats()),
                         [](const auto& info) {
                           return absl::StrReplaceAll(info.param.name, {{"-", "_"}});
                         });

// Scales at the ends of E8M0, whose products fit where their factors do not.
TEST(QuantizedGemmRange, NoValueOfAQuantizedOperandOverflows) {
  const QuantFormat& format = *FindQuantFormat("mxfp8-e5m2");
  Draws draws(9);
  Operand a = draws.Lines(format, 3, 64, true);
  Operand b = draws.Lines(format, 4, 64, false);
  std::fill(a.quantized.scales.begin(), a.quantized.scales.end(), std::uint8_t{254});
  std::fill(b.quantized.scales.begin(), b.quantized.scales.end(), std::uint8_t{3});
  for (Operand* operand : {&a, &b}) {  // none infinite
    for (std::uint8_t& code : operand->codes) {
      if ((code & 0x7c) == 0x7c) code = 0x3c;
    }
  }
  Product product =
      MakeQuantizedProduct(std::move(a), std::move(b), 3, 4, 64, DataType::kF32, DataType::kF32);
  EXPECT_EQ(CheckQuantizedProduct(&product, Compute(&product, 1)), "");
}

TEST(QuantizedGemmRange, NanScalesMakeTheirRowsNan) {
  const QuantFormat& format = *FindQuantFormat("mxfp4");
  Draws draws(10);
  Operand a = draws.Lines(format, 2, 64, true);
  a.scaling.order = ScaleOrder::kAlongK;
  a.quantized.scales = {127, 0xff, 127, 127};
  Product product = MakeQuantizedProduct(std::move(a), draws.Lines(format, 3, 64, false), 2, 3, 64,
                                         DataType::kF32, DataType::kF32);
  Compute(&product, 1);
  for (int column = 0; column < 3; ++column) {
    EXPECT_TRUE(std::isnan(LoadElement(product.problem.d, product.d.data(), 0, column)));
    EXPECT_TRUE(std::isfinite(LoadElement(product.problem.d, product.d.data(), 1, column)));
  }
}

// Each kernel names the operands that it does not take.
TEST(QuantizedGemmRejection, NamesWhatIsNotTaken) {
  std::vector<std::unique_ptr<const Kernel>> kernels;
  AppendQuantizedCpuKernels(&kernels);
  const auto rejection = [&](std::size_t kernel, void (*change)(Problem*)) {
    Problem problem = MakeProblem(4, 8, 64, DataType::kFp4E2M1, DataType::kF32);
    problem.a_scaling = problem.b_scaling = FindQuantFormat("nvfp4")->scaling;
    change(&problem);
    return kernels[kernel]->Rejection(problem);
  };
  const auto nothing = [](Problem*) {};
  EXPECT_EQ(rejection(1, nothing), "");
  EXPECT_EQ(rejection(0, nothing), "takes two operands of integers, without offsets");
  EXPECT_EQ(rejection(2, nothing), "accumulates in f64");
  EXPECT_EQ(rejection(1, [](Problem* p) { p->a_scaling = p->b_scaling = Scaling::kNone; }),
            "takes operands of which one has scales");
  EXPECT_EQ(rejection(1, [](Problem* p) { p->a.type = DataType::kF64; }), "does not take f64 as A");
  EXPECT_EQ(rejection(1, [](Problem* p) { p->b.type = DataType::kF16; }),
            "takes no scales of a f16 B");
  EXPECT_EQ(rejection(1, [](Problem* p) { p->b_scaling.type = DataType::kInt8; }),
            "does not take int8 scales of B");
  EXPECT_EQ(rejection(1, [](Problem* p) { p->a_scaling.has_zero_points = true; }),
            "takes no zero points of a fp4_e2m1 A");
  EXPECT_EQ(rejection(1, [](Problem* p) { p->d.type = DataType::kInt32; }), "does not write int32");
  EXPECT_EQ(rejection(1,
                      [](Problem* p) {
                        p->a.type = p->b.type = DataType::kFp8E5M2;
                        p->a_scaling = Scaling::kVector;
                        p->b_scaling = Scaling::kTensor;
                      }),
            "leaves scales of whole lines of int8 and fp8 to cpu/panel_*");
}

}  // namespace
}  // namespace gemmd
