// Freivalds' check of quantized products: right ones of every format pass, and wrong ones do not.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "kernels/gemm.h"
#include "tests/testing/products/cpu_launch.h"
#include "tests/testing/products/matrices.h"
#include "tests/testing/products/quantized_product.h"
#include "tests/testing/products/reference.h"

namespace gemmd {
namespace {

using testing::Draws;
using testing::QuantizedProduct;

void Compute(QuantizedProduct* product) {
  const absl::Status status = testing::LaunchOnCpu(product->problem, product->arguments());
  ASSERT_TRUE(status.ok()) << status;
}

double Residual(QuantizedProduct* product, std::uint64_t seed) {
  VerificationOptions options;
  options.seed = seed;
  return VerificationResidual(product->problem, product->arguments(), options);
}

QuantizedProduct Draw(const QuantFormat& format, Draws* draws, DataType accumulate,
                      DataType output) {
  const std::int64_t m = 20 + draws->Below(40);
  const std::int64_t n = 20 + draws->Below(40);
  const std::int64_t k = 1 + draws->Below(300);
  const QuantFormat partner = testing::Partner(draws);
  const bool is_a = draws->Below(2) == 0;
  return testing::MakeQuantizedProduct(draws->Lines(is_a ? format : partner, m, k, true),
                                       draws->Lines(is_a ? partner : format, n, k, false), m, n, k,
                                       accumulate, output);
}

class QuantizedFreivalds : public ::testing::TestWithParam<NamedFormat> {};

TEST_P(QuantizedFreivalds, TakesRightProductsAndNoOthers) {
  Draws draws(static_cast<std::uint32_t>(2 + 31 * GetParam().name.size()));
  for (std::uint64_t trial = 0; trial < 6; ++trial) {
    const bool is_f64 = trial % 3 == 2;
    QuantizedProduct product =
        Draw(GetParam().format, &draws, is_f64 ? DataType::kF64 : DataType::kF32,
             trial % 2 == 0 ? DataType::kF32 : DataType::kBf16);
    // Products of whole lines of int8 or fp8 have bounds and tests of their own.
    if (!IsDequantized(product.problem)) continue;
    ASSERT_TRUE(CanVerify(product.problem));
    product.problem.epilogue.alpha = draws.Normal();
    product.problem.epilogue.beta = draws.Normal();
    product.c = RandomPlane(product.problem.c, testing::Distribution::kNormal, 3);
    Compute(&product);
    ASSERT_LE(Residual(&product, trial), 1) << ToString(product.problem);

    const Problem& problem = product.problem;
    double square = 0;
    for (std::int64_t i = 0; i < problem.m; ++i) {
      for (std::int64_t j = 0; j < problem.n; ++j) {
        const double d = LoadElement(problem.d, product.d.data(), i, j);
        square += d * d / static_cast<double>(problem.m * problem.n);
      }
    }
    const std::int64_t row = draws.Below(problem.m);
    const std::int64_t column = draws.Below(problem.n);
    const double right = LoadElement(problem.d, product.d.data(), row, column);
    StoreElement(problem.d, product.d.data(), row, column, right + std::sqrt(square));
    EXPECT_GT(Residual(&product, trial), 1) << ToString(problem);
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedFreivalds, ::testing::ValuesIn(QuantFormats()),
                         [](const auto& info) {
                           return absl::StrReplaceAll(info.param.name, {{"-", "_"}});
                         });

// A scale that changes after the product was made makes another operand.
TEST(QuantizedFreivaldsPlanes, EachPlaneCounts) {
  const struct {
    const char* format;
    void (*change)(testing::QuantizedOperand*);
  } cases[] = {
      {"mxfp4", [](auto* o) { o->quantized.scales[0] += 4; }},
      {"int4-g32-f16-zp", [](auto* o) { o->quantized.zero_points[0] ^= 8; }},
      {"nvfp4", [](auto* o) { o->quantized.tensor_scale *= 1.5f; }},
      {"int4-g32-bf16-offset", [](auto* o) { o->quantized.offsets[1] ^= 0x80; }},
      {"mxfp6-e2m3", [](auto* o) { o->codes[0] ^= 0x1f; }},
  };
  for (const auto& each : cases) {
    Draws draws(4);
    QuantizedProduct product =
        testing::MakeQuantizedProduct(draws.Lines(*FindQuantFormat(each.format), 8, 64, true),
                                      draws.Lines(*FindQuantFormat("mxfp8-e4m3"), 9, 64, false), 8,
                                      9, 64, DataType::kF32, DataType::kF32);
    Compute(&product);
    EXPECT_LE(Residual(&product, 1), 1) << each.format;
    each.change(&product.a);
    EXPECT_GT(Residual(&product, 1), 1) << each.format;
  }
}

// Values that vanish beside their line's largest scale may be lost, and are no error.
TEST(QuantizedFreivaldsPlanes, WhatVanishesIsExplained) {
  Draws draws(5);
  const QuantFormat& format = *FindQuantFormat("mxfp8-e4m3");
  testing::QuantizedOperand a = draws.Lines(format, 2, 64, true);
  a.scaling.order = ScaleOrder::kAlongK;
  // The first block of each row is 2^127 times zeros, the second 2^-127 times its codes.
  a.quantized.scales = {254, 0, 254, 0};
  a.layout = {DataType::kFp8E4M3, 2, 64, Order::kRowMajor, 64};
  a.transpose = false;
  a.codes.assign(128, 0x38);
  std::memset(a.codes.data(), 0, 32);
  std::memset(a.codes.data() + 64, 0, 32);
  QuantizedProduct product = testing::MakeQuantizedProduct(
      std::move(a), draws.Lines(format, 3, 64, false), 2, 3, 64, DataType::kF32, DataType::kF32);
  Compute(&product);
  EXPECT_LE(Residual(&product, 1), 1);
}

std::vector<std::uint8_t> FourTimes(float value) {
  std::vector<std::uint8_t> bytes(4 * sizeof value);
  for (std::size_t i = 0; i < 4; ++i) std::memcpy(&bytes[i * sizeof value], &value, sizeof value);
  return bytes;
}

// Codes times scales and offsets may be summed apart, so their own rounding is explained where both
// cancel; what is more is not.
TEST(QuantizedFreivaldsPlanes, AnOffsetThatCancelsCodesCountsBoth) {
  Draws draws(7);
  testing::QuantizedOperand a = draws.Lines(*FindQuantFormat("uint8-g32-offset"), 2, 64, true);
  a.scaling.order = ScaleOrder::kAlongK;
  a.quantized.scales = FourTimes(1);
  a.quantized.offsets = FourTimes(-3);
  a.layout = {DataType::kUint8, 2, 64, Order::kRowMajor, 64};
  a.transpose = false;
  a.codes.assign(128, 3);
  testing::QuantizedOperand b = draws.Lines(*FindQuantFormat("mxfp8-e4m3"), 3, 64, false);
  std::fill(b.codes.begin(), b.codes.end(), std::uint8_t{0x38});                       // 1
  std::fill(b.quantized.scales.begin(), b.quantized.scales.end(), std::uint8_t{127});  // 1
  QuantizedProduct product = testing::MakeQuantizedProduct(std::move(a), std::move(b), 2, 3, 64,
                                                           DataType::kF32, DataType::kF32);
  Compute(&product);
  // An element's 64 products have magnitudes of 6 together: 384, of which 2^-19 is 0.0007.
  for (const auto& [error, is_explained] : {std::pair(0.0005, true), std::pair(0.1, false)}) {
    StoreElement(product.problem.d, product.d.data(), 1, 1, error);
    EXPECT_EQ(Residual(&product, 1) <= 1, is_explained) << error;
  }
}

TEST(QuantizedFreivaldsPlanes, ANanScaleMakesItsRowNan) {
  Draws draws(6);
  const QuantFormat& format = *FindQuantFormat("mxfp4");
  testing::QuantizedOperand a = draws.Lines(format, 4, 64, true);
  a.scaling.order = ScaleOrder::kAlongK;
  a.quantized.scales.assign(8, 127);
  a.quantized.scales[2] = 0xff;
  QuantizedProduct product = testing::MakeQuantizedProduct(
      std::move(a), draws.Lines(format, 5, 64, false), 4, 5, 64, DataType::kF32, DataType::kF32);
  Compute(&product);
  EXPECT_LE(Residual(&product, 1), 1);
  for (std::int64_t column = 0; column < 5; ++column) {
    StoreElement(product.problem.d, product.d.data(), 1, column, 1);
  }
  EXPECT_EQ(Residual(&product, 1), std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace gemmd
