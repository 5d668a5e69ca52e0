// The static schedule of a persistent kernel: the tiles of each pair of blocks, in order.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/workshop/model/kernel_shape.h"

namespace gemmd::model {

enum class Output : std::uint8_t {
  kStore,    // to D
  kAdd,      // to what D holds
  kPartial,  // to a workspace, for the pair that has the tile's first slab
};

// A part of D times a part of K, which one pair computes in one accumulator.
struct WorkUnit {
  int row = 0;     // of the first element of D
  int column = 0;  // of it
  int columns = 0;
  int first_slab = 0;
  int slabs = 0;  // of 128 of K
  Output output = Output::kStore;
  // The number of partial sums of other pairs that its epilogue waits for and adds.
  int partial_sums = 0;
};

struct Problem {
  int m = 0;
  int n = 0;
  int k = 0;
  int Slabs() const { return (k + kSlab - 1) / kSlab; }
};

struct Schedule {
  std::vector<std::vector<WorkUnit>> of_pair;
};

// Tiles of shape.columns in shape.order; pair p takes the tiles p, p + pairs, ...
// Whole tiles: an edge that no tile fills costs as if one did.
std::vector<WorkUnit> OrderedTiles(const KernelShape& shape, const Problem& problem);
Schedule Persistent(const std::vector<WorkUnit>& tiles, int pairs);

// The other ways to cut D, for shapes whose last wave is not full:

// Whole waves of tiles; what is left, as tiles of half the width.
Schedule NarrowTail(const KernelShape& shape, const Problem& problem, int pairs);
// Each tile as two halves of K: all first halves, which store, then all second halves, which add. A
// sum is (first half) + (second half) whatever M is. An add waits for its store; where there is a
// wave of tiles at least, the store was done long before, and the model leaves the wait out.
Schedule HalvesOfK(const KernelShape& shape, const Problem& problem, int pairs);
// Stream-K: whole waves but one by tiles; the rest in equal parts of K, a pair's parts side by
// side. The pair that has a tile's last part stores partial sums, and the pair that has its first
// part adds them.
Schedule StreamK(const KernelShape& shape, const Problem& problem, int pairs);

}  // namespace gemmd::model
