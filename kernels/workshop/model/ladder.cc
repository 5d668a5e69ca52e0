#include "kernels/workshop/model/ladder.h"

#include <array>
#include <cstddef>
#include <vector>

#include "kernels/mma/ring.h"
#include "kernels/workshop/blackwell_mxfp8/ladder_d_params.h"
#include "kernels/workshop/blackwell_mxfp8/ladder_d_steps.h"
#include "kernels/workshop/model/wave_arithmetic.h"

namespace gemmd::model {
namespace {

using blackwell_mxfp8::D0;
using blackwell_mxfp8::D1;
using blackwell_mxfp8::D10;
using blackwell_mxfp8::D11;
using blackwell_mxfp8::D12;
using blackwell_mxfp8::D13;
using blackwell_mxfp8::D2;
using blackwell_mxfp8::D3;
using blackwell_mxfp8::D4;
using blackwell_mxfp8::D5;
using blackwell_mxfp8::D6;
using blackwell_mxfp8::D7;
using blackwell_mxfp8::D8;
using blackwell_mxfp8::D9;

// Layouts of d9 that no kernel has.
struct TwoLargeBuffers : D9 {
  static constexpr int kBoxes = 2;
};
struct ShortStages : TwoLargeBuffers {
  static constexpr int kTileK = 128;
};

template <class Step, bool kTensorStores>
KernelShape LayoutShape(int side) {
  using Layout = blackwell_mxfp8::LadderDLayout<Step, kTensorStores>;
  static_assert(Step::kTileM == kTileRows && Layout::kBlock == kScaleBlock);
  KernelShape shape;
  shape.columns = Step::kTileN;
  shape.depth = Step::kTileK;
  shape.overlap = Step::kOverlap;
  shape.read_columns = Step::kLoadColumns;
  shape.stages = Layout::kStages;
  shape.store_buffers = Layout::kBoxes;
  shape.store_columns = Layout::kBoxColumns;
  shape.multicasts_scales = Step::kSharesBScales;
  const bool is_hilbert =
      Step::kOrder == blackwell_mxfp8::TileOrder::kHilbert ||
      (Step::kOrder == blackwell_mxfp8::TileOrder::kLargeHilbert && side >= Step::kLargeFrom);
  shape.order = is_hilbert ? TileOrder::kHilbert : TileOrder::kLinear;
  return shape;
}

using ShapeOfSide = KernelShape(int side);

template <class Step>
KernelShape StepShape(int side) {
  if constexpr (Step::kStores != blackwell_mxfp8::StoreWay::kThreads) {
    const bool is_wanted =
        Step::kStores == blackwell_mxfp8::StoreWay::kTensor || side >= Step::kLargeFrom;
    if (is_wanted) return LayoutShape<Step, true>(side);
  }
  return LayoutShape<Step, false>(side);
}

template <class Step>
StoreForm FormOf(const char* name, int side) {
  return {name, blackwell_mxfp8::LadderDLayout<Step, true>::kSharedBytes, StepShape<Step>(side)};
}

}  // namespace

const Step& StepOf(int step) {
  static constexpr std::array<Step, kSteps> kLadder = {{
      {"tiles of 256x128, two accumulators", true},
      {"N of 256, accumulators share 128 columns", true},
      {"stores of 32 bytes a thread", false},
      {"256 of K a stage", true},
      {"scales of B multicast", true},
      {"no index known at run time only", false},
      {"Hilbert order", true},
      {"stores pass L1 by", false},
      {"Hilbert order from 8192 up", true},
      {"stores staged, by TMA", true},
      {"stores staged from 8192 up", true},
      {"accumulators share 64 columns", true},
      {"as 10; a last wave of half tiles where one holds them", true},
      {"threads that issue are elected", false},
  }};
  return kLadder[static_cast<std::size_t>(step)];
}

bool IsModelled(int step, int side) {
  // The article's gain of step 8 at 2048 cubed has no account in anything that the model has.
  return StepOf(step).is_modelled && !(step == 8 && side == 2048);
}

KernelShape ShapeOf(int step, int side) {
  static constexpr std::array<ShapeOfSide*, kSteps> kShapes = {
      StepShape<D0>,  StepShape<D1>,  StepShape<D2>,  StepShape<D3>, StepShape<D4>,
      StepShape<D5>,  StepShape<D6>,  StepShape<D7>,  StepShape<D8>, StepShape<D9>,
      StepShape<D10>, StepShape<D11>, StepShape<D12>, StepShape<D13>};
  static constexpr std::array<int, kSteps> kInstructions = {147, 162, 162, 296, 296, 289, 289,
                                                            289, 289, 289, 289, 291, 308, 159};
  const auto at = static_cast<std::size_t>(step);
  KernelShape shape = kShapes[at](side);
  shape.stage_instructions = kInstructions[at];
  return shape;
}

KernelShape WithColumns(const KernelShape& shape, int columns) {
  KernelShape other = shape;
  other.columns = columns;
  using Layout = blackwell_mxfp8::LadderDLayout<D0, false>;
  other.stages = mma::FittingStages(
      blackwell_mxfp8::kMaxSharedBytes - other.StoreBytes() - static_cast<int>(Layout::kOtherBytes),
      other.StageBytes(), Layout::kMostStages);
  return other;
}

std::vector<StoreForm> StoreForms(int side) {
  return {FormOf<D9>("one buffer of 16 KB: step 9, as published", side),
          FormOf<blackwell_mxfp8::D9Boxes>("two of 8 KB: `d9_boxes`", side),
          FormOf<TwoLargeBuffers>("two of 16 KB", side),
          FormOf<ShortStages>("two of 16 KB, 128 of K a stage", side)};
}

Schedule ScheduleOf(int step, int side, const Machine& machine) {
  const KernelShape shape = ShapeOf(step, side);
  const Problem problem = {side, side, side};
  const std::vector<WorkUnit> tiles = OrderedTiles(shape, problem);
  if (step >= 12 && NarrowTailPays(static_cast<int>(tiles.size()), machine.Pairs())) {
    return NarrowTail(shape, problem, machine.Pairs());
  }
  return Persistent(tiles, machine.Pairs());
}

}  // namespace gemmd::model
