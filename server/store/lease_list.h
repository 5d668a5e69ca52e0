// The leases of operands: which may stay, and which goes first. A pure data structure: it is told
// the time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/time/clock.h"

namespace gemmd {

// Not thread-safe. Ids are the caller's; a time given is never before one given earlier.
class LeaseList {
 public:
  // An entry leased for `lease` from now on; 0: not at all. REQUIRES: it is not here.
  void Add(std::uint64_t id, TimeNs lease, TimeNs now);
  void Remove(std::uint64_t id);

  // The following REQUIRE that the entry is here.
  // A use: begins the lease anew.
  void Use(std::uint64_t id, TimeNs now);
  // From now on the lease is this long.
  void Renew(std::uint64_t id, TimeNs lease, TimeNs now);
  TimeNs lease(std::uint64_t id) const { return entries_.at(id).lease; }
  TimeNs Remaining(std::uint64_t id, TimeNs now) const;

  // Returns the entry unused for longest, of those without a lease for which `may_go`.
  std::optional<std::uint64_t> OldestUnleased(TimeNs now,
                                              const std::function<bool(std::uint64_t)>& may_go);

  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    TimeNs lease = 0;
    TimeNs until = 0;
    std::uint64_t used = 0;  // when it was, as a number in the order of uses
    bool is_leased = false;  // which of the two sets has it
    TimeNs listed = 0;       // of leased_: an end that it had, which uses have put off since
  };
  void Place(std::uint64_t id, Entry* entry, TimeNs now);
  void Take(std::uint64_t id, const Entry& entry);

  std::map<std::uint64_t, Entry> entries_;
  std::set<std::pair<TimeNs, std::uint64_t>> leased_;           // by an end of the lease, as listed
  std::set<std::pair<std::uint64_t, std::uint64_t>> unleased_;  // by use
  std::uint64_t uses_ = 0;
};

}  // namespace gemmd
