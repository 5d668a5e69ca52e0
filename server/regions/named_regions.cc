#include "server/regions/named_regions.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/text/quoted.h"

namespace gemmd {
namespace {

constexpr std::size_t kMaxNameBytes = 255;

absl::Status TakenError(const std::string& name) {
  return absl::AlreadyExistsError(
      absl::StrCat("shared memory region ", Quoted(name), " is registered already"));
}

}  // namespace

absl::Status NamedRegions::Register(const Tenant& tenant, const std::string& name,
                                    const std::string& key, std::uint64_t offset,
                                    std::uint64_t bytes) {
  if (absl::Status s = CheckFree(tenant, name); !s.ok()) return s;
  const PosixRegion region{std::string(absl::StripPrefix(key, "/")), offset, bytes};
  const absl::StatusOr<RegionTable::Registered> registered =
      table_->Register(region, table_->options().max_lease, tenant);
  if (!registered.ok()) return registered.status();
  return Add(tenant, name, {Kind::kPosix, registered->id, key, offset, bytes, 0});
}

absl::Status NamedRegions::RegisterCuda(const Tenant& tenant, const std::string& name,
                                        const std::string& handle, std::size_t device,
                                        std::uint64_t bytes) {
  if (absl::Status s = CheckFree(tenant, name); !s.ok()) return s;
  const absl::StatusOr<RegionTable::Registered> registered =
      table_->Register(CudaRegion{handle, device, 0, bytes}, table_->options().max_lease, tenant);
  if (!registered.ok()) return registered.status();
  return Add(tenant, name, {Kind::kCuda, registered->id, "", 0, bytes, device});
}

absl::Status NamedRegions::CheckFree(const Tenant& tenant, const std::string& name) {
  if (name.empty() || name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("name has ", name.size(), " bytes; it must have 1 to ", kMaxNameBytes));
  }
  const MutexLock lock(mutex_);
  const auto found = entries_.find({tenant, name});
  if (found == entries_.end() || !IsThere(found->first, found->second)) return absl::OkStatus();
  return TakenError(name);
}

absl::Status NamedRegions::Add(const Tenant& tenant, const std::string& name, Entry entry) {
  std::string given_back = entry.region;
  {
    const MutexLock lock(mutex_);
    for (auto it = entries_.begin(); it != entries_.end();) {
      it = IsThere(it->first, it->second) ? std::next(it) : entries_.erase(it);
    }
    if (entries_.emplace(Key(tenant, name), std::move(entry)).second) return absl::OkStatus();
  }
  // Another call took the name meanwhile.
  table_->Unregister(given_back, tenant).IgnoreError();
  return TakenError(name);
}

absl::StatusOr<std::string> NamedRegions::Find(const Tenant& tenant, const std::string& name) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find({tenant, name});
  if (found != entries_.end() && IsThere(found->first, found->second)) {
    return found->second.region;
  }
  return UnknownError(name);
}

absl::Status NamedRegions::UnknownError(const std::string& name) {
  return absl::NotFoundError(
      absl::StrCat("unable to find shared memory region ", Quoted(name),
                   ": it was never registered, was unregistered, or its lease ran out"));
}

std::map<std::string, NamedRegions::Entry> NamedRegions::List(const Tenant& tenant, Kind kind,
                                                              const std::string& name) {
  std::map<std::string, Entry> found;
  const MutexLock lock(mutex_);
  for (auto it = entries_.lower_bound({tenant, name});
       it != entries_.end() && it->first.first == tenant; ++it) {
    if (!name.empty() && it->first.second != name) break;
    if (it->second.kind == kind && IsThere(it->first, it->second)) {
      found.emplace(it->first.second, it->second);
    }
  }
  return found;
}

void NamedRegions::Unregister(const Tenant& tenant, Kind kind, const std::string& name) {
  for (const auto& [each, entry] : List(tenant, kind, name)) {
    {
      const MutexLock lock(mutex_);
      const auto found = entries_.find({tenant, each});
      if (found == entries_.end() || found->second.region != entry.region) continue;
      entries_.erase(found);
    }
    // Without the lock: unlocking pages takes a while.
    table_->Unregister(entry.region, tenant).IgnoreError();
  }
}

}  // namespace gemmd
