// Counts what tenants keep: all together against the store's limit, each against its quota.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "absl/status/statusor.h"
#include "server/store/tenant.h"
#include "sync/adaptive_mutex.h"

namespace gemmd {

class StoreBudget;

// Bytes of a tenant's, held until destroyed. Movable.
class StoreHold {
 public:
  StoreHold() = default;
  StoreHold(StoreHold&& other) noexcept { *this = std::move(other); }
  StoreHold& operator=(StoreHold&& other) noexcept;
  ~StoreHold() { Release(); }

  void Release();

 private:
  friend class StoreBudget;
  StoreHold(std::shared_ptr<StoreBudget> budget, Tenant tenant, std::uint64_t bytes)
      : budget_(std::move(budget)), tenant_(std::move(tenant)), bytes_(bytes) {}

  std::shared_ptr<StoreBudget> budget_;
  Tenant tenant_;
  std::uint64_t bytes_ = 0;
};

// Thread-safe.
class StoreBudget : public std::enable_shared_from_this<StoreBudget> {
 public:
  StoreBudget(std::uint64_t limit_bytes, std::uint64_t tenant_bytes)
      : limit_bytes_(limit_bytes), tenant_bytes_(tenant_bytes) {}

  // Which limit stands in the way.
  enum class Limit : std::uint8_t { kNone, kStore, kTenant };

  // RESOURCE_EXHAUSTED: does not fit now; `*limit` says why. INVALID_ARGUMENT: it never does.
  absl::StatusOr<StoreHold> Reserve(const Tenant& tenant, std::uint64_t bytes, Limit* limit);

  std::uint64_t limit_bytes() const { return limit_bytes_; }
  std::uint64_t used_bytes() const;
  std::uint64_t used_bytes(const Tenant& tenant) const;

 private:
  friend class StoreHold;
  void Release(const Tenant& tenant, std::uint64_t bytes);

  const std::uint64_t limit_bytes_;
  const std::uint64_t tenant_bytes_;
  mutable AdaptiveMutex mutex_;
  std::uint64_t used_bytes_ = 0;             // guarded by mutex_
  std::map<Tenant, std::uint64_t> tenants_;  // guarded by mutex_; none with 0
};

}  // namespace gemmd
