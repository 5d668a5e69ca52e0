#include "server/store/operand_store.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/text/duration.h"
#include "base/text/quoted.h"
#include "base/time/units.h"
#include "server/device/keep_with.h"

namespace gemmd {
namespace {

StoreBudget::Limits BudgetOf(const StoreOptions& options) {
  return {options.all, options.tenant, options.address.value_or(options.all)};
}

}  // namespace

OperandStore::OperandStore(const StoreOptions& options, Device* host, const Clock* clock,
                           std::uint32_t instance)
    : options_(options),
      upload_grace_(options.upload_grace),
      host_(host),
      clock_(clock),
      instance_(instance),
      budget_(BudgetOf(options), options.proxies, options.quotas),
      upload_helpers_(options.upload_threads) {}

OperandStore::~OperandStore() = default;

void OperandStore::SetLimits(const StoreOptions& options) {
  budget_.SetLimits(BudgetOf(options));
  upload_grace_ = options.upload_grace;
}

absl::StatusOr<TimeNs> OperandStore::CheckLease(std::optional<TimeNs> lease) const {
  const TimeNs value = lease.value_or(options_.default_lease);
  if (value >= 0 && value <= options_.max_lease) return value;
  return absl::InvalidArgumentError(absl::StrCat(
      "lease is ", DurationText(value), "; it must be 0s to ", DurationText(options_.max_lease)));
}

absl::StatusOr<std::shared_ptr<StoreHold>> OperandStore::MakeRoom(
    const Tenant& tenant, std::uint64_t bytes, const std::function<absl::Status()>& allocate) {
  while (true) {
    absl::StatusOr<StoreHold> hold = budget_.Reserve(tenant, bytes);
    absl::Status status = hold.status();
    if (status.ok()) {
      status = allocate();
      if (status.ok()) return std::make_shared<StoreHold>(*std::move(hold));
      *hold = StoreHold();
    }
    if (absl::IsResourceExhausted(status)) {
      const std::optional<Party> full = RefusedBy(status);
      Garbage garbage;
      const MutexLock lock(mutex_);
      const bool has_room = EvictLocked(
          [&](const Entry& entry) {
            if (full == Party::kTenant) return entry.tenant == tenant;
            return full != Party::kAddress ||
                   budget_.AddressOf(entry.tenant) == budget_.AddressOf(tenant);
          },
          &garbage);
      if (has_room) continue;
    }
    if (options_.quotas != nullptr) options_.quotas->Report(tenant, status);
    return status;
  }
}

std::string OperandStore::HandleOf(std::uint64_t id) const {
  return absl::StrCat(absl::Hex(instance_, absl::kZeroPad8), "-", id);
}

absl::StatusOr<std::shared_ptr<StoredOperand>> OperandStore::Use(const Tenant& tenant,
                                                                 const OperandKey& key,
                                                                 absl::string_view field) {
  const MutexLock lock(mutex_);
  const auto found = FindResidentLocked(tenant, key);
  if (found == entries_.end()) {
    ++counts_.misses;
    return NotFound(key, field);
  }
  ++counts_.hits;
  leases_.Use(found->first, clock_->Now());
  return found->second.operand;
}

absl::StatusOr<std::shared_ptr<StoredOperand>> OperandStore::Read(const Tenant& tenant,
                                                                  const OperandKey& key) {
  const MutexLock lock(mutex_);
  const auto found = FindResidentLocked(tenant, key);
  if (found == entries_.end()) return NotFound(key, {});
  leases_.Use(found->first, clock_->Now());
  return found->second.operand;
}

absl::StatusOr<StoredInfo> OperandStore::Get(const Tenant& tenant, const OperandKey& key) {
  const MutexLock lock(mutex_);
  const auto found = FindResidentLocked(tenant, key);
  if (found == entries_.end()) return NotFound(key, {});
  return InfoLocked(found->first, found->second);
}

std::pair<std::vector<StoredInfo>, std::uint64_t> OperandStore::List(
    const std::optional<Tenant>& tenant, std::uint64_t after, std::size_t count) {
  const MutexLock lock(mutex_);
  std::vector<StoredInfo> infos;
  std::uint64_t last = 0;
  for (auto each = entries_.upper_bound(after); each != entries_.end(); ++each) {
    const Entry& entry = each->second;
    if (entry.operand == nullptr || (tenant.has_value() && entry.tenant != *tenant)) continue;
    if (infos.size() == count) return {std::move(infos), last};
    infos.push_back(InfoLocked(each->first, entry));
    last = each->first;
  }
  return {std::move(infos), 0};
}

absl::Status OperandStore::Release(const Tenant& tenant, const OperandKey& key) {
  Garbage garbage;
  std::shared_ptr<StoreHold> place_of_name;  // given back after the lock
  const MutexLock lock(mutex_);
  const auto found = FindLocked(tenant, key);
  if (found == entries_.end()) return NotFound(key, {});
  auto& names = found->second.names;
  if (!key.name.empty() && names.size() > 1) {
    place_of_name = std::move(names.extract(key.name).mapped());
    names_.erase({tenant, key.name});
    return absl::OkStatus();
  }
  RemoveLocked(found, &garbage);
  return absl::OkStatus();
}

absl::StatusOr<TimeNs> OperandStore::Renew(const Tenant& tenant, const OperandKey& key,
                                           std::optional<TimeNs> lease) {
  const MutexLock lock(mutex_);
  const auto found = FindResidentLocked(tenant, key);
  if (found == entries_.end()) return NotFound(key, {});
  const absl::StatusOr<TimeNs> checked =
      CheckLease(lease.has_value() ? lease : leases_.lease(found->first));
  if (!checked.ok()) return checked.status();
  leases_.Renew(found->first, *checked, clock_->Now());
  return *checked;
}

absl::Status OperandStore::Pin(const Tenant& tenant, const OperandKey& key) {
  constexpr TimeNs kCentury = 100LL * 365 * 24 * 3600 * kSecond;
  const MutexLock lock(mutex_);
  const auto found = FindResidentLocked(tenant, key);
  if (found == entries_.end()) return NotFound(key, {});
  leases_.Renew(found->first, kCentury, clock_->Now());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PendingResult>> OperandStore::BeginResult(
    const Tenant& tenant, const MatrixLayout& d, std::optional<TimeNs> lease, Device* device) {
  const absl::StatusOr<TimeNs> checked = CheckLease(lease);
  if (!checked.ok()) return checked.status();
  auto result = std::make_unique<PendingResult>();
  result->tenant_ = tenant;
  result->form_.data = d;
  result->lease_ = *checked;
  absl::StatusOr<std::shared_ptr<StoreHold>> hold = MakeRoom(tenant, d.size_bytes(), [&] {
    if (!device->uses_host_memory()) return absl::OkStatus();
    absl::StatusOr<HostPiece> memory = device->AllocateResident(d.size_bytes());
    if (!memory.ok()) return memory.status();
    result->memory_ = {*std::move(memory)};
    return absl::OkStatus();
  });
  if (!hold.ok()) return hold.status();
  result->hold_ = *std::move(hold);
  for (HostPiece& piece : result->memory_) piece = KeepWith(result->hold_, std::move(piece));
  return result;
}

absl::Status PendingResult::PlaceOn(Device* device) {
  absl::StatusOr<std::shared_ptr<ResidentResult>> resident = device->AllocateKept(form_.data);
  if (!resident.ok()) return resident.status();
  device_ = device;
  resident_ = KeepWith(hold_, *std::move(resident));
  return absl::OkStatus();
}

std::string OperandStore::Keep(std::unique_ptr<PendingResult> result) {
  PendingResult& kept = *result;
  StoredOperand::Memory memory;
  memory[PlaneName::kData] = std::move(kept.memory_);
  auto operand =
      kept.resident_ != nullptr
          ? std::make_shared<StoredOperand>(kept.form_, kept.device_, std::move(kept.resident_),
                                            std::move(kept.hold_), traffic_)
          : std::make_shared<StoredOperand>(kept.form_, std::move(memory), std::move(kept.hold_),
                                            traffic_);
  const MutexLock lock(mutex_);
  const std::uint64_t id =
      AddLocked({kept.tenant_, {}, {}, nullptr, std::move(operand), {}}, kept.lease_);
  return entries_.at(id).handle;
}

bool OperandStore::EvictFrom(const Device* device) {
  Garbage garbage;
  const MutexLock lock(mutex_);
  return EvictLocked(
      [device](const Entry& entry) {
        if (device->uses_host_memory()) return true;
        return entry.operand != nullptr && entry.operand->device_bytes(*device) != 0;
      },
      &garbage);
}

std::optional<std::uint64_t> OperandStore::MoveOutOf(Device* device) {
  if (const std::optional<std::uint64_t> bytes = DropCopyFrom(device)) return bytes;
  if (const std::optional<std::uint64_t> bytes = DropEarlyLandingOn(device)) return bytes;
  std::shared_ptr<StoredOperand> largest;
  {
    const MutexLock lock(mutex_);
    std::uint64_t most = 0;
    for (const auto& [id, entry] : entries_) {
      // As in EvictLocked(): a count of one stays one. Taking the reference makes it two, so
      // that no other thread moves the same.
      if (entry.operand == nullptr || entry.operand.use_count() != 1) continue;
      const std::uint64_t bytes = entry.operand->device_bytes(*device);
      if (bytes <= most) continue;
      most = bytes;
      largest = entry.operand;
    }
  }
  if (largest == nullptr) return std::nullopt;
  const absl::StatusOr<std::uint64_t> freed_bytes = largest->MoveOut(device);
  if (!freed_bytes.ok()) return std::nullopt;
  return *freed_bytes;
}

StoreStatistics OperandStore::statistics() const {
  const MutexLock lock(mutex_);
  StoreStatistics statistics = counts_;
  for (const auto& [id, entry] : entries_) {
    if (entry.operand == nullptr) {
      ++statistics.partial_uploads;
    } else {
      ++statistics.residents;
      statistics.resident_bytes += entry.operand->size_bytes();
      statistics.device_bytes += entry.operand->device_bytes();
      statistics.copy_bytes += entry.operand->copy_bytes();
    }
  }
  statistics.landings = traffic_->landings;
  statistics.landed_bytes = traffic_->landed_bytes;
  statistics.moves_out = traffic_->moves_out;
  statistics.moved_out_bytes = traffic_->moved_out_bytes;
  statistics.fetched_bytes = traffic_->fetched_bytes;
  statistics.copies_dropped = traffic_->copies_dropped;
  statistics.reserved_bytes = budget_.used_bytes();
  statistics.limit_bytes = budget_.limit_bytes();
  return statistics;
}

void OperandStore::CountDownloaded(std::uint64_t bytes) {
  const MutexLock lock(mutex_);
  counts_.downloaded_bytes += bytes;
}

absl::Status OperandStore::NotFound(const OperandKey& key, absl::string_view field) const {
  const std::string prefix = field.empty() ? std::string() : absl::StrCat(field, ".");
  if (!key.name.empty()) {
    return WithMissing(absl::NotFoundError(absl::StrCat(prefix, "name is ", Quoted(key.name),
                                                        ": no operand of this tenant has it")),
                       {{}, {}, {key.name}});
  }
  if (key.digest.empty()) {
    return WithMissing(absl::NotFoundError(absl::StrCat(prefix, "handle is ", Quoted(key.handle),
                                                        ": the server has no such operand")),
                       {{}, {key.handle}, {}});
  }
  return WithMissing(
      absl::NotFoundError(absl::StrCat(prefix, "digest is ", absl::BytesToHexString(key.digest),
                                       ": the server has no such operand; upload it")),
      {{key.digest}, {}, {}});
}

OperandStore::Entries::iterator OperandStore::FindLocked(const Tenant& tenant,
                                                         const OperandKey& key) {
  if (!key.name.empty()) {
    const auto found = names_.find({tenant, key.name});
    return found == names_.end() ? entries_.end() : entries_.find(found->second);
  }
  if (key.digest.empty()) {
    const auto found = handles_.find({tenant, key.handle});
    return found == handles_.end() ? entries_.end() : entries_.find(found->second);
  }
  const auto found = digests_.find({tenant, key.digest});
  return found == digests_.end() ? entries_.end() : entries_.find(found->second);
}

OperandStore::Entries::iterator OperandStore::FindResidentLocked(const Tenant& tenant,
                                                                 const OperandKey& key) {
  const auto found = FindLocked(tenant, key);
  return found != entries_.end() && found->second.operand == nullptr ? entries_.end() : found;
}

std::uint64_t OperandStore::AddLocked(Entry entry, TimeNs lease) {
  const std::uint64_t id = next_id_++;
  if (!entry.digest.empty()) digests_[{entry.tenant, entry.digest}] = id;
  if (entry.operand != nullptr) {
    entry.handle = HandleOf(id);
    handles_[{entry.tenant, entry.handle}] = id;
  }
  entries_.emplace(id, std::move(entry));
  leases_.Add(id, lease, clock_->Now());
  return id;
}

void OperandStore::RemoveLocked(Entries::iterator entry, Garbage* garbage) {
  const std::uint64_t id = entry->first;
  Entry& gone = entry->second;
  if (!gone.digest.empty()) digests_.erase({gone.tenant, gone.digest});
  if (!gone.handle.empty()) handles_.erase({gone.tenant, gone.handle});
  for (const auto& [name, hold] : gone.names) names_.erase({gone.tenant, name});
  leases_.Remove(id);
  // Streams may still hold it: it gives its memory back nevertheless.
  if (gone.upload != nullptr) gone.upload->Abandon();
  garbage->push_back(std::move(gone));
  entries_.erase(entry);
}

bool OperandStore::EvictLocked(const std::function<bool(const Entry&)>& may_go, Garbage* garbage) {
  const std::optional<std::uint64_t> victim = leases_.OldestUnleased(
      clock_->Now(), [&](std::uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        const Entry& entry = entries_.at(id);
        // Dropping what a product or a download uses, or what is being quantized, would give
        // nothing back. References are taken under this lock, so a count of one stays one.
        const bool is_used = entry.operand != nullptr
                                 ? entry.operand.use_count() != 1 || entry.operand->is_lent()
                                 : entry.upload->is_finishing();
        return !is_used && may_go(entry);
      });
  if (!victim.has_value()) return false;
  RemoveLocked(entries_.find(*victim), garbage);
  ++counts_.evictions;
  return true;
}

StoredInfo OperandStore::InfoLocked(std::uint64_t id, const Entry& entry) const {
  StoredInfo info;
  info.number = id;
  info.tenant = entry.tenant;
  info.handle = entry.handle;
  info.digest = entry.digest;
  for (const auto& [name, hold] : entry.names) info.names.push_back(name);
  info.form = entry.operand->form();
  info.device_bytes =
      host_->uses_host_memory() ? entry.operand->size_bytes() : entry.operand->device_bytes();
  info.lease = leases_.lease(id);
  info.lease_remaining = leases_.Remaining(id, clock_->Now());
  return info;
}

}  // namespace gemmd
