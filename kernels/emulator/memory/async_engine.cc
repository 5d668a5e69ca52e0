#include "kernels/emulator/memory/async_engine.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace gemmd::emulator {
namespace {

// The first pending operation of the same channel.
std::size_t FirstOfChannel(const Grid& grid, std::size_t index) {
  const std::uint64_t channel = grid.operations[index].channel;
  if (channel == 0) return index;
  for (std::size_t i = 0; i < index; ++i) {
    if (grid.operations[i].channel == channel &&
        grid.operations[i].cluster == grid.operations[index].cluster) {
      return i;
    }
  }
  return index;
}

void Land(Grid& grid, std::size_t index) {
  Operation operation = std::move(grid.operations[index]);
  grid.operations.erase(grid.operations.begin() + static_cast<std::ptrdiff_t>(index));
  operation.land();
}

}  // namespace

OperationId Post(Cluster& cluster, std::function<void()> land, std::uint64_t channel) {
  Grid& grid = CurrentGrid();
  const OperationId id = grid.next_operation++;
  if (grid.options.landing == Landing::kEager) {
    land();
    return id;
  }
  grid.operations.push_back({id, channel, &cluster, std::move(land)});
  return id;
}

void LandNow(OperationId id) {
  Grid& grid = CurrentGrid();
  while (true) {
    const auto found =
        std::find_if(grid.operations.begin(), grid.operations.end(),
                     [id](const Operation& operation) { return operation.id == id; });
    if (found == grid.operations.end()) return;
    Land(grid, FirstOfChannel(grid, static_cast<std::size_t>(found - grid.operations.begin())));
  }
}

bool IsPending(OperationId id) {
  const std::vector<Operation>& operations = CurrentGrid().operations;
  return std::any_of(operations.begin(), operations.end(),
                     [id](const Operation& operation) { return operation.id == id; });
}

void LandOne(Grid& grid) {
  Land(grid, FirstOfChannel(grid, grid.random() % grid.operations.size()));
}

void LandAll(Grid& grid, const Cluster& cluster) {
  while (true) {
    const auto found =
        std::find_if(grid.operations.begin(), grid.operations.end(),
                     [&](const Operation& operation) { return operation.cluster == &cluster; });
    if (found == grid.operations.end()) return;
    Land(grid, static_cast<std::size_t>(found - grid.operations.begin()));
  }
}

}  // namespace gemmd::emulator
