#include "server/store/lease_list.h"

#include <algorithm>

namespace gemmd {

void LeaseList::Add(std::uint64_t id, TimeNs lease, TimeNs now) {
  Entry& entry = entries_[id];
  entry.lease = lease;
  Place(id, &entry, now);
}

void LeaseList::Remove(std::uint64_t id) {
  const auto found = entries_.find(id);
  Take(id, found->second);
  entries_.erase(found);
}

void LeaseList::Use(std::uint64_t id, TimeNs now) {
  Entry& entry = entries_.at(id);
  if (entry.is_leased) {
    // Every product uses what it names: where it stands in the list is looked at when it is due.
    entry.used = ++uses_;
    entry.until = now + entry.lease;
    return;
  }
  Take(id, entry);
  Place(id, &entry, now);
}

void LeaseList::Renew(std::uint64_t id, TimeNs lease, TimeNs now) {
  Entry& entry = entries_.at(id);
  Take(id, entry);
  entry.lease = lease;
  Place(id, &entry, now);
}

TimeNs LeaseList::Remaining(std::uint64_t id, TimeNs now) const {
  return std::max<TimeNs>(0, entries_.at(id).until - now);
}

std::optional<std::uint64_t> LeaseList::OldestUnleased(
    TimeNs now, const std::function<bool(std::uint64_t)>& may_go) {
  while (!leased_.empty() && leased_.begin()->first <= now) {
    const std::uint64_t id = leased_.begin()->second;
    Entry& entry = entries_.at(id);
    leased_.erase(leased_.begin());
    entry.is_leased = entry.until > now;
    if (entry.is_leased) {
      entry.listed = entry.until;
      leased_.emplace(entry.listed, id);
    } else {
      unleased_.emplace(entry.used, id);
    }
  }
  const auto found = std::find_if(unleased_.begin(), unleased_.end(),
                                  [&may_go](const auto& each) { return may_go(each.second); });
  if (found == unleased_.end()) return std::nullopt;
  return found->second;
}

void LeaseList::Place(std::uint64_t id, Entry* entry, TimeNs now) {
  entry->used = ++uses_;
  entry->until = now + entry->lease;
  entry->is_leased = entry->lease > 0;
  if (entry->is_leased) {
    entry->listed = entry->until;
    leased_.emplace(entry->listed, id);
  } else {
    unleased_.emplace(entry->used, id);
  }
}

void LeaseList::Take(std::uint64_t id, const Entry& entry) {
  if (entry.is_leased) {
    leased_.erase({entry.listed, id});
  } else {
    unleased_.erase({entry.used, id});
  }
}

}  // namespace gemmd
