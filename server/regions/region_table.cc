#include "server/regions/region_table.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text/duration.h"
#include "base/text/quoted.h"
#include "server/regions/abandoned_objects.h"

namespace gemmd {
namespace {

constexpr std::size_t kMaxNameBytes = 250;  // a file's name has at most 255
constexpr std::size_t kHandleBytes = 64;

constexpr std::size_t kRegions = 0;
constexpr std::size_t kBytes = 1;

LedgerRules Rules() {
  LedgerRules rules;
  rules.quantities[kRegions] = {"regions", "regions", "shared_memory.max_regions"};
  rules.quantities[kBytes] = {"region_bytes", "bytes of regions", "shared_memory.max_bytes"};
  rules.limit = "share";
  rules.option = "shared_memory.tenant_percent";
  return rules;
}

LimitTable LimitsOf(const RegionOptions& options) {
  return {Amounts{options.tenant_regions, options.tenant_bytes}, Unlimited(),
          Amounts{options.max_regions, options.max_bytes}};
}

// 128 random bits.
std::string NewId() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&id, absl::Hex(random(), absl::kZeroPad8));
  return id;
}

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
}

absl::Status CheckName(const std::string& name, const RegionOptions& options) {
  if (name.empty() || name.size() > kMaxNameBytes ||
      !std::all_of(name.begin(), name.end(), IsNameCharacter) || absl::StrContains(name, "..")) {
    return absl::InvalidArgumentError(
        absl::StrCat("posix.name has ", name.size(), " bytes; it must be 1 to ", kMaxNameBytes,
                     " of A-Z a-z 0-9 . _ -, without a slash or two dots in a row"));
  }
  const std::vector<std::string>& prefixes = options.name_prefixes;
  const bool has_one =
      std::any_of(prefixes.begin(), prefixes.end(),
                  [&name](const std::string& each) { return absl::StartsWith(name, each); });
  if (has_one) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("posix.name is ", Quoted(name), "; this server takes names that begin with \"",
                   absl::StrJoin(prefixes, "\" or \""), "\" (shared_memory.name_prefix)"));
}

absl::Status CheckSize(absl::string_view field, std::uint64_t bytes) {
  if (bytes != 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ".size_bytes is 0; it must be at least 1"));
}

absl::Status UnknownError(absl::string_view field) {
  return absl::NotFoundError(absl::StrCat(
      field, " is of no region on this server: never registered, unregistered or out of lease"));
}

}  // namespace

RegionTable::RegionTable(RegionOptions options, std::vector<Device*> devices, const Clock* clock,
                         std::chrono::milliseconds period)
    : options_(std::move(options)),
      devices_(std::move(devices)),
      clock_(clock),
      ledger_(Rules(), LimitsOf(options_)) {
  if (period.count() > 0) watcher_ = std::thread([this, period] { Watch(period); });
}

RegionTable::~RegionTable() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  stop_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

absl::StatusOr<RegionTable::Registered> RegionTable::Register(const PosixRegion& region,
                                                              std::optional<TimeNs> lease,
                                                              const Tenant& tenant) {
  absl::Status status = CheckOn();
  status.Update(CheckName(region.name, options_));
  status.Update(CheckSize("posix", region.bytes));
  if (!status.ok()) return status;
  const absl::StatusOr<TimeNs> time = LeaseOf(lease);
  if (!time.ok()) return time.status();
  absl::StatusOr<std::shared_ptr<void>> share = Take(tenant, region.bytes);
  if (!share.ok()) return share.status();
  absl::StatusOr<std::shared_ptr<const Region>> opened =
      Region::Open(region, devices_.front(), *std::move(share));
  if (!opened.ok()) return opened.status();
  return Add(*std::move(opened), tenant, *time);
}

absl::StatusOr<RegionTable::Registered> RegionTable::Register(const CudaRegion& region,
                                                              std::optional<TimeNs> lease,
                                                              const Tenant& tenant) {
  if (absl::Status s = CheckOn(); !s.ok()) return s;
  if (!options_.cuda_ipc) {
    return absl::PermissionDeniedError(
        "cuda is set: this server takes no memory of GPUs (shared_memory.cuda_ipc)");
  }
  if (region.handle.size() != kHandleBytes) {
    return absl::InvalidArgumentError(absl::StrCat("cuda.ipc_handle has ", region.handle.size(),
                                                   " bytes; it must have ", kHandleBytes));
  }
  if (region.device >= devices_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cuda.device is ", region.device, "; this server has ", devices_.size()));
  }
  if (absl::Status s = CheckSize("cuda", region.bytes); !s.ok()) return s;
  const absl::StatusOr<TimeNs> time = LeaseOf(lease);
  if (!time.ok()) return time.status();
  absl::StatusOr<std::shared_ptr<void>> share = Take(tenant, region.bytes);
  if (!share.ok()) return share.status();
  absl::StatusOr<std::shared_ptr<const Region>> opened =
      Region::Open(region, devices_[region.device], *std::move(share));
  if (!opened.ok()) return opened.status();
  return Add(*std::move(opened), tenant, *time);
}

