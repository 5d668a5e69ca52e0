// A B of quantized weights that stays on a CUDA device lies there packed: its products are right
// however they are launched, and its planes come back as they were sent.
#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/device/cuda/planes/landing.h"
#include "server/device/panel.h"
#include "server/device/planes.h"
#include "server/device/rows.h"
#include "tests/server/device/cuda/cuda_fixture.h"
#include "tests/server/device/cuda/parts.h"
#include "tests/testing/products/quantized_work.h"

namespace gemmd {
namespace {

using testing::Draws;
using testing::QuantizedProduct;

struct Shape {
  std::int64_t m = 1;
  std::int64_t n = 1;
  std::int64_t k = 64;
};

// A format that is packed.
QuantFormat DrawFormat(Draws* draws) {
  constexpr const char* kNamed[] = {
      "mxfp4",          "nvfp4",        "int8-g128",      "int8-g128-zp",     "int8-row",
      "int8-row-zp",    "int8-tensor",  "fp8-e4m3-1x128", "fp8-e4m3-128x128", "fp8-e4m3-row",
      "uint8-g128-zp",  "uint8-row-zp", "int8-g32",       "uint8-g64-zp",     "int4-g32-f16-zp",
      "int4-g64-bf16",  "mxfp8-e4m3",   "mxfp8-e5m2",     "mxfp6-e3m2",       "mxfp6-e2m3",
      "fp8-e5m2-1x128", "uint8-g128"};
  constexpr auto kCount = static_cast<std::int64_t>(sizeof(kNamed) / sizeof(kNamed[0]));
  const std::int64_t named = draws->Below(kCount + 5);
  if (named < kCount) return *FindQuantFormat(kNamed[named]);
  Scaling scaling = Scaling::kVector;
  scaling.type = draws->Below(2) == 0 ? DataType::kF16 : DataType::kBf16;
  scaling.block_k = 128;
  scaling.has_zero_points = draws->Below(2) == 0;
  return {draws->Below(2) == 0 ? DataType::kInt4 : DataType::kUint4, scaling};
}

// f16 or bf16 by one of those formats, with B tightly packed in either order.
QuantizedProduct Draw(const Shape& shape, Draws* draws, bool a_is_k_major) {
  const QuantFormat of_b = DrawFormat(draws);
  const bool is_f16 = draws->Below(2) == 0 && of_b.element != DataType::kFp4E2M1;
  const QuantFormat of_a = {is_f16 ? DataType::kF16 : DataType::kBf16, Scaling::kNone};
  Draws::Limits limits;
  limits.is_tight = limits.is_on_the_wire = limits.is_untiled = true;
  Draws::Limits limits_of_a = limits;
  limits_of_a.is_k_major = a_is_k_major;
  constexpr DataType kOutputs[] = {DataType::kF32, DataType::kF16, DataType::kBf16};
  QuantizedProduct product =
      testing::MakeQuantizedProduct(draws->Lines(of_a, shape.m, shape.k, true, limits_of_a),
                                    draws->Lines(of_b, shape.n, shape.k, false, limits), shape.m,
                                    shape.n, shape.k, DataType::kF32, kOutputs[draws->Below(3)]);
  product.problem.b_packing = Packing::kStrips;
  return product;
}

// The planes of B that the product has.
std::vector<std::pair<WorkPlane, const void*>> PlanesOfB(QuantizedProduct* product) {
  const Arguments arguments = product->arguments();
  std::vector<std::pair<WorkPlane, const void*>> planes = {
      {WorkPlane::kB, arguments.b}, {WorkPlane::kBScales, arguments.b_scales}};
  if (arguments.b_zero_points != nullptr) {
    planes.emplace_back(WorkPlane::kBZeroPoints, arguments.b_zero_points);
  }
  return planes;
}

class PackedPlanes : public testing::CudaPartsTest {};

class PackedWeights : public testing::CudaDeviceTest {
 protected:
  void SetUp() override { Start(1); }

  Plan PlanOf(const Problem& problem) const {
    return *Select(BuiltinRegistry(), device_->Landed(problem), device_->traits());
  }

  // The product with its B on the device; A comes with the work.
  DeviceWork WorkOf(QuantizedProduct* product) {
    DeviceWork work = testing::WorkOf(product, PlanOf(product->problem));
    work.buffers.d = *device_->AllocateResult(product->problem.d);
    for (const WorkPlane plane : kPlanesOfB) {
      const void* const data = std::exchange(work.buffers[plane], nullptr);
      if (data != nullptr) work.resident[plane] = *device_->Store(work.problem, plane, data);
    }
    work.weights_id = 1;
    return work;
  }

  void ExpectRight(const DeviceWork& work, QuantizedProduct* product) {
    const Kernel::Traits& traits = work.plan.kernel->traits();
    EXPECT_EQ(traits.b_packing, Packing::kStrips);
    CopyOut(work.buffers.d, &product->d);
    EXPECT_EQ(CheckQuantizedProduct(product, traits.name), "");
  }

