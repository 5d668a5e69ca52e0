// A cache of blocks of any size that forgets the one used longest ago.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gemmd::model {

class LruCache {
 public:
  // Blocks are numbers from 0 on; memory is taken for the largest one used.
  explicit LruCache(double bytes);

  bool Has(std::size_t block) const {
    return block + 1 < entries_.size() && entries_[block + 1].bytes > 0;
  }
  // Brings the block in, or makes it the newest. A block larger than the cache does not stay.
  // REQUIRES: bytes > 0, and the same for a block every time.
  void Use(std::size_t block, double bytes);

  double used_bytes() const { return used_; }

 private:
  // Entry 0 closes the ring: the one older than it is the newest, the one newer than it the oldest.
  struct Entry {
    std::size_t newer = 0;
    std::size_t older = 0;
    double bytes = 0;  // 0: not here
  };

  void Unlink(std::size_t at);

  double capacity_;
  double used_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace gemmd::model
