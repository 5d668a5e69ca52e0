// Shapes are those of ladder D's kernels: stages, bytes and columns.
#include "kernels/workshop/model/kernel_shape.h"

#include <gtest/gtest.h>

#include "kernels/workshop/blackwell_mxfp8/ladder_d_params.h"
#include "kernels/workshop/model/ladder.h"

namespace gemmd::model {
namespace {

TEST(KernelShape, StagesFitSharedMemory) {
  const auto stages = [](int step) { return ShapeOf(step, 8192).stages; };
  EXPECT_EQ(ShapeOf(0, 8192).StageBytes(), 25600);
  EXPECT_EQ(stages(0), 8);
  EXPECT_EQ(ShapeOf(1, 8192).StageBytes(), 34304);
  EXPECT_EQ(stages(1), 6);
  EXPECT_EQ(ShapeOf(3, 8192).StageBytes(), 68608);
  EXPECT_EQ(stages(3), 3);
  EXPECT_EQ(ShapeOf(9, 8192).StoreBytes(), 16384);
  EXPECT_EQ(stages(9), 3);
}

// WithColumns() makes shapes that no kernel has, and counts as kernels do.
TEST(KernelShape, StagesAreCountedAsTheKernelsCountThem) {
  for (int step = 0; step < kSteps; ++step) {
    for (const int side : {2048, 8192}) {
      const KernelShape shape = ShapeOf(step, side);
      EXPECT_EQ(WithColumns(shape, shape.columns).stages, shape.stages) << step << " " << side;
    }
  }
  EXPECT_EQ(WithColumns(ShapeOf(10, 8192), 128).stages, 4);
}

template <class Step, bool kTensorStores>
void ExpectLayoutOf(int step, int side) {
  using Layout = blackwell_mxfp8::LadderDLayout<Step, kTensorStores>;
  const KernelShape shape = ShapeOf(step, side);
  EXPECT_EQ(shape.StageBytes(), int{Layout::kStageBytes}) << step;
  EXPECT_EQ(shape.stages, int{Layout::kStages}) << step;
  EXPECT_EQ(shape.StoreBytes(), int{Layout::kBoxes * Layout::kBoxBytes}) << step;
}

TEST(KernelShape, OfAStepIsItsKernelsLayout) {
  ExpectLayoutOf<blackwell_mxfp8::D0, false>(0, 8192);
  ExpectLayoutOf<blackwell_mxfp8::D3, false>(3, 8192);
  ExpectLayoutOf<blackwell_mxfp8::D9, true>(9, 2048);
  ExpectLayoutOf<blackwell_mxfp8::D10, false>(10, 2048);
  ExpectLayoutOf<blackwell_mxfp8::D10, true>(10, 8192);
  ExpectLayoutOf<blackwell_mxfp8::D12, true>(12, 8192);
}

TEST(KernelShape, AccumulatorsOfTheNaiveLayoutsDoNotFitTensorMemory) {
  const Machine machine;
  KernelShape naive = ShapeOf(1, 8192);
  naive.overlap = 0;
  EXPECT_EQ(naive.TensorColumns(), 524);
  naive.depth = 256;
  EXPECT_EQ(naive.TensorColumns(), 536);
  for (int step = 0; step < kSteps; ++step) {
    for (const int side : {2048, 8192}) {
      EXPECT_LE(ShapeOf(step, side).TensorColumns(), machine.tensor_columns) << step;
    }
  }
}

TEST(KernelShape, ATileOfHalfTheWidthWaitsForItsBytes) {
  const Machine machine;
  const KernelShape wide = ShapeOf(10, 8192);
  KernelShape narrow = wide;
  narrow.columns = 128;
  EXPECT_EQ(wide.TensorClocks(machine), 512);
  EXPECT_EQ(wide.PortClocks(machine), 536);
  EXPECT_EQ(wide.SharedClocks(machine), 536);
  EXPECT_EQ(narrow.TensorClocks(machine), 256);
  EXPECT_EQ(narrow.SlabClocks(machine), 400);
}

TEST(KernelShape, TheClockIsThatOfTheDatasheet) {
  EXPECT_NEAR(Machine{}.ClockHz(), 1.856e9, 1e6);
  EXPECT_EQ(Machine{}.Pairs(), 74);
}

}  // namespace
}  // namespace gemmd::model
