// Every plane of a quantized product reaches its check.
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "server/verification/finished_product.h"
#include "tests/testing/products/quantized_reference_kernel.h"
#include "tests/testing/products/quantized_work.h"

namespace gemmd {
namespace {

using testing::QuantizedProduct;

TEST(QuantizedResidual, TakesEveryPlane) {
  const testing::QuantizedReferenceKernel kernel;
  testing::Draws draws(3);
  for (const auto& [a, b] :
       {std::pair("int4-g32-f16-zp", "nvfp4"), std::pair("nvfp4", "uint8-g64-zp")}) {
    constexpr std::int64_t kK = 96;
    QuantizedProduct product = testing::MakeQuantizedProduct(
        draws.Lines(*FindQuantFormat(a), 7, kK, true),
        draws.Lines(*FindQuantFormat(b), 9, kK, false), 7, 9, kK, DataType::kF32, DataType::kF32);
    ASSERT_TRUE(kernel.Launch(product.problem, {}, product.arguments(), {}).ok());
    const DeviceWork work = testing::WorkOf(&product, {});
    FinishedProduct finished;
    finished.problem = work.problem;
    finished.buffers = work.buffers;
    finished.kernel = &kernel;
    const auto residual = [](const FinishedProduct& of) {
      const absl::StatusOr<double> value = ResidualOf(of, 3, 1, nullptr);
      EXPECT_TRUE(value.ok()) << value.status();
      return *value;
    };
    EXPECT_LE(residual(finished), 1);
    // With the values of another plane it is another product.
    const float other_scale = 3;
    const std::vector<std::uint8_t> ones(1024, 1);
    for (const WorkPlane plane : {WorkPlane::kAZeroPoints, WorkPlane::kBZeroPoints,
                                  WorkPlane::kATensorScale, WorkPlane::kBTensorScale}) {
      if (!HasPlane(finished.problem, plane)) continue;
      const bool is_scale = plane == WorkPlane::kATensorScale || plane == WorkPlane::kBTensorScale;
      FinishedProduct wrong = finished;
      wrong.buffers[plane] = is_scale ? static_cast<const void*>(&other_scale) : ones.data();
      EXPECT_GT(residual(wrong), 1);
    }
  }
}

}  // namespace
}  // namespace gemmd
