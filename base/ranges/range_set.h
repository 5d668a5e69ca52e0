// A set of byte ranges: those that have come. A pure data structure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

namespace gemmd {

// Bytes [begin, end).
struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// Neighbours are kept as one, so that what comes in order costs one element. Not thread-safe.
// An empty range adds nothing and overlaps nothing.
class RangeSet {
 public:
  // Adds the range. Returns the parts of it that were not there before, in order.
  std::vector<ByteRange> Add(ByteRange range);

  // False, and nothing is added, where some of the range was there before.
  bool AddNew(ByteRange range);

  // Returns the ranges of [0, size) that are missing, in order. If there are more than `most`, the
  // last one covers all the others, and what came between them. REQUIRES: most > 0.
  std::vector<ByteRange> Missing(std::uint64_t size,
                                 std::size_t most = std::numeric_limits<std::size_t>::max()) const;

  std::size_t size() const { return ranges_.size(); }

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;  // begin to end; neither empty nor touching
};

}  // namespace gemmd
