// The parameters of kernels of vectors.
#pragma once

#include <cstdint>

namespace gemmd::conformance {

struct VectorParams {
  std::uint32_t set = 0;            // its number, part of every key
  std::uint32_t first_block = 0;    // of the set; the grid has the blocks from here
  std::uint64_t* hashes = nullptr;  // one for each thread of the grid
  std::uint32_t* words = nullptr;   // every result, in the order of positions; may be null
};

}  // namespace gemmd::conformance
