#include "server/rpc/reactors/session_reactor.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/time/units.h"
#include "server/rpc/calls/caller.h"
#include "server/rpc/codec/status.h"

namespace gemmd {
namespace {

// The time between two looks for a message that is not whole.
TimeNs LookPeriod(const ProgressLimit& limit) { return std::min(kSecond, limit.window / 4); }

}  // namespace

void SessionReactor::Start() {
  self_ = shared_from_this();
  if (!services_.admission->IsDraining()) Count();
  if (const absl::Status s =
          services_.watch->Add(this, PeerOf(*context_), HeaderBytesOf(*context_));
      !s.ok()) {
    FinishOnce(s);
  } else {
    SetDue(services_.clock->Now() + LookPeriod(progress_limit()));
    StartRead(&incoming_);
  }
}

void SessionReactor::Count() {
  if (!std::exchange(is_counted_, true)) ++*services_.active_calls;
}

void SessionReactor::OnWriteDone(bool ok) {
  {
    const MutexLock lock(mutex_);
    is_writing_ = false;
    outgoing_.Clear();
  }
  if (!ok) OnCancel();
  Pump();
}

void SessionReactor::OnCancel() {
  std::shared_ptr<MatmulSession> session;
  {
    const MutexLock lock(mutex_);
    session = session_;
  }
  if (session == nullptr) return FinishOnce(absl::CancelledError("cancelled"));
  session->Break(absl::CancelledError("another stream of the session broke"));
}

void SessionReactor::OnDone() {
  services_.watch->Remove(this);
  if (is_counted_) --*services_.active_calls;
  const std::shared_ptr<SessionReactor> last = std::move(self_);
}

absl::Status SessionReactor::AddTo(std::shared_ptr<MatmulSession> session) {
  const absl::StatusOr<MatmulSession::StreamId> stream =
      session->AddStream([reactor = weak_from_this()] {
        if (const auto alive = reactor.lock()) alive->Pump();
      });
  if (!stream.ok()) return stream.status();
  const MutexLock lock(mutex_);
  stream_ = *stream;
  session_ = std::move(session);
  return absl::OkStatus();
}

void SessionReactor::Pump() {
  const MutexLock lock(mutex_);
  if (is_finished_ || session_ == nullptr) return;
  if (!is_writing_) {
    if (const std::vector<Outgoing> next = session_->NextMessage(stream_); !next.empty()) {
      outgoing_ = Encode(next);
      is_writing_ = true;
      StartWrite(&outgoing_);
    }
  }
  const std::optional<absl::Status> closing = session_->Closing();
  if (closing.has_value() && !is_writing_) {
    session_->OnClosed();
    return FinishLocked(*closing);
  }
  // The client has stopped reading: a write that is under way ends when the call is cancelled.
  if (closing.has_value() && absl::IsDeadlineExceeded(*closing)) EndBy(0);
  if (!closing.has_value() && reading_waits_ && HasRoomLocked() && session_->MayRead(stream_)) {
    reading_waits_ = false;
    StartRead(&incoming_);
  }
  SetHeldBack(reading_waits_ && !closing.has_value());
}

void SessionReactor::FinishOnce(const absl::Status& status) {
  const MutexLock lock(mutex_);
  if (!is_finished_) FinishLocked(status);
}

void SessionReactor::FinishLocked(const absl::Status& status) {
  is_finished_ = true;
  EndBy(services_.clock->Now() + progress_limit().window);
  Finish(ToGrpcStatus(status, context_));
}

void SessionReactor::EndBy(TimeNs due) {
  must_end_ = true;
  SetDue(due);
}

TimeNs SessionReactor::OnLate(TimeNs now) {
  if (!mutex_.try_lock()) return now;  // something happens to it
  const MutexLock lock(mutex_, std::adopt_lock);
  if (now <= due()) return due();  // it has just ended, and its client has time to read that
  if (must_end_) {
    context_->TryCancel();
    return kNoDeadline;
  }
  const TimeNs period = LookPeriod(progress_limit());
  if (session_ != nullptr && IsMessageComing(now)) session_->ExpectMessage(now + 3 * period);
  return now + period;
}

// A session is its first stream's.
std::uint64_t SessionReactor::IdleBytes(TimeNs before) {
  if (!mutex_.try_lock()) return 0;  // something happens to it
  const MutexLock lock(mutex_, std::adopt_lock);
  const bool has_session = session_ != nullptr && stream_ == MatmulSession::kFirst;
  return has_session ? session_->IdleBytes(before) : 0;
}

void SessionReactor::Recall(TimeNs before) {
  std::shared_ptr<MatmulSession> session;
  {
    if (!mutex_.try_lock()) return;
    const MutexLock lock(mutex_, std::adopt_lock);
    session = session_;
  }
  if (session != nullptr) session->Recall(before);
}

}  // namespace gemmd
