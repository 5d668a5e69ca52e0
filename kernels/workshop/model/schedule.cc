#include "kernels/workshop/model/schedule.h"

#include <algorithm>

#include "base/math.h"
#include "kernels/mma/tile_order.h"

namespace gemmd::model {
namespace {}  // namespace

std::vector<WorkUnit> OrderedTiles(const KernelShape& shape, const Problem& problem) {
  const int rows = CeilOfRatio(problem.m, kTileRows);
  const int columns = CeilOfRatio(problem.n, shape.columns);
  std::vector<WorkUnit> tiles;
  for (int at = 0; at < rows * columns; ++at) {
    const mma::TilePlace place = shape.order == TileOrder::kHilbert
                                     ? mma::GeneralHilbertTile(at, rows, columns)
                                     : mma::TilePlace{at / columns, at % columns};
    WorkUnit tile;
    tile.row = place.row * kTileRows;
    tile.column = place.column * shape.columns;
    tile.columns = shape.columns;
    tile.slabs = problem.Slabs();
    tiles.push_back(tile);
  }
  return tiles;
}

Schedule Persistent(const std::vector<WorkUnit>& tiles, int pairs) {
  Schedule schedule;
  schedule.of_pair.resize(static_cast<std::size_t>(pairs));
  for (std::size_t at = 0; at < tiles.size(); ++at) {
    schedule.of_pair[at % static_cast<std::size_t>(pairs)].push_back(tiles[at]);
  }
  return schedule;
}

Schedule NarrowTail(const KernelShape& shape, const Problem& problem, int pairs) {
  const std::vector<WorkUnit> tiles = OrderedTiles(shape, problem);
  const std::size_t whole = tiles.size() / pairs * pairs;
  std::vector<WorkUnit> units(tiles.begin(), tiles.begin() + static_cast<std::ptrdiff_t>(whole));
  for (std::size_t at = whole; at < tiles.size(); ++at) {
    for (const int half : {0, 1}) {
      WorkUnit unit = tiles[at];
      unit.columns /= 2;
      unit.column += half * unit.columns;
      units.push_back(unit);
    }
  }
  return Persistent(units, pairs);
}

Schedule HalvesOfK(const KernelShape& shape, const Problem& problem, int pairs) {
  const int first = CeilOfRatio(problem.Slabs(), 2);
  std::vector<WorkUnit> units = OrderedTiles(shape, problem);
  const std::size_t tiles = units.size();
  for (std::size_t at = 0; at < tiles && first < problem.Slabs(); ++at) {
    WorkUnit second = units[at];
    units[at].slabs = first;
    second.first_slab = first;
    second.slabs -= first;
    second.output = Output::kAdd;
    units.push_back(second);
  }
  return Persistent(units, pairs);
}

Schedule StreamK(const KernelShape& shape, const Problem& problem, int pairs) {
  const std::vector<WorkUnit> tiles = OrderedTiles(shape, problem);
  const std::size_t waves = tiles.size() / pairs;
  const bool fits = tiles.size() % pairs == 0;
  const std::size_t whole = fits ? tiles.size() : (waves == 0 ? 0 : waves - 1) * pairs;
  Schedule schedule =
      Persistent({tiles.begin(), tiles.begin() + static_cast<std::ptrdiff_t>(whole)}, pairs);
  const int slabs = problem.Slabs();
  const std::int64_t rest = static_cast<std::int64_t>(tiles.size() - whole) * slabs;
  for (int pair = 0; pair < pairs; ++pair) {
    std::int64_t at = rest * pair / pairs;
    const std::int64_t end = rest * (pair + 1) / pairs;
    while (at < end) {
      const WorkUnit& tile = tiles[whole + static_cast<std::size_t>(at / slabs)];
      WorkUnit unit = tile;
      unit.first_slab = static_cast<int>(at % slabs);
      unit.output = unit.first_slab > 0 ? Output::kPartial : Output::kStore;
      unit.slabs = static_cast<int>(std::min<std::int64_t>(slabs - unit.first_slab, end - at));
      if (unit.first_slab == 0 && unit.slabs < slabs) {
        // Each other part that begins in this tile is another pair's, and leaves a sum to add.
        const std::int64_t last = at + slabs - 1;
        for (int other = pair + 1; other < pairs && rest * other / pairs <= last; ++other) {
          ++unit.partial_sums;
        }
      }
      schedule.of_pair[static_cast<std::size_t>(pair)].push_back(unit);
      at += unit.slabs;
    }
  }
  return schedule;
}

}  // namespace gemmd::model
