// Which bytes have been taken: ranges that never overlap.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>

namespace gemmd::client {

// Neighbours are kept as one, so that what comes in order costs one element.
class RangeSet {
 public:
  // False, and nothing is added, where the range overlaps one that was added before. Empty
  // ranges overlap nothing. REQUIRES: begin <= end.
  bool Add(std::uint64_t begin, std::uint64_t end) {
    if (begin == end) return true;
    auto next = ranges_.lower_bound(begin);
    if (next != ranges_.end() && next->first < end) return false;
    if (next != ranges_.begin()) {
      const auto before = std::prev(next);
      if (before->second > begin) return false;
      if (before->second == begin) {
        begin = before->first;
        ranges_.erase(before);
      }
    }
    if (next != ranges_.end() && next->first == end) {
      end = next->second;
      next = ranges_.erase(next);
    }
    ranges_.emplace_hint(next, begin, end);
    return true;
  }

  std::size_t size() const { return ranges_.size(); }

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;  // begin to end
};

}  // namespace gemmd::client
