// TMA: copies of tensor tiles between global and shared memory. PTX ISA, "Data Movement
// and Conversion Instructions: cp.async.bulk.tensor".
#pragma once

#include <cstdint>

#include "kernels/emulator/machine/call_site.h"
#include "kernels/emulator/memory/tensor_map.h"

namespace gemmd::emulator {

// Element index of a box's corner; parts of the box may lie outside the tensor.
struct Coordinates {
  std::int32_t at[kMaxTensorRank] = {0, 0, 0, 0};
};

// Fills the box at `destination` of each block in `mask`; what lies outside the tensor
// becomes zero. Completes the whole box's bytes on the mbarrier at the same offset of
// each of those blocks.
void TensorLoad(std::uint32_t destination, const TensorMap& map, const Coordinates& corner,
                std::uint32_t mbarrier, std::uint32_t mask, const CallSite& site);
// Does as TensorLoad(), with .cta_group::2: each block's bytes complete on the mbarrier of the even
// or of the odd block of its pair, as `mbarrier` lies in an even or an odd block.
void TensorLoadOfPair(std::uint32_t destination, const TensorMap& map, const Coordinates& corner,
                      std::uint32_t mbarrier, std::uint32_t mask, const CallSite& site);

// cp.async.bulk: fills `bytes` at `destination` of this block, and completes them on its mbarrier.
void BulkLoad(std::uint32_t destination, const void* source, std::uint32_t bytes,
              std::uint32_t mbarrier, const CallSite& site);

// Ends the launch unless `map` is one of MakeTensorMap(): what prefetch.tensormap needs.
void CheckTensorMap(const TensorMap* map, const char* what, const CallSite& site);

// cp.async.bulk.prefetch.tensor: checks the coordinates; touches nothing.
void TensorPrefetch(const TensorMap& map, const Coordinates& corner, const CallSite& site);

// Writes the box at `source` to the tensor. Dimensions but the first are
// clipped by element, the first in units of 16 bytes, as an H200 does: a row that ends
// inside a unit is overwritten to its end.
void TensorStore(const TensorMap& map, std::uint32_t source, const Coordinates& corner,
                 const CallSite& site);

// The thread's bulk stores since the last commit become a group.
void BulkCommit(const CallSite& site);
// Until at most `pending` of the newest groups have shared memory left to read.
void BulkWaitRead(std::uint32_t pending, const CallSite& site);
// Until at most `pending` of the newest groups are incomplete.
void BulkWait(std::uint32_t pending, const CallSite& site);

}  // namespace gemmd::emulator
