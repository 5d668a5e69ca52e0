#include "server/admission/waiting_room.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text/duration.h"
#include "base/text/quoted.h"
#include "server/admission/percent.h"
#include "server/observe/refusal.h"
#include "server/tenants/retry_after.h"

namespace gemmd {
namespace {

// A look ends once this many turns in a row have found no room: names are free, and each attempt
// takes some microseconds. Turns that were left out come first in the next look.
constexpr std::size_t kMostFailures = 32;

}  // namespace

WaitingRoom::WaitingRoom(const Bounds& bounds, const Clock* clock, std::chrono::milliseconds period)
    : bounds_(bounds), clock_(clock) {
  if (period.count() > 0) thread_ = std::thread([this, period] { Run(period); });
}

WaitingRoom::~WaitingRoom() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  Ended ended;
  while (!lanes_.empty()) {
    Lane* const lane = &lanes_.begin()->second;
    ended.emplace_back(TakeLocked(lane, lane->waiting.begin()),
                       absl::CancelledError("the server ends"));
  }
  Notify(std::move(ended));
}

std::uint64_t WaitingRoom::bytes() const {
  const MutexLock lock(mutex_);
  return bytes_;
}

absl::Status WaitingRoom::Add(Request request) {
  {
    const MutexLock lock(mutex_);
    const auto& [tenant, address] = request.holder;
    absl::Status status = Check("", count_, bytes_, 100, request.bytes);
    status.Update(CheckShareLocked(absl::StrCat("of tenant ", Quoted(tenant), " "),
                                   tenants_.Of(tenant), request.bytes));
    status.Update(CheckShareLocked(absl::StrCat("of address ", Quoted(address), " "),
                                   addresses_.Of(address), request.bytes));
    if (!status.ok()) return status;

    const auto [found, is_new] = lanes_.try_emplace({tenant, address});
    Lane& lane = found->second;
    if (is_new) {
      tenants_.Add(tenant, &lane);
      addresses_.Add(address, &lane);
    }
    lane.bytes += request.bytes;
    bytes_ += request.bytes;
    lane_of_[request.id] = &lane;
    Waiting& waiting = lane.waiting.emplace_back();
    waiting.request = std::move(request);
    waiting.since = clock_->Now();
    ++count_;
    poked_ = true;
  }
  wake_.notify_all();
  return absl::OkStatus();
}

absl::Status WaitingRoom::CheckShareLocked(const std::string& whose, const std::list<Lane*>& lanes,
                                           std::uint64_t bytes) const {
  std::size_t waiting = 0;
  std::uint64_t held = 0;
  for (const Lane* lane : lanes) {
    waiting += lane->waiting.size();
    held += lane->bytes;
  }
  return Check(whose, waiting, held, bounds_.client_percent, bytes);
}

absl::Status WaitingRoom::Check(const std::string& whose, std::size_t waiting, std::uint64_t held,
                                int percent, std::uint64_t bytes) const {
  const std::uint64_t most_requests = PercentOf(bounds_.requests, percent);
  const std::uint64_t most_bytes = PercentOf(bounds_.bytes, percent);
  if (waiting < most_requests && held <= most_bytes && bytes <= most_bytes - held) {
    return absl::OkStatus();
  }
  return WithCause(WithRetryAfter(absl::ResourceExhaustedError(absl::StrCat(
                                      whose, waiting, " requests with messages of ", held,
                                      " bytes wait for memory, and this one has ", bytes,
                                      "; the limits are ", most_requests, " and ", most_bytes)),
                                  WaitsFor::kClients),
                   RefusalCause::kWaiting);
}

void WaitingRoom::Cancel(std::uint64_t id) {
  if (count_ == 0) return;
  Ended ended;
  {
    const MutexLock lock(mutex_);
    const auto found = lane_of_.find(id);
    if (found == lane_of_.end()) return;
    Lane* const lane = found->second;
    const auto waiting = std::find_if(lane->waiting.begin(), lane->waiting.end(),
                                      [id](const Waiting& each) { return each.request.id == id; });
    if (waiting->is_tried) {
      waiting->is_cancelled = true;
    } else {
      ended.emplace_back(TakeLocked(lane, waiting), absl::CancelledError("cancelled"));
      kept_for_ = KeptForLocked(nullptr);
    }
  }
  Notify(std::move(ended));
}

bool WaitingRoom::HasWaiting(const std::string& tenant) const {
  if (count_ == 0) return false;
  const MutexLock lock(mutex_);
  return !tenants_.Of(tenant).empty();
}

void WaitingRoom::Poke() {
  if (count_ == 0) return;
  {
    const MutexLock lock(mutex_);
    poked_ = true;
  }
  wake_.notify_all();
}

