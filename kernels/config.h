// A kernel's way to do a problem: tile, stages and so on, as a printable value.
#pragma once

#include <cstdint>
#include <string>

namespace gemmd {

// Fields that a kernel does not have stay 0 and are not printed.
struct Config {
  int tile_m = 0;
  int tile_n = 0;
  int tile_k = 0;
  int stages = 0;
  int cluster_m = 0;
  int cluster_n = 0;
  int warps = 0;
  int raster_group = 0;
  int raster_order = 0;  // of kernels that have several, numbered from 0
  int by_place = 0;      // 1: blocks take tiles by where they lie on the device
  int split_k = 0;
  int threads = 0;    // of the CPU
  int algorithm = 0;  // of a vendor's library, counted from 1 in the order it offers them
  std::uint64_t workspace_bytes = 0;  // of that algorithm
};

bool operator==(const Config& x, const Config& y);
inline bool operator!=(const Config& x, const Config& y) { return !(x == y); }

// "tile=64x512 threads=8"
std::string ToString(const Config& config);

}  // namespace gemmd