  std::string Fetched(const ResidentOperand& operand, std::uint64_t bytes) {
    std::string fetched(bytes, '?');
    EXPECT_TRUE(device_->Fetch(operand, fetched.data()).ok());
    return fetched;
  }

  static std::string Bytes(const DeviceWork& work) {
    std::string bytes;
    for (const HostPiece& piece : work.buffers.d) bytes.append(piece.data, piece.size_bytes);
    return bytes;
  }
};

TEST_F(PackedWeights, ProductsAreRight) {
  Draws draws(5);
  for (int i = 0; i < 40; ++i) {
    const Shape shape = {1 + draws.Below(i % 4 == 0 ? 140 : 17), 64 + draws.Below(240),
                         64 * (1 + draws.Below(6))};
    QuantizedProduct product = Draw(shape, &draws, i % 3 != 0);
    const DeviceWork work = WorkOf(&product);
    const DeviceResult result = Submit(work).get();
    ASSERT_TRUE(result.status.ok()) << result.status;
    ExpectRight(work, &product);
  }
  EXPECT_TRUE(lost_.empty());
}

TEST_F(PackedWeights, PlanesTakeTheirOwnBytesAndComeBack) {
  Draws draws(6);
  for (int i = 0; i < 24; ++i) {
    const Shape shape = {3, 128 * (1 + draws.Below(5)), 128 * (1 + draws.Below(9))};
    QuantizedProduct product = Draw(shape, &draws, true);
    const std::vector<std::pair<WorkPlane, const void*>> planes = PlanesOfB(&product);
    const DeviceWork work = WorkOf(&product);
    for (const auto& [plane, data] : planes) {
      const std::uint64_t bytes = PlaneBytes(product.problem, plane);
      // A scale of several lines is repeated for each.
      const bool is_repeated = plane != WorkPlane::kB && product.problem.b_scaling.block_lines != 1;
      const std::uint64_t held =
          is_repeated ? PackedBytes(product.problem, *PackedPlaneOf(product.problem, plane))
                      : bytes;
      EXPECT_EQ(work.resident[plane]->size_bytes(), (held + 255) / 256 * 256);
      const std::string sent(static_cast<const char*>(data), bytes);
      EXPECT_TRUE(Fetched(*work.resident[plane], bytes) == sent);
      // Another use, which takes it as it was sent, and back again.
      Problem plain = product.problem;
      plain.b_packing = Packing::kNone;
      const auto unpacked = device_->StoreAgain(*work.resident[plane], plain, plane);
      ASSERT_TRUE(unpacked.ok()) << unpacked.status();
      EXPECT_EQ(std::memcmp((*unpacked)->data(), data, bytes), 0);
      const CopiedBytes before = device_->copied();
      const auto packed = device_->StoreAgain(**unpacked, product.problem, plane);
      ASSERT_TRUE(packed.ok()) << packed.status();
      EXPECT_EQ(device_->copied().in, before.in);
      EXPECT_EQ(std::memcmp((*packed)->data(), work.resident[plane]->data(), bytes), 0);
    }
  }
  EXPECT_TRUE(AllIsFree());
}

// A plane comes back in whole pieces, whatever the slabs hold that it comes through.
TEST_F(PackedPlanes, ComeBackThroughSlabsThatEndWithinAPiece) {
  HostBuffer slabs = *host_->staging().Take(3);
  for (HostPiece& slab : slabs) slab.size_bytes = 5000;
  const std::unique_ptr<ResidentMemory> resident = NewResidentMemory(std::move(slabs));
  Draws draws(12);
  for (int i = 0; i < 6; ++i) {
    QuantizedProduct product = Draw({3, 256 + draws.Below(256), 512}, &draws, true);
    for (const auto& [plane, data] : PlanesOfB(&product)) {
      const std::uint64_t bytes = PlaneBytes(product.problem, plane);
      const auto stored = resident->Store(product.problem, plane, data);
      ASSERT_TRUE(stored.ok()) << stored.status();
      std::string fetched(bytes, '?');
      ASSERT_TRUE(resident->Fetch(**stored, fetched.data()).ok());
      EXPECT_EQ(std::memcmp(fetched.data(), data, bytes), 0) << ToString(product.problem);
    }
  }
  EXPECT_TRUE(AllIsFree());
}

TEST_F(PackedWeights, PlanesMayComeInParts) {
  Draws draws(7);
  std::mt19937 random(8);
  for (int i = 0; i < 20; ++i) {
    const Shape shape = {3, 64 + draws.Below(340), 64 * (1 + draws.Below(9))};
    QuantizedProduct product = Draw(shape, &draws, true);
    const auto* const codes = static_cast<const char*>(product.arguments().b);
    const std::uint64_t bytes = product.problem.b.size_bytes();
    auto arrival = device_->BeginStore(product.problem, WorkPlane::kB);
    ASSERT_TRUE(arrival.ok()) << arrival.status();
    std::vector<std::pair<std::uint64_t, std::uint64_t>> parts;
    for (std::uint64_t at = 0; at < bytes; at = parts.back().second) {
      parts.emplace_back(at, std::min<std::uint64_t>(bytes, at + 1 + random() % 3000));
    }
    std::shuffle(parts.begin(), parts.end(), random);
    for (const auto& [begin, end] : parts) {
      ASSERT_TRUE((*arrival)->Bring(codes, begin, end).ok());
    }
    const auto landed = (*arrival)->Finish();
    ASSERT_TRUE(landed.ok()) << landed.status();
    EXPECT_TRUE(Fetched(**landed, bytes) == std::string(codes, bytes));
  }
  EXPECT_TRUE(AllIsFree());
}

// A and D in panels, as long products go.
TEST_F(PackedWeights, LongProductsGoInPanels) {
  Draws draws(9);
  QuantizedProduct product = Draw({1100, 128, 64}, &draws, true);
  const DeviceWork work = WorkOf(&product);
  ASSERT_TRUE(Submit(work).get().status.ok());
  ExpectRight(work, &product);
}

// Columns [n_begin, n_end) of a packed B are what packing them alone gives.
TEST_F(PackedWeights, APanelOfColumnsHasItsOwnBytes) {
  Draws draws(10);
  for (int i = 0; i < 12; ++i) {
    QuantizedProduct product =
        Draw({1, 600 + draws.Below(100), 64 * (1 + draws.Below(4))}, &draws, true);
    const Problem& problem = product.problem;
    Problem plain = problem;
    plain.b_packing = Packing::kNone;
    const std::int64_t step = PanelColumnStep(problem);
    const Panel panel = {0, 1, step * (1 + draws.Below(2)), problem.n};
    const Problem part = PanelProblem(problem, panel);
    const PanelOffsets offsets = OffsetsOf(problem, panel);
    const PanelOffsets sent_offsets = OffsetsOf(plain, panel);
    for (const auto& [plane, data] : PlanesOfB(&product)) {
      const auto whole = device_->Store(problem, plane, data);
      ASSERT_TRUE(whole.ok()) << whole.status();
      const std::uint64_t bytes = PackedBytes(part, *PackedPlaneOf(part, plane));
      const HostBuffer alone = AllocateHostBuffer(bytes + 128);
      char* const at = alone.front().data +
                       (128 - reinterpret_cast<std::uintptr_t>(alone.front().data) % 128) % 128;
      emulator::Session session;
      LaunchTarget target;
      target.emulator = &session;
      ASSERT_TRUE(PackPlane(part, *PackedPlaneOf(part, plane),
                            static_cast<const char*>(data) + sent_offsets[plane], at, target)
                      .ok());
      EXPECT_EQ(std::memcmp(at, static_cast<const char*>((*whole)->data()) + offsets[plane], bytes),
                0)
          << ToString(problem);
    }
  }
}

TEST_F(PackedWeights, JoinedRowsHaveTheBitsTheyHaveAlone) {
  Draws draws(11);
  QuantizedProduct product = Draw({1, 256, 192}, &draws, true);
  const DeviceWork first = WorkOf(&product);
  std::vector<testing::QuantizedOperand> rows;
  std::vector<DeviceWork> works;
  std::vector<std::string> alone;
  for (int i = 0; i < 21; ++i) {
    testing::Draws::Limits limits;
    limits.is_tight = limits.is_k_major = true;
    rows.push_back(draws.Lines({product.problem.a.type, Scaling::kNone}, 1, 192, true, limits));
    works.push_back(first);
    works.back().problem.a = rows.back().layout;
    works.back().problem.transpose_a = rows.back().transpose;
    works.back().buffers[WorkPlane::kA] = rows.back().codes.data();
    works.back().buffers.d = *device_->AllocateResult(product.problem.d);
  }
  for (std::size_t i = 0; i < works.size(); ++i) {
    works[i].buffers[WorkPlane::kA] = rows[i].codes.data();
    ASSERT_TRUE(Submit(works[i]).get().status.ok());
    alone.push_back(Bytes(works[i]));
    for (const HostPiece& piece : works[i].buffers.d) std::memset(piece.data, 7, piece.size_bytes);
  }
  const Plan plan = PlanOf(JoinedRows(works));
  EXPECT_EQ(plan.numerics_id, first.plan.numerics_id);
  std::promise<DeviceResult> done;
  device_->Submit(DeviceLaunch::Rows(works, plan),
                  [&done](DeviceResult result) { done.set_value(std::move(result)); });
  ASSERT_TRUE(done.get_future().get().status.ok());
  for (std::size_t i = 0; i < works.size(); ++i) EXPECT_TRUE(Bytes(works[i]) == alone[i]) << i;
}

}  // namespace
}  // namespace gemmd
