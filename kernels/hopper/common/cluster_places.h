// Finds which clusters of a grid lie side by side. Multiprocessors of one GPC ask the L2 for a line
// once, so tiles that share an operand belong on neighbours; but clusters are numbered round robin
// over the GPCs. A launch "by place" numbers them anew, by a permutation that is found once for a
// device (half/device_places.h). A wrong one costs speed and nothing else. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/hopper/common/raster.h"

namespace gemmd::hopper {

inline ClusterPlaces PlainPlaces() {
  ClusterPlaces places;
  std::iota(std::begin(places.number), std::end(places.number), std::uint8_t{0});
  return places;
}

// `clusters` has clusters of several sizes, each as the multiprocessors of its blocks.
// Multiprocessors of one cluster are neighbours, and so are neighbours of neighbours. `first` has
// the multiprocessor of the first block of each cluster of a grid that fills the device; at most
// kMostPlaces.
inline ClusterPlaces PlacesByNeighbours(const std::vector<std::vector<std::uint32_t>>& clusters,
                                        const std::vector<std::uint32_t>& first) {
  std::uint32_t count = 0;
  for (const auto& cluster : clusters) {
    for (const std::uint32_t each : cluster) count = std::max(count, each + 1);
  }
  for (const std::uint32_t each : first) count = std::max(count, each + 1);
  std::vector<std::uint32_t> root(count);
  std::iota(root.begin(), root.end(), 0u);
  const auto find = [&root](std::uint32_t x) {
    while (root[x] != x) x = root[x] = root[root[x]];
    return x;
  };
  for (const auto& cluster : clusters) {
    for (const std::uint32_t each : cluster) root[find(each)] = find(cluster.front());
  }
  // Multiprocessors of small sets, which never joined many others, go last.
  constexpr std::uint32_t kFew = 8;
  std::vector<std::uint32_t> members(count);
  for (std::uint32_t x = 0; x < count; ++x) ++members[find(x)];
  std::vector<std::uint32_t> order(first.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto group = [&](std::uint32_t cluster) {
    const std::uint32_t at = find(first[cluster]);
    return std::pair<bool, std::uint32_t>(members[at] <= kFew, at);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t x, std::uint32_t y) { return group(x) < group(y); });
  ClusterPlaces places = PlainPlaces();
  for (std::size_t i = 0; i < order.size(); ++i)
    places.number[order[i]] = static_cast<std::uint8_t>(i);
  return places;
}

}  // namespace gemmd::hopper
