#include "server/rpc/reactors/request_reactor.h"

#include <algorithm>

#include "base/time/units.h"
#include "server/rpc/calls/caller.h"
#include "server/rpc/calls/peer.h"
#include "server/rpc/codec/status.h"

namespace gemmd {
namespace {

// A message that is there by then costs no more than this look at the clock.
constexpr TimeNs kMoment = 2'000'000'000;

}  // namespace

RequestReactor::RequestReactor(CallWatch* watch, grpc::CallbackServerContext* context)
    : watch_(watch), context_(context) {
  if (const absl::Status s = watch_->Add(this, PeerOf(*context), HeaderBytesOf(*context));
      !s.ok()) {
    Fail(s);
  } else {
    StartReading();
  }
}

void RequestReactor::ReadNext() {
  has_message_ = true;
  StartReading();
}

void RequestReactor::StartReading() {
  start_ = watch_->clock().Now();
  held_bytes_ = 0;
  is_reading_ = true;
  SetReading(true);
  SetDue(start_ + std::min(kMoment, progress_limit().window));
  StartRead(&incoming_);
}

void RequestReactor::OnReadDone(bool ok) {
  // Ahead of EndReading(): see OnLate().
  SetDue(kNoDeadline);
  if (!EndReading()) return ExpectRead(0);  // it was too late, and has been answered
  LeaveSlowCalls();
  if (ok) {
    // Its memory is gRPC's, and not needed for as long as the call goes on.
    grpc::ByteBuffer message;
    message.Swap(&incoming_);
    CountMessage(message.Length());
    SetReading(false);
    return OnMessage(message);
  }
  if (has_message_) return FinishCall(grpc::Status::OK);
  OnNoMessage(absl::StatusCode::kInvalidArgument);
  Fail(absl::InvalidArgumentError("the call ended before its message came"));
}

void RequestReactor::OnDone() {
  watch_->Remove(this);
  OnEnd();
  delete this;
}

void RequestReactor::Answer(grpc::ByteBuffer* message) {
  outgoing_.Swap(message);
  ExpectRead(outgoing_.Length());
  StartWriteAndFinish(&outgoing_, {}, grpc::Status::OK);
}

void RequestReactor::FinishCall(const grpc::Status& status) {
  ExpectRead(0);
  Finish(status);
}

void RequestReactor::ExpectRead(std::uint64_t bytes, std::uint64_t held_bytes) {
  start_ = watch_->clock().Now();
  read_bytes_ = bytes;
  held_bytes_ = std::max(bytes, held_bytes);
  const ProgressLimit& limit = progress_limit();
  // Before that nobody can say how fast the connection moves.
  constexpr TimeNs kSeen = 3'000'000'000;
  SetDue(std::min(Progress::OfWhole(limit, bytes, start_).due(),
                  start_ + std::max(kSeen, limit.window)));
}

void RequestReactor::Recall(TimeNs before) {
  if (!is_reading_ && IdleBytes(before) != 0) context_->TryCancel();
}

TimeNs RequestReactor::OnLate(TimeNs now) {
  if (is_reading_) return OnSlowMessage(now);
  if (now <= due()) return due();  // its message has just come
  // Nothing is seen of an answer before all of it was taken; what its connection takes is.
  const ProgressLimit& limit = progress_limit();
  if (now <= Progress::OfWhole(limit, read_bytes_, start_).due() && IsMoving()) {
    return now + std::min(kSecond, limit.window / 4);
  }
  context_->TryCancel();  // its client does not read
  return kNoDeadline;
}

TimeNs RequestReactor::OnSlowMessage(TimeNs now) {
  const ProgressLimit& limit = progress_limit();
  const std::uint64_t message_bytes = watch_->options().message_bytes;
  const TimeNs due = Progress::OfWhole(limit, message_bytes, start_).due();
  absl::Status status = StalledError("the call's message came", limit);
  if (now <= due) {
    absl::StatusOr<Hold> place = watch_->slow_calls()->Take(AddressOf(PeerOf(*context_)));
    status = place.status();
    if (place.ok()) {
      slow_ = *std::move(place);
      is_slow_ = true;
      if (!is_reading_) LeaveSlowCalls();  // it came meanwhile
      return due;
    }
  }
  if (!EndReading()) return kNoDeadline;
  LeaveSlowCalls();
  OnNoMessage(status.code());
  Finish(ToGrpc(status));
  return now + limit.window;
}

void RequestReactor::LeaveSlowCalls() {
  if (is_slow_.exchange(false)) slow_.Release();
}

grpc::Status RequestReactor::ToGrpc(const absl::Status& status) {
  return ToGrpcStatus(status, context_);
}

}  // namespace gemmd
