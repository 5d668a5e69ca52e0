// Ratios by key in bounded memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "server/cost/ratio_estimate.h"
#include "sync/adaptive_mutex.h"

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

  std::size_t capacity() const { return sets_.size() * kWays; }

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

  std::size_t IndexOf(std::uint64_t key) const { return key & (sets_.size() - 1); }
  // Its entry, as used now; null: it has none. The set's lock is held.
  static Entry* FindIn(Set* set, std::uint64_t key);

  mutable std::array<AdaptiveMutex, kLocks> mutexes_;
  mutable std::vector<Set> sets_;  // that at i guarded by mutexes_[i % kLocks]
};

}  // namespace gemmd
