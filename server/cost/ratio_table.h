// Ratios by key in bounded memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/sync/mutex.h"
#include "server/cost/ratio_estimate.h"

namespace gemmd {

// Set-associative, as a processor's cache is: a key has kWays places, and a new one takes that
// of the least recently used. Finding costs no allocation and one short lock, of which there
// are kLocks. Thread-safe.
class RatioTable {
 public:
  static constexpr std::size_t kWays = 8;

  // At most `capacity` ratios, rounded up to a power of two of sets.
  explicit RatioTable(std::size_t capacity);

  // Nothing where the key was not observed, or forgotten. Two keys with the same 64 bits share
  // a ratio: callers pass good hashes.
  std::optional<RatioRange> Find(std::uint64_t key) const;
  void Observe(std::uint64_t key, double ratio);
  // See RatioEstimate; nothing where the key is not in the table.
  void ObserveRefusal(std::uint64_t key);

  std::size_t capacity() const { return sets_ * kWays; }

 private:
  static constexpr std::size_t kLocks = 16;

  struct Entry {
    std::uint64_t key = 0;
    std::uint64_t used = 0;  // 0: free; else the set's count of uses at the last one
    RatioEstimate estimate;
  };
  struct Set {
    std::uint64_t uses = 0;
    std::array<Entry, kWays> entries;
  };
  struct Part {
    AdaptiveMutex mutex;
    std::vector<Set> sets ABSL_GUARDED_BY(mutex);
  };

  static std::size_t SetsFor(std::size_t capacity);
  std::size_t IndexOf(std::uint64_t key) const { return key & (sets_ - 1); }
  // Its entry, as used now; null: it has none.
  static Entry* FindIn(Set* set, std::uint64_t key);

  const std::size_t sets_;
  // The set of index i is the one at i / kLocks in the part at i % kLocks.
  mutable std::array<Part, kLocks> parts_;
};

}  // namespace gemmd
