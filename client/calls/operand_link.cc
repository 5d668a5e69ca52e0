#include "client/calls/operand_link.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/digest/operand_digest.h"
#include "base/sync/thread_loop.h"
#include "client/wire/wire_types.h"

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

BlockingCall OperandLink::Call(const char* method, absl::Time deadline,
                               absl::string_view digest) const {
  return BlockingCall(channel, absl::StrCat("/gemmd.v1.", method), deadline,
                      affinity_header ? AffinityOf(digest) : "");
}

bool OperandLink::WaitAfter(const CallEnd& end, Retries* retries) const {
  if (is_one_of_several && absl::IsUnavailable(end.status)) return false;
  const std::optional<absl::Duration> delay = retries->Fail(end.status, end.pushback, absl::Now());
  if (!delay) return false;
  Wait(*delay);
  return true;
}

void OperandLink::Wait(absl::Duration delay) const {
  auto rung = std::make_shared<std::promise<void>>();
  timer->After(delay, [rung] { rung->set_value(); });
  std::future<void> over = rung->get_future();
  // gRPC goes on with a connection while somebody waits on the channel, and else every 5 s.
  constexpr std::chrono::milliseconds kLook(20);
  const auto is_over = [&over] {
    return over.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  while (!is_over() && !channel->WaitForStateChange(GRPC_CHANNEL_TRANSIENT_FAILURE,
                                                    std::chrono::system_clock::now() + kLook)) {
  }
  over.wait();
}

absl::Status OperandLink::Exchange(const char* method, const grpc::ByteBuffer& request,
                                   absl::Time deadline, absl::string_view digest,
                                   grpc::ByteBuffer* answer) const {
  Retries retries(retry, deadline);
  while (true) {
    CallEnd end;
    {
      BlockingCall call = Call(method, deadline, digest);
      end = client::Exchange(call, request, answer);
    }
    if (end.status.ok() || !WaitAfter(end, &retries)) return retries.ErrorOf(end.status);
  }
}

absl::StatusOr<std::vector<v1::ByteRange>> OperandLink::MissingOf(const OperandSource& source,
                                                                  absl::Time deadline) const {
  v1::FindMissingRequest request;
  request.add_digests(source.digest());
  const absl::StatusOr<v1::FindMissingResponse> response =
      Unary<v1::FindMissingResponse>("Operands/FindMissing", request, deadline, source.digest());
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
                            const std::vector<v1::ByteRange>& ranges, std::size_t streams,
                            absl::Time deadline, const UploadProgress& sent,
                            v1::UploadResponse* response) const {
  const std::vector<std::vector<v1::ByteRange>> parts = CutRanges(ranges, streams);
  BlockingCall call = Call("Operands/Upload", deadline, source.digest());
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
  std::vector<v1::ByteRange> rest = is_shared ? parts.front() : ranges;
  rest.front().set_begin_bytes(head.end_bytes());
  ForEachOnThreads(is_shared ? parts.size() : 1, parts.size(), [&](std::size_t i) {
    if (i == 0) return first.Send(source, rest);
    BlockingCall more(more_channels[i - 1], "/gemmd.v1.Operands/Upload", deadline,
                      affinity_header ? AffinityOf(source.digest()) : "");
    UploadStream stream(&more, sent);
    stream.Begin(begin);
    stream.Send(source, parts[i]);
    v1::UploadResponse ignored;
    ends[i] = stream.End(&ignored);
  });
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
  Retries retries(retry, deadline);
  bool is_whole = false;  // all of it goes, and over one connection
  while (true) {
    absl::StatusOr<std::vector<v1::ByteRange>> ranges = WholeOf(source);
    if (!is_whole) ranges = MissingOf(source, deadline);
    if (!ranges.ok()) return ranges.status();
    const bool is_large = !is_whole && SizeOf(*ranges) >= kMinSharedUploadBytes;
    const std::size_t streams = is_large ? 1 + more_channels.size() : 1;
    v1::UploadResponse response;
    const CallEnd end = Upload(begin, source, *ranges, streams, deadline, sent, &response);
    if (end.status.ok()) return std::move(*response.mutable_resident());
    // Behind a balancer one server may have said what is missing, and another have got it. HAProxy
    // makes the refusal of the other CANCELLED.
    const bool may_be_elsewhere = streams > 1 || SizeOf(*ranges) < source.size_bytes();
    const bool was_refused = absl::IsInvalidArgument(end.status) || end.was_cancelled;
    if (was_refused && may_be_elsewhere) {
      is_whole = true;
      continue;
    }
    if (!WaitAfter(end, &retries)) return retries.ErrorOf(end.status);
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
  Retries retries(retry, deadline);
  while (true) {
    v1::UploadResponse response;
    CallEnd end;
    {
      BlockingCall call = Call("Operands/Upload", deadline, source.digest());
      UploadStream stream(&call, sent);
      stream.Begin(begin);
      stream.Send(source, WholeOf(source));
      end = stream.End(&response);
    }
    if (end.status.ok()) return response;
    if (!WaitAfter(end, &retries)) return retries.ErrorOf(end.status);
  }
}

}  // namespace gemmd::client
