#include "client/operand_link.h"

#include <algorithm>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/digest/operand_digest.h"
#include "client/wire_types.h"

namespace gemmd::client {
namespace {

// Uploads of less go over one connection.
constexpr std::uint64_t kMinSharedUploadBytes = 64 << 20;
constexpr int kUploadConnections = 4;

}  // namespace

std::vector<std::shared_ptr<grpc::Channel>> UploadChannels(const ChannelOptions& options) {
  ChannelOptions own = options;
  own.own_connection = true;
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (int i = 1; i < kUploadConnections; ++i) channels.push_back(MakeChannel(own));
  return channels;
}

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

// Returns whether the server has begun an upload of the source. The server tells as soon as bytes
// have come.
bool OperandLink::HasBegun(const OperandSource& source, absl::Time deadline) const {
  constexpr int kMostLooks = 100;
  for (int look = 0; look < kMostLooks; ++look) {
    const absl::StatusOr<std::vector<v1::ByteRange>> missing = MissingOf(source, deadline);
    if (!missing.ok() || missing->empty()) return false;
    if (SizeOf(*missing) < source.size_bytes()) return true;
  }
  return false;
}

// One attempt. A large upload goes over several connections: the first stream begins the upload,
// others join it with a part of the bytes each, and when they have ended, the first ends it.
CallEnd OperandLink::Upload(const v1::UploadRequest::Begin& begin, const OperandSource& source,
                            const std::vector<v1::ByteRange>& ranges, absl::Time deadline,
                            const UploadProgress& sent, v1::UploadResponse* response) const {
  const std::size_t streams = SizeOf(ranges) < kMinSharedUploadBytes ? 1 : 1 + more_channels.size();
  const std::vector<std::vector<v1::ByteRange>> parts = CutRanges(ranges, streams);
  BlockingCall call = Call("Operands/Upload", deadline);
  UploadStream first(&call, sent);
  first.Begin(begin);
  if (parts.size() == 1) {
    first.Send(source, ranges);
    return first.End(response);
  }
  // Streams that begin at once would each have room made for all of it.
  v1::ByteRange head = parts.front().front();
  head.set_end_bytes(std::min(head.end_bytes(), head.begin_bytes() + kDigestChunkBytes));
  first.Send(source, {head});
  const bool is_shared = HasBegun(source, deadline);
  std::vector<CallEnd> ends(parts.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 1; is_shared && i < parts.size(); ++i) {
    threads.emplace_back([&, i] {
      BlockingCall more(more_channels[i - 1], "/gemmd.v1.Operands/Upload", deadline);
      UploadStream stream(&more, sent);
      stream.Begin(begin);
      stream.Send(source, parts[i]);
      v1::UploadResponse ignored;
      ends[i] = stream.End(&ignored);
    });
  }
  std::vector<v1::ByteRange> rest = is_shared ? parts.front() : ranges;
  rest.front().set_begin_bytes(head.end_bytes());
  first.Send(source, rest);
  for (std::thread& thread : threads) thread.join();
  CallEnd end = first.End(response);
  if (end.status.ok()) return end;
  // Streams that ended before the operand was whole say that bytes are missing, which they
  // were; one that broke says why they still are.
  for (CallEnd& each : ends) {
    if (!each.status.ok() && !absl::IsInvalidArgument(each.status)) return std::move(each);
  }
  return end;
}

absl::StatusOr<v1::ResidentOperand> OperandLink::Put(const OperandSource& source,
                                                     const Lease& lease, absl::Time deadline,
                                                     const UploadProgress& sent) const {
  v1::UploadRequest::Begin begin;
  begin.set_digest(source.digest());
  *begin.mutable_operand() = source.Describe();
  if (lease) SetDuration(*lease, begin.mutable_lease());
  for (int attempts = 1;; ++attempts) {
    const absl::StatusOr<std::vector<v1::ByteRange>> ranges = MissingOf(source, deadline);
    if (!ranges.ok()) return ranges.status();
    v1::UploadResponse response;
    const CallEnd end = Upload(begin, source, *ranges, deadline, sent, &response);
    if (end.status.ok()) return std::move(*response.mutable_resident());
    if (!WaitAfter(end, attempts, deadline)) return end.status;
  }
}

absl::StatusOr<v1::UploadResponse> OperandLink::PutAs(const OperandSource& source,
                                                      const v1::Operand& stored_form,
                                                      const Lease& lease, absl::Time deadline,
                                                      const UploadProgress& sent) const {
  v1::UploadRequest::Begin begin;
  begin.set_digest(source.digest());
  *begin.mutable_operand() = source.Describe();
  *begin.mutable_stored_form() = stored_form;
  if (lease) SetDuration(*lease, begin.mutable_lease());
  for (int attempts = 1;; ++attempts) {
    v1::UploadResponse response;
    CallEnd end;
    {
      BlockingCall call = Call("Operands/Upload", deadline);
      UploadStream stream(&call, sent);
      stream.Begin(begin);
      stream.Send(source, WholeOf(source));
      end = stream.End(&response);
    }
    if (end.status.ok()) return response;
    if (!WaitAfter(end, attempts, deadline)) return end.status;
  }
}

}  // namespace gemmd::client
