// Which bytes of a plane have come. A pure data structure.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "server/device/plane_receiver.h"

namespace gemmd {

// Not thread-safe.
class RangeSet {
 public:
  // Adds the range. What of it was not there before, in order.
  std::vector<ByteRange> Add(ByteRange range);

  // What of [0, size) is not there, in order.
  std::vector<ByteRange> Missing(std::uint64_t size) const;

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;  // begin to end; neither empty nor touching
};

}  // namespace gemmd
