// Every quantized format on the emulated device: random products within the bounds of
// kernels/dequantize/dequantized_gemm.h, by the kernels that a GPU would take.
#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "server/device/emulated_device.h"
#include "tests/server/device/batches.h"
#include "tests/testing/products/quantized_work.h"

namespace gemmd {
namespace {

using testing::Draws;
using testing::QuantizedProduct;

constexpr std::uint64_t kMemory = std::uint64_t{64} << 20;

// Products of each format; GEMMD_QUANT_PRODUCTS is another number, for a longer search.
int ProductCount() {
  const char* given = std::getenv("GEMMD_QUANT_PRODUCTS");
  return given == nullptr ? 4 : std::atoi(given);
}

class QuantizedOnEmulatedDevice : public ::testing::TestWithParam<NamedFormat> {
 protected:
  SteadyClock clock_;
  EmulatedDevice device_{kMemory, &clock_};
};

TEST_P(QuantizedOnEmulatedDevice, RandomProductsAreWithinTheStatedBound) {
  Draws draws(static_cast<std::uint32_t>(11 + 31 * GetParam().name.size()));
  for (int i = 0; i < ProductCount(); ++i) {
    QuantizedProduct product =
        testing::DrawQuantizedProduct(GetParam().format, &draws, static_cast<std::uint32_t>(i));
    const absl::StatusOr<Plan> plan =
        Select(BuiltinRegistry(), device_.Landed(product.problem), device_.traits());
    ASSERT_TRUE(plan.ok()) << plan.status();
    const std::string kernel = plan->kernel->traits().name;
    // Two operands of 8 bits may lie as tensor cores take them.
    EXPECT_TRUE(absl::StartsWith(kernel, "dequantize/") || absl::StartsWith(kernel, "sm90/fp8_") ||
                absl::StartsWith(kernel, "sm90/int8_"))
        << kernel;
    const DeviceResult result =
        testing::RunLaunch(&device_, DeviceLaunch(testing::WorkOf(&product, *plan)));
    ASSERT_TRUE(result.status.ok()) << result.status;
    ASSERT_EQ(CheckQuantizedProduct(&product, kernel), "") << "product " << i;
  }
}

// Those whose B may be packed, as B of 4 bits is where it stays.
TEST(PackedOnEmulatedDevice, RandomProductsAreWithinTheStatedBound) {
  SteadyClock clock;
  EmulatedDevice device(kMemory, &clock);
  ASSERT_TRUE(device.packs_weights());
  for (const NamedFormat& named : QuantFormats()) {
    Draws draws(static_cast<std::uint32_t>(named.name.size()));
    for (int i = 0; i < ProductCount(); ++i) {
      const std::int64_t m = 1 + draws.Below(40);
      const std::int64_t n = 1 + draws.Below(150);
      const std::int64_t k = 64 * (1 + draws.Below(5));
      const DataType type = draws.Below(2) == 0 ? DataType::kF16 : DataType::kBf16;
      QuantizedProduct product = testing::MakeQuantizedProduct(
          draws.Lines({type, Scaling::kNone}, m, k, true), draws.Lines(named.format, n, k, false),
          m, n, k, DataType::kF32, DataType::kF32);
      if (!product.problem.a_is_k_major() || !PackingRejection(product.problem).empty()) continue;
      product.problem.b_packing = Packing::kStrips;
      const absl::StatusOr<Plan> plan =
          Select(BuiltinRegistry(), device.Landed(product.problem), device.traits());
      ASSERT_TRUE(plan.ok()) << plan.status();
      const DeviceResult result =
          testing::RunLaunch(&device, DeviceLaunch(testing::WorkOf(&product, *plan)));
      ASSERT_TRUE(result.status.ok()) << result.status;
      ASSERT_EQ(CheckQuantizedProduct(&product, plan->kernel->traits().name), "") << named.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedOnEmulatedDevice, ::testing::ValuesIn(QuantFormats()),
                         [](const auto& info) {
                           return absl::StrReplaceAll(info.param.name, {{"-", "_"}});
                         });

}  // namespace
}  // namespace gemmd
