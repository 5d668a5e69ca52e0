// Quantized operands of every format on a CUDA device over a fake runtime: all planes of a product
// reach its kernel, however they come, and stored ones come back as they were.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "gtest/gtest.h"
#include "server/device/cuda/planes/landing.h"
#include "server/device/panel.h"
#include "server/device/rows.h"
#include "tests/server/device/batches.h"
#include "tests/server/device/cuda/cuda_fixture.h"
#include "tests/testing/products/quantized_reference_kernel.h"
#include "tests/testing/products/quantized_work.h"

namespace gemmd {
namespace {

using testing::Draws;
using testing::QuantizedProduct;

class QuantizedOnCuda : public testing::CudaDeviceTest,
                        public ::testing::WithParamInterface<NamedFormat> {
 protected:
  Plan PlanOf(const Problem& problem) const {
    return {&kernel_, {}, 1, false, 0, kernel_.NumericsId(device_->Landed(problem))};
  }

  DeviceWork WorkOf(QuantizedProduct* product) {
    DeviceWork work = testing::WorkOf(product, PlanOf(product->problem));
    work.buffers.d = *device_->AllocateResult(product->problem.d);
    return work;
  }

  // Returns the first element that is wrong; empty if none is.
  std::string Check(const DeviceWork& work, QuantizedProduct* product) {
    CopyOut(work.buffers.d, &product->d);
    return CheckQuantizedProduct(product, kernel_.traits().name);
  }

  // Moves a plane from host memory to where it stays, and checks what is fetched of it.
  void StorePlane(WorkPlane plane, DeviceWork* work) {
    const void* const data = std::exchange(work->buffers[plane], nullptr);
    if (data == nullptr) return;
    auto stored = device_->Store(work->problem, plane, data);
    ASSERT_TRUE(stored.ok()) << stored.status();
    // Padding is not fetched.
    const MatrixLayout layout = CopiedLayout(PlaneOf(work->problem, plane));
    std::string fetched(layout.size_bytes(), '?');
    ASSERT_TRUE(device_->Fetch(**stored, fetched.data()).ok());
    for (std::int64_t line = 0; line < layout.outer(); ++line) {
      const std::uint64_t begin = ElementBytes(layout, line * layout.leading_dimension);
      EXPECT_EQ(std::memcmp(fetched.data() + begin, static_cast<const char*>(data) + begin,
                            ElementBytes(layout, layout.inner())),
                0);
    }
    work->resident[plane] = *std::move(stored);
  }

  // Products of the format with a partner, neither of which a kernel takes as they are.
  QuantizedProduct Draw(Draws* draws, std::uint32_t seed) const {
    while (true) {
      QuantizedProduct product = testing::DrawQuantizedProduct(GetParam().format, draws, seed);
      if (IsDequantized(product.problem)) return product;
    }
  }

  const testing::QuantizedReferenceKernel kernel_;
};

TEST_P(QuantizedOnCuda, PlanesThatComeWithTheWork) {
  Draws draws(3);
  for (std::uint32_t seed = 1; seed <= 3; ++seed) {
    Start(seed);
    QuantizedProduct product = Draw(&draws, seed);
    const DeviceWork work = WorkOf(&product);
    ASSERT_TRUE(Submit(work).get().status.ok());
    ASSERT_EQ(Check(work, &product), "") << "seed " << seed;
  }
}

TEST_P(QuantizedOnCuda, PlanesThatStay) {
  Draws draws(4);
  for (std::uint32_t seed = 1; seed <= 3; ++seed) {
    Start(seed);
    QuantizedProduct product = Draw(&draws, seed);
    DeviceWork work = WorkOf(&product);
    for (const WorkPlane plane : kPlanesOfB) StorePlane(plane, &work);
    if (seed % 2 == 0) {
      for (const WorkPlane plane : kWorkPlanes) StorePlane(plane, &work);
    }
    ASSERT_TRUE(Submit(work).get().status.ok());
    ASSERT_EQ(Check(work, &product), "") << "seed " << seed;
    work = DeviceWork();
    product = QuantizedProduct();
    EXPECT_TRUE(AllIsFree());
  }
}

// Too large for a slot's staging memory: it goes through the feeder, in one panel.
TEST_P(QuantizedOnCuda, LargeProducts) {
  constexpr std::int64_t kM = 1;
  constexpr std::int64_t kN = 280;
  constexpr std::int64_t kK = 2000;
  Draws draws(5);
  Start(7);
  QuantizedProduct product = testing::MakeQuantizedProduct(
      draws.Lines({DataType::kBf16, Scaling::kNone}, kM, kK, true),
      draws.Lines(GetParam().format, kN, kK, false), kM, kN, kK, DataType::kF32, DataType::kF32);
  const DeviceWork work = WorkOf(&product);
  ASSERT_TRUE(Submit(work).get().status.ok());
  ASSERT_EQ(Check(work, &product), "");
}

// Rows of bf16 over one resident quantized B.
TEST_P(QuantizedOnCuda, JoinedRows) {
  constexpr std::int64_t kN = 40;
  constexpr std::int64_t kK = 96;
  Draws draws(6);
  Start(8);
  const testing::QuantizedOperand b = draws.Lines(GetParam().format, kN, kK, false);
  std::vector<QuantizedProduct> products;
  for (std::int64_t rows = 1; rows <= 4; ++rows) {
    testing::QuantizedOperand a;
    a.layout = {DataType::kBf16, rows, kK, Order::kRowMajor, kK};
    a.codes.resize(a.layout.size_bytes());
    for (std::int64_t i = 0; i < rows * kK; ++i) {
      const auto value = static_cast<std::uint16_t>(0x3f80 + draws.Below(64));
      std::memcpy(a.codes.data() + i * 2, &value, 2);
    }
    products.push_back(testing::MakeQuantizedProduct(std::move(a), b, rows, kN, kK, DataType::kF32,
                                                     DataType::kF32));
  }
  DeviceWork weights = WorkOf(&products.front());
  std::vector<DeviceWork> works;
  for (const WorkPlane plane : kPlanesOfB) StorePlane(plane, &weights);
  std::vector<HostPiece> rows_of_a;  // in memory that the device reads itself
  for (QuantizedProduct& product : products) {
    DeviceWork work = WorkOf(&product);
    for (const WorkPlane plane : kPlanesOfB) {
      work.buffers[plane] = nullptr;
      work.resident[plane] = weights.resident[plane];
    }
    rows_of_a.push_back(*device_->AllocateOperand(product.a.codes.size()));
    std::memcpy(rows_of_a.back().data, product.a.codes.data(), product.a.codes.size());
    work.buffers[WorkPlane::kA] = rows_of_a.back().data;
    work.weights_id = 9;
    EXPECT_EQ(device_->FormOf(work), BatchForm::kRows);
    works.push_back(std::move(work));
  }
  const Plan plan = PlanOf(JoinedRows(works));
  const DeviceResult result = testing::RunLaunch(device_.get(), DeviceLaunch::Rows(works, plan));
  ASSERT_TRUE(result.status.ok()) << result.status;
  for (std::size_t i = 0; i < works.size(); ++i) {
    EXPECT_EQ(Check(works[i], &products[i]), "") << i + 1 << " rows";
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedOnCuda, ::testing::ValuesIn(QuantFormats()),
                         [](const auto& info) {
                           return absl::StrReplaceAll(info.param.name, {{"-", "_"}});
                         });

}  // namespace
}  // namespace gemmd
