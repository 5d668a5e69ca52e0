#include "server/drain.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/time/units.h"

namespace gemmd {

void Drain::Start() {
  parts_.server->SetServing(false);
  parts_.router->StartDraining();
  parts_.gemm->StartDraining();
  parts_.inference->StartDraining();
}

bool Drain::AwaitWork(std::int64_t timeout_ms, const std::function<bool(int wait_ms)>& stops) {
  constexpr int kPollMs = 10;
  const TimeNs end = EndOf(timeout_ms);
  // Counts go up before anything is let in, and so none is missed that Start() came too late for.
  const auto has_work = [this] {
    return parts_.statistics->Read().in_flight != 0 || parts_.operands->active_uploads() != 0 ||
           !parts_.router->WaitUntilIdle(0);
  };
  while (has_work()) {
    if (parts_.clock->Now() >= end || stops(kPollMs)) return false;
  }
  return true;
}

bool Drain::AwaitSent(std::int64_t timeout_ms) {
  constexpr std::chrono::milliseconds kPoll(5);
  const TimeNs end = EndOf(timeout_ms);
  while (active_calls() != 0 || parts_.connections->UnacknowledgedBytes() != 0) {
    if (parts_.clock->Now() >= end) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

Unfinished Drain::unfinished() const {
  Unfinished unfinished;
  unfinished.running = parts_.router->unfinished_jobs();
  const std::uint64_t in_flight = parts_.statistics->Read().in_flight;
  unfinished.receiving = in_flight - std::min(in_flight, unfinished.running);
  unfinished.uploads = static_cast<std::uint64_t>(parts_.operands->active_uploads());
  unfinished.calls = static_cast<std::uint64_t>(active_calls());
  unfinished.unacknowledged_bytes = parts_.connections->UnacknowledgedBytes();
  return unfinished;
}

int Drain::active_calls() const {
  return parts_.gemm->active_calls() + parts_.inference->active_calls() +
         parts_.operands->active_downloads();
}

TimeNs Drain::EndOf(std::int64_t timeout_ms) const {
  return parts_.clock->Now() + timeout_ms * kMillisecond;
}

}  // namespace gemmd
