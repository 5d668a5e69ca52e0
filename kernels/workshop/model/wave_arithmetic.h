// Counts the waves of whole tiles that the ways to cut D take, by arithmetic alone. A wave is the
// time in which every pair of blocks computes one whole tile. No memory: kernels may choose by it.
#pragma once

#include "base/math.h"

namespace gemmd::model {

constexpr double WavesOfTiles(int tiles, int pairs) { return CeilOfRatio(tiles, pairs); }

// `half_cost`: the time of a tile of half the width, as a share of a whole tile's: 0.5 at the
// tensor core's rate.
constexpr double WavesOfNarrowTail(int tiles, int pairs, double half_cost) {
  const int whole = tiles / pairs;
  return whole + half_cost * CeilOfRatio(2 * (tiles % pairs), pairs);
}

constexpr double WavesOfHalvesOfK(int tiles, int pairs) {
  return CeilOfRatio(2 * tiles, pairs) / 2.0;
}

// Counts products alone, without the sums of parts.
constexpr double WavesOfStreamK(int tiles, int pairs) { return static_cast<double>(tiles) / pairs; }

// The last wave as half tiles: only where all of them fit one wave, since a tile of half the width
// takes more than half the time. REQUIRES: tiles > 0, pairs > 0.
constexpr bool NarrowTailPays(int tiles, int pairs) {
  const int rest = tiles % pairs;
  return rest > 0 && 2 * rest <= pairs;
}

}  // namespace gemmd::model
