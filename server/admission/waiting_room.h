// Requests that wait for memory, holding none.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "base/sync/mutex.h"
#include "base/time/clock.h"
#include "server/admission/memory_bytes.h"
#include "server/admission/turns.h"

namespace gemmd {

// Thread-safe. Turns go to the next tenant and to the next address alternately, so that neither
// many names at one address nor many addresses of one tenant take more than half of the turns. The
// requests of a tenant at an address are tried in the order in which they came: one that finds no
// room holds back those behind it. Memory is kept for such a request: clients that hold more than
// its client would with it get none. Otherwise the small requests of others would take each byte
// that comes back, and it would never find enough at once.
class WaitingRoom {
 public:
  struct Bounds {
    std::size_t requests = 1024;
    std::uint64_t bytes = std::uint64_t{1} << 30;  // of messages that wait with their requests
    int client_percent = 100;         // of each, that one tenant or one address may have
    TimeNs longest = 10'000'000'000;  // that a request waits
  };

  enum class Attempt : std::uint8_t {
    kTold,     // that the request is let in, or why it never will be
    kNoShare,  // its client holds all that it may
    kNoRoom,   // memory is full
  };

  struct Request {
    std::uint64_t id = 0;  // unique in the process
    MemoryHolder holder;
    std::uint64_t needed_bytes = 0;       // of memory
    std::function<std::uint64_t()> held;  // returns what its client holds of it now
    std::uint64_t bytes = 0;              // of the message that waits with it
    TimeNs deadline = kNoDeadline;
    // Tries to let the request in. Called until it returns kTold, never two at a time.
    absl::AnyInvocable<Attempt()> attempt;
    // Called, instead of another attempt, with CANCELLED, DEADLINE_EXCEEDED, or RESOURCE_EXHAUSTED
    // where it waited as long as any may.
    absl::AnyInvocable<void(absl::Status) &&> end;
  };

  // Looks after those that wait on a thread of its own, after each Poke() and every `period`, for
  // what nobody pokes for; zero: only when told.
  WaitingRoom(const Bounds& bounds, const Clock* clock, std::chrono::milliseconds period);
  // Ends those that still wait with CANCELLED.
  ~WaitingRoom();
  WaitingRoom(const WaitingRoom&) = delete;
  WaitingRoom& operator=(const WaitingRoom&) = delete;

  // RESOURCE_EXHAUSTED: too much waits; names the bound. Nothing of the request is called then.
  absl::Status Add(Request request);
  // Ends the request with CANCELLED if it waits; one that is being tried ends after the attempt if
  // that failed.
  void Cancel(std::uint64_t id);
  // Returns whether one of the tenant's requests waits, so that another one must wait behind it.
  // Others at its address need not: what they hold together is bounded. Takes no lock where nobody
  // waits.
  bool HasWaiting(const std::string& tenant) const;
  // Returns whether memory is kept from a client that holds `held()` now, for a request whose
  // client would hold less even with it. Calls `held` only if some is kept.
  template <typename Held>
  bool IsKeptFrom(const Held& held) const {
    const std::uint64_t kept_for = kept_for_;
    return kept_for != kNobody && held() > kept_for;
  }
  // There may be room.
  void Poke();

  // Tries those that wait, and ends those that are late.
  void Look();

  std::size_t waiting() const { return count_; }
  // Bytes of the messages that wait with their requests.
  std::uint64_t bytes() const;

 private:
  static constexpr std::uint64_t kNobody = ~std::uint64_t{0};

  struct Waiting {
    Request request;
    TimeNs since = 0;
    std::uint64_t failed_in = 0;  // the last look that found no room for it
    // Bytes that its client would have held with it when it last found memory full; else kNobody.
    std::uint64_t would_hold = kNobody;
    bool is_tried = false;  // right now
    bool is_cancelled = false;
  };
  // The requests of one tenant at one address.
  struct Lane {
    std::list<Waiting> waiting;
    std::uint64_t bytes = 0;
  };
  using Ended = std::list<std::pair<Waiting, absl::Status>>;

  void Run(std::chrono::milliseconds period);
  // Checks that a message of so many bytes may be added to those that wait.
  absl::Status Check(const std::string& whose, std::size_t waiting, std::uint64_t held, int percent,
                     std::uint64_t bytes) const;
  absl::Status CheckShareLocked(const std::string& whose, const std::list<Lane*>& lanes,
                                std::uint64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tries the first of the lane whose turn it is, and releases mutex_ meanwhile. Returns whether it
  // has been told.
  bool TryNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The least that a client would hold whose first request found memory full. `but`: one that does
  // not count; null: all do.
  std::uint64_t KeptForLocked(const Lane* but) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndLateLocked(TimeNs now, Ended* ended) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes a request out of its lane, which goes with its last.
  Waiting TakeLocked(Lane* lane, std::list<Waiting>::iterator waiting)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void Notify(Ended ended);

  const Bounds bounds_;
  const Clock* const clock_;
  Mutex looking_ ABSL_ACQUIRED_BEFORE(mutex_);  // one thread looks at a time

  mutable Mutex mutex_;
  CondVar wake_;
  bool poked_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Keyed by tenant and address; none is empty.
  std::map<std::pair<std::string, std::string>, Lane> lanes_ ABSL_GUARDED_BY(mutex_);
  Turns<Lane> tenants_ ABSL_GUARDED_BY(mutex_);
  Turns<Lane> addresses_ ABSL_GUARDED_BY(mutex_);
  bool is_addresses_turn_ ABSL_GUARDED_BY(mutex_) = false;
  std::uint64_t look_ ABSL_GUARDED_BY(mutex_) = 0;                  // the number of the last one
  std::map<std::uint64_t, Lane*> lane_of_ ABSL_GUARDED_BY(mutex_);  // by the request's id
  std::uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::atomic<std::size_t> count_{0};             // changed under mutex_
  std::atomic<std::uint64_t> kept_for_{kNobody};  // changed under mutex_; KeptForLocked(), of all
  std::thread thread_;                            // last: it uses all else
};

}  // namespace gemmd
