#include "client/operand_link.h"

#include <future>
#include <optional>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/wire_types.h"

namespace gemmd::client {

BlockingCall OperandLink::Call(const char* method, absl::Time deadline) const {
  return BlockingCall(channel, absl::StrCat("/gemmd.v1.", method), deadline);
}

bool OperandLink::WaitAfter(const CallEnd& end, int attempts, absl::Time deadline) const {
  FailedAttempt failed;
  failed.attempts = attempts;
  failed.code = end.status.code();
  failed.pushback = end.pushback;
  failed.now = absl::Now();
  failed.deadline = deadline;
  absl::BitGen generator;
  const std::optional<absl::Duration> delay = RetryDelay(retry, failed, generator);
  if (!delay) return false;
  auto rung = std::make_shared<std::promise<void>>();
  timer->After(*delay, [rung] { rung->set_value(); });
  rung->get_future().wait();
  return true;
}

absl::Status OperandLink::Exchange(const char* method, const grpc::ByteBuffer& request,
                                   absl::Time deadline, grpc::ByteBuffer* answer) const {
  for (int attempts = 1;; ++attempts) {
    CallEnd end;
    {
      BlockingCall call = Call(method, deadline);
      end = client::Exchange(call, request, answer);
    }
    if (end.status.ok() || !WaitAfter(end, attempts, deadline)) return end.status;
  }
}

absl::StatusOr<std::vector<v1::ByteRange>> OperandLink::MissingOf(const OperandSource& source,
                                                                  absl::Time deadline) const {
  v1::FindMissingRequest request;
  request.add_digests(source.digest());
  const absl::StatusOr<v1::FindMissingResponse> response =
      Unary<v1::FindMissingResponse>("Operands/FindMissing", request, deadline);
  if (!response.ok()) return response.status();
  if (response->missing().empty()) return std::vector<v1::ByteRange>();
  for (const v1::PartialUpload& partial : response->partial()) {
    return std::vector<v1::ByteRange>(partial.missing().begin(), partial.missing().end());
  }
  return WholeOf(source);
}

absl::StatusOr<v1::ResidentOperand> OperandLink::Put(const OperandSource& source,
                                                     const Lease& lease,
                                                     absl::Time deadline) const {
  v1::UploadRequest::Begin begin;
  begin.set_digest(source.digest());
  *begin.mutable_operand() = source.Describe();
  if (lease) SetDuration(*lease, begin.mutable_lease());
  for (int attempts = 1;; ++attempts) {
    const absl::StatusOr<std::vector<v1::ByteRange>> ranges = MissingOf(source, deadline);
    if (!ranges.ok()) return ranges.status();
    v1::ResidentOperand resident;
    CallEnd end;
    {
      BlockingCall call = Call("Operands/Upload", deadline);
      end = Upload(call, begin, source, *ranges, &resident);
    }
    if (end.status.ok()) return resident;
    if (!WaitAfter(end, attempts, deadline)) return end.status;
  }
}

}  // namespace gemmd::client
