// Accounts of a device's memory, by tenant and by address: each may hold a share of it for requests
// in flight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace gemmd {

// Bytes of each kind of memory that requests take, as Device::host_memory_limits() tells them
// apart.
struct MemoryBytes {
  std::uint64_t device = 0;
  std::uint64_t small = 0;     // of the host, page-locked
  std::uint64_t large = 0;     // of the host, page-locked
  std::uint64_t ordinary = 0;  // of the host

  std::uint64_t total() const { return device + small + large + ordinary; }
};

// The client whose request holds memory. A tenant's name is only a claim, so the address from which
// it came is limited too.
struct MemoryHolder {
  std::string tenant;
  std::string peer;
};

// Thread-safe. A tenant may have a share of each kind, and so may a peer. A tenant or peer that
// holds nothing may take anything: a request that is larger than a share would never be let in
// otherwise. A tenant or peer that holds nothing is forgotten.
class MemoryShares {
 private:
  struct Account {
    std::size_t charges = 0;
    MemoryBytes bytes;
  };
  using Entry = std::pair<const std::string, Account>;
  struct State;

 public:
  // Bytes that are held until it is destroyed. Movable; may outlive the shares, because gRPC may
  // still send results then.
  class Charge {
   public:
    Charge() = default;
    Charge(Charge&& other) noexcept { *this = std::move(other); }
    Charge& operator=(Charge&& other) noexcept;
    ~Charge() { Release(); }

    void Release();
    // Moves some of its bytes to a charge of their own. REQUIRES: it has them.
    Charge Split(const MemoryBytes& bytes);
    std::uint64_t total_bytes() const { return bytes_.total(); }

   private:
    friend class MemoryShares;

    std::shared_ptr<State> state_;  // null: it holds nothing
    Entry* tenant_ = nullptr;
    Entry* peer_ = nullptr;
    MemoryBytes bytes_;
  };

  // `limits`: how much there is of each kind; a share is `percent` of it. `on_release` is called
  // when a charge ends, on any thread; it must neither block nor call anything of this.
  MemoryShares(const MemoryBytes& limits, int percent, std::function<void()> on_release);
  ~MemoryShares();
  MemoryShares(const MemoryShares&) = delete;
  MemoryShares& operator=(const MemoryShares&) = delete;

  // RESOURCE_EXHAUSTED names who would have more than a share, of what, and the numbers.
  absl::StatusOr<Charge> Take(const MemoryHolder& holder, const MemoryBytes& bytes);

  // Returns what the tenant or the address holds, whichever holds more, of all kinds together.
  std::uint64_t HeldBy(const MemoryHolder& holder) const;
  // Returns what all tenants hold together.
  MemoryBytes held() const;
  // Tenants and peers that hold something.
  std::size_t holders() const;

 private:
  const std::shared_ptr<State> state_;
};

}  // namespace gemmd
