#include "client/load/transport/infer_stream.h"

#include <algorithm>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/result.h"
#include "client/status.h"
#include "client/wire/message.h"

namespace gemmd::load {

void SetClientTimes(absl::Time sent, absl::Time received, client::Product* product) {
  const absl::Time now = absl::Now();
  client::ClientTimes& times = product->receipt.client;
  times.round_trip = received - sent;
  times.wire = std::max(absl::ZeroDuration(),
                        times.round_trip - absl::Microseconds(product->receipt.server.total_us()));
  times.decode = now - received;
  times.total = now - sent;
}

std::shared_ptr<InferStream> InferStream::Open(const std::shared_ptr<grpc::Channel>& channel,
                                               std::shared_ptr<client::CallCount> count,
                                               const InferCall& first) {
  std::shared_ptr<InferStream> stream(new InferStream(channel, std::move(count)));
  stream->self_ = stream;
  stream->stub_.PrepareBidiStreamingCall(&stream->context_,
                                         "/inference.GRPCInferenceService/ModelStreamInfer",
                                         grpc::StubOptions(), stream.get());
  stream->AddHold();  // until nobody can write any more
  stream->StartRead(&stream->incoming_);
  stream->Send(first);  // before it starts, and so before it can have ended
  stream->StartCall();
  return stream;
}

bool InferStream::Send(const InferCall& call) {
  bool writes = false;
  {
    const MutexLock lock(mutex_);
    if (read_ended_ || !broken_.ok()) return false;
    const std::uint64_t id = next_id_++;
    in_flight_.emplace(id, InFlight{call, absl::Now()});
    to_write_.push_back(id);
    writes = to_write_.size() == 1 && TakeFrontLocked();
    if (alarm_ == nullptr && call.deadline != absl::InfiniteFuture()) ArmLocked();
  }
  // The write keeps the stream open.
  if (writes) StartWrite(&outgoing_);
  return true;
}

bool InferStream::TakeFrontLocked() {
  // One whose time was over while it waited is not sent.
  while (!to_write_.empty()) {
    const std::uint64_t id = to_write_.front();
    const auto found = in_flight_.find(id);
    if (found != in_flight_.end()) {
      outgoing_ = InferMessage(*found->second.call.request, absl::StrCat(id));
      return true;
    }
    to_write_.pop_front();
  }
  return false;
}

absl::StatusOr<std::unique_ptr<InferStream::Ended>> InferStream::Receive(absl::Time received) {
  std::vector<grpc::Slice> slices;
  inference::ModelStreamInferResponse response;
  PayloadViews raw;
  if (!client::DumpAndParse(incoming_, slices, response, raw)) {
    return client::BadResponse("it is no ModelStreamInferResponse");
  }
  const std::string& id_text = response.infer_response().id();
  std::uint64_t id = 0;
  const bool is_number = absl::SimpleAtoi(id_text, &id);
  InFlight answered;
  {
    const MutexLock lock(mutex_);
    const auto found = in_flight_.find(id);
    const bool is_waited_for =
        found != in_flight_.end() && (to_write_.empty() || id <= to_write_.front());
    if (!is_waited_for) {
      const bool was_sent = is_number && id > 0 && id < next_id_ && found == in_flight_.end();
      if (was_sent) return nullptr;
      return client::BadResponse(
          absl::StrCat("it answers request \"", id_text.substr(0, 64), "\", which was not sent"));
    }
    answered = std::move(found->second);
    in_flight_.erase(found);
  }
  auto ended = std::make_unique<Ended>(std::move(answered.call), absl::UnknownError(""));
  if (!response.error_message().empty()) {
    ended->second = StreamedError(response.error_message());
    return ended;
  }
  ended->second = DecodeInfer(response.infer_response(), raw, *ended->first.request);
  if (ended->second.ok()) SetClientTimes(answered.sent, received, &*ended->second);
  return ended;
}

void InferStream::OnReadDone(bool ok) {
  if (ok) {
    absl::StatusOr<std::unique_ptr<Ended>> ended = Receive(absl::Now());
    if (ended.ok()) {
      if (*ended != nullptr) (*ended)->first.done((*ended)->second);
    } else {
      {
        const MutexLock lock(mutex_);
        if (broken_.ok()) broken_ = ended.status();
      }
      context_.TryCancel();
    }
    incoming_.Clear();
    return StartRead(&incoming_);
  }
  bool is_last = false;
  std::shared_ptr<grpc::Alarm> alarm;
  {
    const MutexLock lock(mutex_);
    read_ended_ = true;
    is_last = to_write_.empty();
    alarm = alarm_;
  }
  if (alarm != nullptr) alarm->Cancel();
  if (is_last) RemoveHold();
}

void InferStream::OnWriteDone(bool /*ok*/) {
  bool writes = false;
  bool is_last = false;
  {
    const MutexLock lock(mutex_);
    to_write_.pop_front();
    if (read_ended_) {
      to_write_.clear();
      is_last = true;
    } else {
      writes = TakeFrontLocked();
    }
  }
  if (writes) StartWrite(&outgoing_);
  if (is_last) RemoveHold();
}

void InferStream::ArmLocked() {
  AddHold();  // until it has rung
  alarm_ = std::make_shared<grpc::Alarm>();
  alarm_->Set(absl::ToChronoTime(in_flight_.begin()->second.call.deadline),
              [this](bool /*ok*/) { OnAlarm(); });
}

void InferStream::OnAlarm() {
  std::vector<InferCall> late;
  std::shared_ptr<grpc::Alarm> rung;  // goes last, outside the lock
  {
    const MutexLock lock(mutex_);
    rung = std::move(alarm_);
    alarm_ = nullptr;
    const absl::Time now = absl::Now();
    while (!in_flight_.empty() && in_flight_.begin()->second.call.deadline <= now) {
      late.push_back(std::move(in_flight_.begin()->second.call));
      in_flight_.erase(in_flight_.begin());
    }
    if (!read_ended_ && !in_flight_.empty()) ArmLocked();
  }
  for (const InferCall& call : late) {
    call.done(absl::DeadlineExceededError("no answer came on the stream within the timeout"));
  }
  RemoveHold();
}

void InferStream::OnDone(const grpc::Status& status) {
  absl::Status why = client::FromGrpc(status);
  std::map<std::uint64_t, InFlight> left;
  {
    const MutexLock lock(mutex_);
    if (!broken_.ok()) why = broken_;
    left.swap(in_flight_);
  }
  if (why.ok()) why = absl::UnavailableError("the server ended the stream");
  for (const auto& [id, each] : left) each.call.done(why);
  const std::shared_ptr<InferStream> self = std::move(self_);
}

}  // namespace gemmd::load