absl::Status RegionTable::Unregister(const std::string& id, const Tenant& tenant) {
  if (absl::Status s = CheckOn(); !s.ok()) return s;
  Entry removed;  // let go without the lock: unlocking pages takes a while
  const MutexLock lock(mutex_);
  const auto found = FindLocked(id, tenant);
  if (found == entries_.end()) return UnknownError("region");
  removed = std::move(found->second);
  entries_.erase(found);
  return absl::OkStatus();
}

absl::StatusOr<TimeNs> RegionTable::Renew(const std::string& id, std::optional<TimeNs> lease,
                                          const Tenant& tenant) {
  if (absl::Status s = CheckOn(); !s.ok()) return s;
  const absl::StatusOr<TimeNs> time = LeaseOf(lease);
  if (!time.ok()) return time.status();
  const MutexLock lock(mutex_);
  const auto found = FindLocked(id, tenant);
  if (found == entries_.end()) return UnknownError("region");
  Entry& entry = found->second;
  if (lease.has_value()) entry.lease = *time;
  entry.end = clock_->Now() + entry.lease;
  return entry.lease;
}

absl::StatusOr<RegionInfo> RegionTable::Get(const std::string& id, const Tenant& tenant) {
  if (absl::Status s = CheckOn(); !s.ok()) return s;
  const MutexLock lock(mutex_);
  const auto found = FindLocked(id, tenant);
  if (found == entries_.end()) return UnknownError("region");
  const Entry& entry = found->second;
  RegionInfo info;
  info.name = entry.region->name();
  info.offset = entry.region->offset();
  info.bytes = entry.region->size_bytes();
  info.lease_remaining = std::max<TimeNs>(0, entry.end - clock_->Now());
  info.in_place = entry.region->mapping() != nullptr;
  info.in_use = entry.region.use_count() > 1;
  return info;
}

absl::StatusOr<std::shared_ptr<const Region>> RegionTable::Use(absl::string_view field,
                                                               const std::string& id,
                                                               const Tenant& tenant) {
  if (absl::Status s = CheckOn(); !s.ok()) {
    return absl::Status(s.code(), absl::StrCat(field, " is set: ", s.message()));
  }
  const MutexLock lock(mutex_);
  const auto found = FindLocked(id, tenant);
  if (found == entries_.end()) return UnknownError(absl::StrCat(field, ".region"));
  found->second.end = clock_->Now() + found->second.lease;
  return found->second.region;
}

RegionTable::Usage RegionTable::usage() const {
  const Amounts held = ledger_.held();
  return {held[kRegions], held[kBytes]};
}

void RegionTable::EndLate() {
  std::vector<Entry> late;  // let go without the lock
  const MutexLock lock(mutex_);
  const TimeNs now = clock_->Now();
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (it->second.end > now) {
      ++it;
      continue;
    }
    late.push_back(std::move(it->second));
    it = entries_.erase(it);
  }
}

void RegionTable::LookRound() {
  EndLate();
  if (!options_.name_prefixes.empty()) RemoveAbandonedObjects(options_.name_prefixes.front());
}

absl::Status RegionTable::CheckOn() const {
  if (!options_.name_prefixes.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "shared memory is off on this server (shared_memory.name_prefix is empty)");
}

absl::StatusOr<TimeNs> RegionTable::LeaseOf(std::optional<TimeNs> lease) const {
  if (!lease.has_value()) return options_.default_lease;
  if (*lease > 0 && *lease <= options_.max_lease) return *lease;
  return absl::InvalidArgumentError(
      absl::StrCat("lease is ", DurationText(*lease), "; it must be more than 0s and at most ",
                   DurationText(options_.max_lease), " (shared_memory.max_lease_ms)"));
}

absl::StatusOr<std::shared_ptr<void>> RegionTable::Take(const Tenant& tenant, std::uint64_t bytes) {
  EndLate();
  struct Share {
    Hold quota;
    Hold place;
  };
  auto share = std::make_shared<Share>();
  if (options_.quotas != nullptr) {
    absl::StatusOr<Hold> quota = options_.quotas->Take(tenant, AmountOf(Quantity::kRegions, 1));
    options_.quotas->Report(tenant, quota.status());
    if (!quota.ok()) return quota.status();
    share->quota = *std::move(quota);
  }
  absl::StatusOr<Hold> place = ledger_.Take({tenant.key(), std::nullopt}, Amounts{1, bytes});
  if (!place.ok()) return place.status();
  share->place = *std::move(place);
  return share;
}

RegionTable::Registered RegionTable::Add(std::shared_ptr<const Region> region, const Tenant& tenant,
                                         TimeNs lease) {
  Registered registered{NewId(), lease};
  const MutexLock lock(mutex_);
  entries_[registered.id] = {std::move(region), tenant, lease, clock_->Now() + lease};
  return registered;
}

RegionTable::Entries::iterator RegionTable::FindLocked(const std::string& id,
                                                       const Tenant& tenant) {
  const auto found = entries_.find(id);
  if (found == entries_.end() || found->second.tenant != tenant) return entries_.end();
  return found->second.end > clock_->Now() ? found : entries_.end();
}

void RegionTable::Watch(std::chrono::milliseconds period) {
  RelockableMutexLock lock(mutex_);
  do {
    lock.unlock();
    LookRound();
    lock.lock();
  } while (!stop_.wait_for(mutex_, period, stopping_));
}

}  // namespace gemmd
