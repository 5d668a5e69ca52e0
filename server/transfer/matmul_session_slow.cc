// A session's clients that send or read slowly, or not at all.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/observe/refusal.h"
#include "server/transfer/matmul_session.h"

namespace gemmd {

void MatmulSession::ExpectMessage(TimeNs until) {
  const MutexLock lock(mutex_);
  message_expected_until_ = std::max(message_expected_until_, until);
}

bool MatmulSession::IsStalledLocked(const Progress& payload, TimeNs now) const {
  const bool may_be_under_way =
      now < message_expected_until_ && now <= payload.DueOfWhole(options_.message_bytes);
  return payload.IsStalled(now) && !may_be_under_way;
}

void MatmulSession::EndLate(TimeNs now) {
  bool is_stalled = false;
  bool is_changed = false;
  {
    const MutexLock lock(mutex_);
    is_stalled = std::any_of(streams_.begin(), streams_.end(),
                             [&](const Stream& stream) { return stream.sending.IsStalled(now); });
    std::vector<std::pair<RequestPtr, absl::Status>> late;
    for (const auto& [id, request] : requests_) {
      if (request->state != State::kReceiving) continue;
      if (request->deadline <= now) {
        late.emplace_back(request, absl::DeadlineExceededError(
                                       "the deadline passed before the payload was there"));
      } else if (IsStalledLocked(request->progress, now)) {
        late.emplace_back(request, StalledError("the payload came", options_.progress));
      }
    }
    for (auto& [request, status] : late) EndReceivingLocked(request, std::move(status));
    is_changed = !late.empty();
  }
  if (is_stalled) {
    Break(StalledError("the client read", options_.progress));
  } else if (is_changed) {
    WakeAll();
  }
}

std::uint64_t MatmulSession::UnreadBytesLocked(TimeNs before) const {
  const bool is_unread =
      std::any_of(streams_.begin(), streams_.end(),
                  [before](const Stream& each) { return each.sending_since <= before; });
  if (!is_unread) return 0;
  std::uint64_t bytes = 0;
  for (const Result& each : results_) bytes += each.size;
  for (const Outgoing& each : control_) bytes += PayloadBytes(each);
  return bytes;
}

std::uint64_t MatmulSession::IdleBytes(TimeNs before) const {
  const MutexLock lock(mutex_);
  std::uint64_t bytes = UnreadBytesLocked(before);
  for (const auto& [id, request] : requests_) {
    if (request->state == State::kReceiving && request->moved <= before) {
      bytes += request->held_bytes;
    }
  }
  return bytes;
}

void MatmulSession::Recall(TimeNs before) {
  const auto status = [](absl::string_view what) {
    return WithCause(absl::DeadlineExceededError(absl::StrCat(
                         "other requests wait for memory, and ", what, " for some seconds")),
                     RefusalCause::kStalled);
  };
  bool is_unread = false;
  {
    const MutexLock lock(mutex_);
    is_unread = UnreadBytesLocked(before) != 0;
    std::vector<RequestPtr> idle;
    for (const auto& [id, request] : requests_) {
      if (request->state == State::kReceiving && request->moved <= before) idle.push_back(request);
    }
    for (const RequestPtr& request : idle) {
      EndReceivingLocked(request, status("none of this one's payload came"));
    }
  }
  is_unread ? Break(status("the client read nothing")) : WakeAll();
}

}  // namespace gemmd