void WaitingRoom::Look() {
  Ended ended;
  {
    const MutexLock looking(looking_);
    const MutexLock lock(mutex_);
    ++look_;
    EndLateLocked(clock_->Now(), &ended);
    std::size_t failures = 0;
    // Each lane has a turn by its tenant and one by its address.
    while (failures < std::min(2 * lanes_.size(), kMostFailures)) {
      failures = TryNext() ? 0 : failures + 1;
    }
    kept_for_ = KeptForLocked(nullptr);
  }
  Notify(std::move(ended));
}

bool WaitingRoom::TryNext() {
  Lane* const lane = is_addresses_turn_ ? addresses_.Next() : tenants_.Next();
  is_addresses_turn_ = !is_addresses_turn_;
  const auto first = lane->waiting.begin();
  if (std::exchange(first->failed_in, look_) == look_) return false;
  const std::uint64_t kept_for_others = KeptForLocked(lane);
  first->is_tried = true;
  // Not under the lock: whoever gives memory back holds that of the shares, and pokes.
  mutex_.unlock();
  const std::uint64_t held = first->request.held();
  const bool is_kept_from_it = held > kept_for_others;
  const Attempt attempt = is_kept_from_it ? Attempt::kNoShare : first->request.attempt();
  const bool is_told = attempt == Attempt::kTold;
  mutex_.lock();
  first->is_tried = false;
  first->would_hold = attempt == Attempt::kNoRoom ? held + first->request.needed_bytes : kNobody;
  if (!is_told && !first->is_cancelled) return false;
  {
    Waiting waiting = TakeLocked(lane, first);
    mutex_.unlock();
    if (!is_told) std::move(waiting.request.end)(absl::CancelledError("cancelled"));
    // It goes before the lock is taken again: with it may go memory, and that pokes the room.
  }
  mutex_.lock();
  return true;
}

std::uint64_t WaitingRoom::KeptForLocked(const Lane* but) const {
  std::uint64_t least = kNobody;
  for (const auto& [holder, lane] : lanes_) {
    if (&lane != but) least = std::min(least, lane.waiting.front().would_hold);
  }
  return least;
}

void WaitingRoom::EndLateLocked(TimeNs now, Ended* ended) {
  struct Late {
    Lane* lane;
    std::list<Waiting>::iterator waiting;
    absl::Status status;
  };
  std::vector<Late> late;
  for (auto& [holder, lane] : lanes_) {
    for (auto each = lane.waiting.begin(); each != lane.waiting.end(); ++each) {
      if (each->request.deadline <= now) {
        late.push_back({&lane, each,
                        absl::DeadlineExceededError(
                            "the deadline passed while the request waited for memory")});
      } else if (now - each->since >= bounds_.longest) {
        late.push_back({&lane, each,
                        WithCause(WithRetryAfter(absl::ResourceExhaustedError(absl::StrCat(
                                                     "no memory became free for the request in ",
                                                     DurationText(bounds_.longest))),
                                                 WaitsFor::kClients),
                                  RefusalCause::kWaiting)});
      }
    }
  }
  for (Late& each : late) {
    ended->emplace_back(TakeLocked(each.lane, each.waiting), std::move(each.status));
  }
}

WaitingRoom::Waiting WaitingRoom::TakeLocked(Lane* lane, std::list<Waiting>::iterator waiting) {
  Waiting taken = std::move(*waiting);
  lane->waiting.erase(waiting);
  lane->bytes -= taken.request.bytes;
  bytes_ -= taken.request.bytes;
  lane_of_.erase(taken.request.id);
  --count_;
  if (lane->waiting.empty()) {
    const auto& [tenant, address] = taken.request.holder;
    tenants_.Remove(tenant, lane);
    addresses_.Remove(address, lane);
    lanes_.erase({tenant, address});
  }
  return taken;
}

void WaitingRoom::Notify(Ended ended) {
  for (auto& [waiting, status] : ended) std::move(waiting.request.end)(std::move(status));
}

void WaitingRoom::Run(std::chrono::milliseconds period) {
  RelockableMutexLock lock(mutex_);
  while (!stopping_) {
    if (count_ == 0) {
      while (!stopping_ && !poked_) wake_.wait(mutex_);
    } else {
      const auto end = std::chrono::steady_clock::now() + period;
      while (!stopping_ && !poked_) {
        if (wake_.wait_until(mutex_, end) == std::cv_status::timeout) break;
      }
    }
    if (stopping_) return;
    poked_ = false;
    lock.unlock();
    Look();
    lock.lock();
  }
}

}  // namespace gemmd
