// Regions under names that clients choose, for protocols that have no secret ids and no leases.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "server/regions/region_table.h"
#include "server/tenants/tenant.h"

namespace gemmd {

// Thread-safe. A name is one of its tenant's. A region has the longest lease that the table gives,
// which each product that uses it begins anew: the memory of a client that died without a word is
// let go in the end. Names of regions that ended so are forgotten with the next registration, so
// that there are no more names than the table has had regions at a time.
class NamedRegions {
 public:
  enum class Kind : std::uint8_t { kPosix, kCuda };
  struct Entry {
    Kind kind = Kind::kPosix;
    std::string region;  // the secret id
    std::string key;     // of the shared-memory object, as it was given
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::size_t device = 0;  // of kCuda
  };

  // The table outlives this.
  explicit NamedRegions(RegionTable* table) : table_(table) {}

  // Errors of both are RegionTable::Register()'s. INVALID_ARGUMENT: the name is empty or has more
  // than 255 bytes. ALREADY_EXISTS: the tenant has a region of that name.
  // `key` may begin with the slash of shm_open(3).
  absl::Status Register(const Tenant& tenant, const std::string& name, const std::string& key,
                        std::uint64_t offset, std::uint64_t bytes);
  absl::Status RegisterCuda(const Tenant& tenant, const std::string& name,
                            const std::string& handle, std::size_t device, std::uint64_t bytes);

  // The secret id. NOT_FOUND: the tenant has no region of that name, or its lease ran out.
  absl::StatusOr<std::string> Find(const Tenant& tenant, const std::string& name);
  // Those of the tenant and of that kind, by name; of one name, unless it is empty.
  std::map<std::string, Entry> List(const Tenant& tenant, Kind kind, const std::string& name);
  // Forgets it; "" is all of the tenant's of that kind. A name that is not there is no error.
  void Unregister(const Tenant& tenant, Kind kind, const std::string& name);

  // Find()'s NOT_FOUND.
  static absl::Status UnknownError(const std::string& name);

 private:
  using Key = std::pair<Tenant, std::string>;

  absl::Status CheckFree(const Tenant& tenant, const std::string& name);
  absl::Status Add(const Tenant& tenant, const std::string& name, Entry entry);
  bool IsThere(const Key& key, const Entry& entry) const {
    return table_->Get(entry.region, key.first).ok();
  }

  RegionTable* const table_;
  Mutex mutex_;
  std::map<Key, Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd
