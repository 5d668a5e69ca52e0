// Tests how operands land, are cut and leave: pure functions.
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/device/cuda/backend/errors.h"
#include "server/device/cuda/planes/landing.h"
#include "server/device/cuda/planes/panels.h"
#include "server/device/cuda/planes/plane.h"
#include "tests/testing/products/reference_kernel.h"

namespace gemmd {
namespace {

constexpr std::uint64_t kPanelBytes = 4 << 20;

Plan PlanOf(const Kernel& kernel, const Problem& problem) {
  Plan plan;
  plan.kernel = &kernel;
  plan.numerics_id = kernel.NumericsId(problem);
  return plan;
}

Residency Resident(std::initializer_list<WorkPlane> planes) {
  Residency residency;
  for (const WorkPlane plane : planes) residency[plane] = true;
  return residency;
}

TEST(Landing, LinesStartAtSectorsWhereThatIsCheap) {
  const Problem ragged = MakeProblem(1023, 4095, 4097, DataType::kBf16, DataType::kBf16);
  const Problem landed = LandedProblem(ragged);
  EXPECT_EQ(landed.a.leading_dimension, 4160);
  EXPECT_EQ(landed.b.leading_dimension, 4096);
  EXPECT_EQ(landed.m, 1023);
  const Problem narrow = LandedProblem(MakeProblem(3, 5, 7, DataType::kF32, DataType::kF32));
  EXPECT_EQ(narrow.a.leading_dimension, 8);
  EXPECT_EQ(narrow.d.leading_dimension, 8);
}

TEST(Landing, EightBitOperandsAreKMajorAndWhole) {
  const Problem sent = MakeProblem(5, 17, 33, DataType::kInt8, DataType::kInt32);
  const Problem landed = LandedProblem(sent);
  EXPECT_FALSE(sent.b_is_k_major());
  EXPECT_TRUE(landed.a_is_k_major() && landed.b_is_k_major());
  EXPECT_EQ(landed.m, 16);
  EXPECT_EQ(landed.n, 32);
  EXPECT_EQ(landed.k, 48);
  EXPECT_EQ(landed.b.rows, 48);
  EXPECT_EQ(landed.b.columns, 32);
  EXPECT_FALSE(IsTransposed(sent.a, landed.a));
  EXPECT_TRUE(IsTransposed(sent.b, landed.b));
}

TEST(Landing, PartsOfABlockDoNotOverlap) {
  Problem sent = MakeProblem(100, 200, 300, DataType::kInt8, DataType::kF32, true);
  sent.epilogue.beta = 1;
  sent.epilogue.has_bias = true;
  sent.a_scaling = Scaling::kVector;
  sent.b_scaling = Scaling::kTensor;
  const AllocationLayout block = LayOutBlock(sent, LandedProblem(sent), {}, 1000);
  const AllocationLayout::Part* const parts[] = {&block.inputs[WorkPlane::kA],
                                                 &block.inputs[WorkPlane::kB],
                                                 &block.inputs[WorkPlane::kC],
                                                 &block.inputs[WorkPlane::kBias],
                                                 &block.inputs[WorkPlane::kAScales],
                                                 &block.inputs[WorkPlane::kBScales],
                                                 &block.landed[WorkPlane::kA],
                                                 &block.landed[WorkPlane::kB],
                                                 &block.d,
                                                 &block.workspace};
  std::uint64_t end = 0;
  for (const AllocationLayout::Part* part : parts) {
    EXPECT_GT(part->bytes, 0u);
    EXPECT_EQ(part->offset % 256, 0u);
    EXPECT_GE(part->offset, end);
    end = part->end();
  }
  EXPECT_GE(block.total_bytes, end);
  EXPECT_LE(block.inputs[WorkPlane::kBScales].end(), block.inputs_bytes);
  const AllocationLayout without_b =
      LayOutBlock(sent, LandedProblem(sent), Resident({WorkPlane::kB}), 1000);
  EXPECT_EQ(without_b.inputs[WorkPlane::kB].bytes + without_b.landed[WorkPlane::kB].bytes, 0u);
}

// Panels cover the product once, in order; each is a problem that starts where it should.
TEST(Panels, CoverTheProductOnce) {
  const testing::ReferenceKernel kernel;
  for (const auto& [m, n] : {std::pair<int, int>{10000, 500}, {500, 10000}, {6000, 6000}}) {
    const Problem landed = LandedProblem(MakeProblem(m, n, 4000, DataType::kF32, DataType::kF32));
    const std::vector<Panel> panels =
        CutIntoPanels(landed, {}, PlanOf(kernel, landed), kPanelBytes);
    EXPECT_LE(panels.size(), 8u);
    EXPECT_GE(panels.size(), 6u);
    std::int64_t covered = 0;
    for (const Panel& panel : panels) {
      const Problem part = PanelProblem(landed, panel);
      covered += part.m * part.n;
      EXPECT_TRUE(panel.m_begin == 0 || panel.n_begin == 0);
      EXPECT_EQ(part.a.rows, part.m);
      EXPECT_EQ(part.b.columns, part.n);
      EXPECT_EQ(OffsetsOf(landed, panel).d,
                4u * static_cast<std::uint64_t>(panel.m_begin * landed.d.leading_dimension +
                                                panel.n_begin));
      EXPECT_EQ(OffsetsOf(landed, panel)[WorkPlane::kBias],
                4u * static_cast<std::uint64_t>(panel.n_begin));
    }
    EXPECT_EQ(covered, landed.m * landed.n);
  }
}

TEST(Panels, WhatIsSmallOrResidentIsNotCut) {
  const testing::ReferenceKernel kernel;
  const Problem landed = LandedProblem(MakeProblem(4000, 64, 1000, DataType::kF32, DataType::kF32));
  const Plan plan = PlanOf(kernel, landed);
  EXPECT_GT(CutIntoPanels(landed, {}, plan, kPanelBytes).size(), 1u);
  EXPECT_EQ(CutIntoPanels(landed, Resident({WorkPlane::kA}), plan, kPanelBytes).size(), 1u);
  EXPECT_EQ(CutIntoPanels(landed, {}, plan, kPanelBytes * 8).size(), 1u);
}

// A smaller panel of f32 or f64 would be computed later than the next one's operands come.
TEST(Panels, AreAsHighAsATileTakesToCompute) {
  const testing::ReferenceKernel kernel;
  for (const auto& [type, least] : {std::pair<DataType, std::int64_t>{DataType::kF64, 512},
                                    {DataType::kF32, 512},
                                    {DataType::kBf16, 256}}) {
    const Problem landed = LandedProblem(MakeProblem(2048, 64, 16384, type, type));
    const std::vector<Panel> panels =
        CutIntoPanels(landed, {}, PlanOf(kernel, landed), kPanelBytes);
    EXPECT_EQ(panels.front().rows(), least) << Name(type);
  }
}

// It leaves in panels, while the next ones are computed.
TEST(Panels, WhatHasALargeResultAloneIsCutToo) {
  const testing::ReferenceKernel kernel;
  const Problem landed = LandedProblem(MakeProblem(4000, 4000, 8, DataType::kF32, DataType::kF32));
  EXPECT_EQ(CutIntoPanels(landed, {}, PlanOf(kernel, landed), kPanelBytes).size(), 8u);
  EXPECT_EQ(CutIntoPanels(landed, Resident({WorkPlane::kA, WorkPlane::kB}), PlanOf(kernel, landed),
                          kPanelBytes)
                .size(),
            8u);
}

// Bits that depend on M or N must not depend on the cut.
TEST(Panels, AKernelWhoseBitsDependOnTheShapeIsNotCutInTheDefaultClass) {
  class ByShape final : public testing::ReferenceKernel {
   public:
    explicit ByShape(Determinism determinism) : ReferenceKernel("test/by_shape", determinism) {}
    std::string NumericsId(const Problem& problem) const override {
      return absl::StrCat(problem.m, "x", problem.n);
    }
  };
  const Problem landed = LandedProblem(MakeProblem(8000, 64, 1000, DataType::kF32, DataType::kF32));
  const ByShape invariant(Determinism::kBatchInvariant);
  EXPECT_EQ(CutIntoPanels(landed, {}, PlanOf(invariant, landed), kPanelBytes).size(), 1u);
  const ByShape fast(Determinism::kFast);
  EXPECT_GT(CutIntoPanels(landed, {}, PlanOf(fast, landed), kPanelBytes).size(), 1u);
}

// Copies of all panels bring every element to its place, once, whatever the slabs.
TEST(Plane, PiecesAndPanelsBringEveryElementOnce) {
  for (const std::int64_t columns : {5, 700}) {
    for (const std::int64_t padding : {0, 3}) {
      for (const std::uint64_t slab : {128, 1000, 1 << 20}) {
        const MatrixLayout d{DataType::kF32, 40, columns, Order::kRowMajor, columns + padding};
        const std::uint64_t device_pitch = static_cast<std::uint64_t>(columns + 9) * 4;
        std::string device(device_pitch * 40, '\0');
        for (std::size_t i = 0; i < device.size(); ++i) device[i] = static_cast<char>(i % 251);
        HostBuffer pieces;
        std::uint64_t sum = 0;
        for (const PlanePiece& piece : CutPlane(d, slab)) {
          EXPECT_LE(piece.size_bytes, slab);
          sum += piece.size_bytes;
          pieces.push_back(AllocateHostBuffer(piece.size_bytes).front());
          std::memset(pieces.back().data, 'x', piece.size_bytes);
        }
        ASSERT_EQ(sum, d.size_bytes());
        for (const Panel& panel : {Panel{0, 40, 0, 3}, Panel{0, 40, 3, columns}}) {
          const PlaneRect rect = RectOfD(d, panel);
          for (const CudaRect& copy : CopiesToPieces(
                   d, pieces, rect, device.data() + StartOf(rect, device_pitch), device_pitch)) {
            for (std::uint64_t line = 0; line < copy.lines; ++line) {
              std::memcpy(static_cast<char*>(copy.to) + line * copy.to_pitch,
                          static_cast<const char*>(copy.from) + line * copy.from_pitch, copy.width);
            }
          }
        }
        std::string plane;
        for (const HostPiece& piece : pieces) plane.append(piece.data, piece.size_bytes);
        const auto width = static_cast<std::size_t>(columns) * 4;
        const auto pitch = static_cast<std::size_t>(columns + padding) * 4;
        for (std::size_t line = 0; line < 40; ++line) {
          ASSERT_EQ(plane.substr(line * pitch, width), device.substr(line * device_pitch, width));
          if (line == 39) continue;
          ASSERT_EQ(plane.substr(line * pitch + width, pitch - width),
                    std::string(pitch - width, 'x'));
        }
      }
    }
  }
}

TEST(Plane, NeighbouringSlabsAreOneCopy) {
  const MatrixLayout d{DataType::kF32, 64, 256, Order::kRowMajor, 256};
  std::string memory(64 * 1024, '\0');
  HostBuffer pieces;
  for (std::size_t i = 0; i < 4; ++i) pieces.push_back({memory.data() + i * 16384, 16384, nullptr});
  EXPECT_EQ(CopiesToPieces(d, pieces, WholePlane(d), memory.data(), 1024).size(), 1u);
  std::swap(pieces[1].data, pieces[2].data);
  EXPECT_EQ(CopiesToPieces(d, pieces, WholePlane(d), memory.data(), 1024).size(), 4u);
}

TEST(Errors, StickyOnesLoseTheDevice) {
  EXPECT_TRUE(CudaStatus(0, "", "", "").ok());
  EXPECT_TRUE(absl::IsResourceExhausted(CudaStatus(2, "cudaErrorMemoryAllocation", "", "")));
  EXPECT_FALSE(IsDeviceLost(CudaStatus(701, "cudaErrorLaunchOutOfResources", "", "")));
  for (const int code : {46, 214, 220, 700, 702, 716, 719, 999}) {
    EXPECT_TRUE(IsDeviceLost(CudaStatus(code, "", "", ""))) << code;
  }
  EXPECT_EQ(
      CudaStatus(700, "cudaErrorIllegalAddress", "an illegal address", "cudaEventQuery").message(),
      "cudaEventQuery: cudaErrorIllegalAddress (700), an illegal address");
}

}  // namespace
}  // namespace gemmd
