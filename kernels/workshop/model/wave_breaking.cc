#include "kernels/workshop/model/wave_breaking.h"

#include "kernels/workshop/model/ladder.h"
#include "kernels/workshop/model/wave_arithmetic.h"

namespace gemmd::model {

std::vector<Variant> Variants(const Machine& machine, int side) {
  const int pairs = machine.Pairs();
  const Problem problem = {side, side, side};
  const KernelShape whole = ShapeOf(10, side);
  const KernelShape half = WithColumns(whole, whole.columns / 2);
  const double half_cost = half.SlabClocks(machine) / whole.SlabClocks(machine);
  const int rows = CeilOfRatio(side, kTileRows);
  const int tiles = rows * CeilOfRatio(side, whole.columns);
  const auto play = [&](const KernelShape& shape, const Schedule& schedule) {
    return Simulate(machine, shape, problem, schedule);
  };

  std::vector<Variant> variants;
  variants.push_back({"tiles of 256x256", true, true, WavesOfTiles(tiles, pairs),
                      WavesOfTiles(tiles, pairs),
                      play(whole, Persistent(OrderedTiles(whole, problem), pairs))});
  for (const int columns : {192, 128}) {
    KernelShape narrow = WithColumns(whole, columns);
    narrow.overlap = 0;  // two of them fit beside their scales
    narrow.read_columns = 64;
    const double waves = WavesOfTiles(rows * CeilOfRatio(side, columns), pairs);
    variants.push_back({"tiles of 256x" + std::to_string(columns), true, true,
                        waves * columns / whole.columns,
                        waves * narrow.SlabClocks(machine) / whole.SlabClocks(machine),
                        play(narrow, Persistent(OrderedTiles(narrow, problem), pairs))});
  }
  variants.push_back(
      {"256x256, the last wave 256x128", true, true, WavesOfNarrowTail(tiles, pairs, 0.5),
       WavesOfNarrowTail(tiles, pairs, half_cost), play(whole, NarrowTail(whole, problem, pairs))});
  variants.push_back({"256x256 in two halves of K", true, false, WavesOfHalvesOfK(tiles, pairs),
                      WavesOfHalvesOfK(tiles, pairs),
                      play(whole, HalvesOfK(whole, problem, pairs))});
  variants.push_back({"stream-K over the last wave and the one before", false, false,
                      WavesOfStreamK(tiles, pairs), WavesOfStreamK(tiles, pairs),
                      play(whole, StreamK(whole, problem, pairs))});
  return variants;
}

}  // namespace gemmd::model
