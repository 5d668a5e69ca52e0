#include "base/ranges/range_set.h"

#include <algorithm>
#include <iterator>

namespace gemmd {

std::vector<ByteRange> RangeSet::Add(ByteRange range) {
  std::vector<ByteRange> added;
  if (range.begin >= range.end) return added;
  // The first that touches the new range, and all that do are merged into it.
  auto each = ranges_.upper_bound(range.begin);
  if (each != ranges_.begin() && std::prev(each)->second >= range.begin) --each;
  ByteRange merged = range;
  std::uint64_t next = range.begin;
  while (each != ranges_.end() && each->first <= range.end) {
    if (each->first > next) added.push_back({next, each->first});
    next = std::max(next, each->second);
    merged.begin = std::min(merged.begin, each->first);
    merged.end = std::max(merged.end, each->second);
    each = ranges_.erase(each);
  }
  if (next < range.end) added.push_back({next, range.end});
  ranges_.emplace(merged.begin, merged.end);
  return added;
}

bool RangeSet::AddNew(ByteRange range) {
  if (range.begin >= range.end) return true;
  const auto next = ranges_.lower_bound(range.begin);
  if (next != ranges_.end() && next->first < range.end) return false;
  if (next != ranges_.begin() && std::prev(next)->second > range.begin) return false;
  Add(range);
  return true;
}

std::vector<ByteRange> RangeSet::Missing(std::uint64_t size, std::size_t most) const {
  std::vector<ByteRange> missing;
  const auto add = [&](ByteRange range) {
    if (missing.size() < most) {
      missing.push_back(range);
    } else {
      missing.back().end = range.end;
    }
  };
  std::uint64_t next = 0;
  for (const auto& [begin, end] : ranges_) {
    if (begin >= size) break;
    if (begin > next) add({next, begin});
    next = end;
  }
  if (next < size) add({next, size});
  return missing;
}

}  // namespace gemmd
