// The regions that clients have registered, by their secret ids, until their leases run out.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/sync/mutex.h"
#include "base/time/clock.h"
#include "server/holdings/ledger.h"
#include "server/holdings/quotas.h"
#include "server/regions/region.h"
#include "server/tenants/tenant.h"

namespace gemmd {

struct RegionOptions {
  // POSIX objects have names that begin with one of these. The first is that of gemmd's clients,
  // whose abandoned objects the table removes; none: no region is taken.
  std::vector<std::string> name_prefixes;
  bool cuda_ipc = false;  // whether memory of GPUs is taken too
  std::uint64_t max_regions = 0;
  std::uint64_t max_bytes = 0;  // of all together, in use or registered
  // The limits of each tenant.
  std::uint64_t tenant_regions = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t tenant_bytes = std::numeric_limits<std::uint64_t>::max();
  Quotas* quotas = nullptr;  // of tenants, besides; outlives the regions
  TimeNs default_lease = 0;
  TimeNs max_lease = 0;
};

// The state of a region, told to whoever has its id.
struct RegionInfo {
  std::string name;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  TimeNs lease_remaining = 0;
  bool in_place = false;
  bool in_use = false;
};

// Thread-safe.
class RegionTable {
 public:
  struct Registered {
    std::string id;
    TimeNs lease = 0;
  };

  // The first device maps POSIX memory for all of them; they and the clock outlive the table.
  // Looks round every `period`, on a thread of its own; zero: only when told. Regions whose lease
  // ran out are not found in any case.
  RegionTable(RegionOptions options, std::vector<Device*> devices, const Clock* clock,
              std::chrono::milliseconds period);
  ~RegionTable();
  RegionTable(const RegionTable&) = delete;
  RegionTable& operator=(const RegionTable&) = delete;

  // Errors of all are those of the RPC of the name in regions.proto. Registering may take as
  // long as copying the bytes does. An absent lease is the default. The region counts in the
  // tenant's share and quota, and is the tenant's alone: for others there is none of its id.
  absl::StatusOr<Registered> Register(const PosixRegion& region, std::optional<TimeNs> lease,
                                      const Tenant& tenant = Tenant());
  absl::StatusOr<Registered> Register(const CudaRegion& region, std::optional<TimeNs> lease,
                                      const Tenant& tenant = Tenant());
  absl::Status Unregister(const std::string& id, const Tenant& tenant = Tenant());
  // An absent lease is the one that it has.
  absl::StatusOr<TimeNs> Renew(const std::string& id, std::optional<TimeNs> lease,
                               const Tenant& tenant = Tenant());
  absl::StatusOr<RegionInfo> Get(const std::string& id, const Tenant& tenant = Tenant());

  // Totals of the regions that are registered or still in use.
  struct Usage {
    std::uint64_t regions = 0;
    std::uint64_t bytes = 0;
  };
  Usage usage() const;
  const Ledger& ledger() const { return ledger_; }
  const RegionOptions& options() const { return options_; }

  // The region, to be kept as long as it is used; begins its lease anew. Errors name `field`.
  // NOT_FOUND: there is none of this id. FAILED_PRECONDITION: shared memory is off.
  absl::StatusOr<std::shared_ptr<const Region>> Use(absl::string_view field, const std::string& id,
                                                    const Tenant& tenant = Tenant());

  // Forgets every region whose lease ran out, and removes the memory of clients that died.
  void LookRound();

 private:
  struct Entry {
    std::shared_ptr<const Region> region;
    Tenant tenant;
    TimeNs lease = 0;
    TimeNs end = 0;
  };
  using Entries = std::map<std::string, Entry>;

  // Forgets every region whose lease ran out.
  void EndLate();
  absl::Status CheckOn() const;
  absl::StatusOr<TimeNs> LeaseOf(std::optional<TimeNs> lease) const;
  // Counts the region as long as the result is kept.
  absl::StatusOr<std::shared_ptr<void>> Take(const Tenant& tenant, std::uint64_t bytes);
  Registered Add(std::shared_ptr<const Region> region, const Tenant& tenant, TimeNs lease);
  // The tenant's entry, or end.
  Entries::iterator FindLocked(const std::string& id, const Tenant& tenant)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Watch(std::chrono::milliseconds period);

  const RegionOptions options_;
  const std::vector<Device*> devices_;
  const Clock* const clock_;
  Ledger ledger_;

  Mutex mutex_;
  CondVar stop_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Entries entries_ ABSL_GUARDED_BY(mutex_);
  std::thread watcher_;  // last: it uses all else
};

}  // namespace gemmd
