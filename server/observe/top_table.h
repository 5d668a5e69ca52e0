// Totals by a name that clients choose, of which there may be any number: those that occur most
// have an entry of their own, and all others share one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "base/time/clock.h"

namespace gemmd {

// T is a value with operator+=, and T() is nothing. Nothing that was added is ever lost: the sum
// over all entries and the rest is the sum of all updates.
//
// Names come into a table with room as they occur. Once it is full, the names without an entry are
// counted as Misra and Gries do ("Finding repeated elements", 1982): a name that makes up more than
// 1 / (candidates + 1) of them is surely among those that are counted. At the end of each period
// the first of them takes the place of the entry that occurred least, if it occurred more often;
// what that entry had goes to the rest. So at most one name changes a period, whatever clients
// send.
template <typename T>
class TopTable {
 public:
  // REQUIRES: capacity >= 1.
  TopTable(std::size_t capacity, TimeNs period) : capacity_(capacity), period_(period) {}

  // Returns the entry to add to for `name`. `now` never falls.
  T& At(absl::string_view name, TimeNs now) {
    if (now >= next_) EndPeriod(now);
    const auto found = entries_.find(name);
    if (found != entries_.end()) {
      ++found->second.recent;
      return found->second.total;
    }
    if (entries_.size() < capacity_) return entries_[std::string(name)].total;
    CountCandidate(name);
    return rest_;
  }

  std::map<std::string, T> entries() const {
    std::map<std::string, T> totals;
    for (const auto& [name, entry] : entries_) totals.emplace(name, entry.total);
    return totals;
  }
  const T& rest() const { return rest_; }

 private:
  static constexpr std::size_t kCandidatesEach = 4;

  struct Entry {
    T total{};
    std::uint64_t recent = 0;  // updates in this period
  };

  void CountCandidate(absl::string_view name) {
    const auto found = candidates_.find(name);
    if (found != candidates_.end()) {
      ++found->second;
    } else if (candidates_.size() < kCandidatesEach * capacity_) {
      candidates_.emplace(name, 1);
    } else {
      for (auto each = candidates_.begin(); each != candidates_.end();) {
        const auto here = each++;
        if (--here->second == 0) candidates_.erase(here);
      }
    }
  }

  void EndPeriod(TimeNs now) {
    next_ = now + period_;
    const auto best =
        std::max_element(candidates_.begin(), candidates_.end(),
                         [](const auto& x, const auto& y) { return x.second < y.second; });
    const auto least = std::min_element(
        entries_.begin(), entries_.end(),
        [](const auto& x, const auto& y) { return x.second.recent < y.second.recent; });
    if (best != candidates_.end() && best->second > least->second.recent) {
      rest_ += least->second.total;
      entries_.erase(least);
      entries_.emplace(best->first, Entry());
    }
    candidates_.clear();
    for (auto& [name, entry] : entries_) entry.recent = 0;
  }

  std::size_t capacity_;
  TimeNs period_;
  TimeNs next_ = 0;
  absl::flat_hash_map<std::string, Entry> entries_;
  absl::flat_hash_map<std::string, std::uint64_t> candidates_;
  T rest_{};
};

}  // namespace gemmd
