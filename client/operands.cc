#include "client/operands.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/blocking_call.h"
#include "client/matmul_header.h"
#include "client/operand_transfer.h"
#include "digest/operand_digest.h"
#include "proto/chunk_framing.h"

namespace gemmd::client {
namespace {

using SteadyClock = std::chrono::steady_clock;

// What a request's inline matrices may have together; larger ones are uploaded first.
constexpr std::uint64_t kMaxInlineBytes = 16 << 20;
// Uploads of less go over one connection.
constexpr std::uint64_t kMinSharedUploadBytes = 64 << 20;
constexpr int kUploadConnections = 4;
// How often a product asks for operands that keep vanishing.
constexpr int kMaxRefills = 8;

absl::Duration Since(SteadyClock::time_point start) {
  return absl::FromChrono(SteadyClock::now() - start);
}

void SetDuration(absl::Duration duration, google::protobuf::Duration* wire) {
  const std::int64_t nanoseconds = absl::ToInt64Nanoseconds(duration);
  constexpr std::int64_t kSecond = 1000000000;
  wire->set_seconds(nanoseconds / kSecond);
  wire->set_nanos(static_cast<std::int32_t>(nanoseconds % kSecond));
}

template <typename Request>
Request RequestFor(const OperandName& name) {
  Request request;
  if (name.digest.empty()) {
    request.set_handle(name.handle);
  } else {
    request.set_digest(name.digest);
  }
  return request;
}

// The factors and addends that there are.
struct Part {
  v1::OperandName name = v1::OPERAND_UNSPECIFIED;
  OperandInput* input = nullptr;
};
std::vector<Part> PartsOf(OperandInputs& inputs) {
  std::vector<Part> parts = {{v1::A, &inputs.a}, {v1::B, &inputs.b}};
  if (inputs.c) parts.push_back({v1::C, &*inputs.c});
  if (inputs.bias) parts.push_back({v1::BIAS, &*inputs.bias});
  return parts;
}

v1::Operand* FieldOf(v1::OperandName name, v1::MatmulHeader& header) {
  if (name == v1::A) return header.mutable_a();
  if (name == v1::B) return header.mutable_b();
  return name == v1::C ? header.mutable_c() : header.mutable_bias();
}

// Inline matrices as sources, where together they are too large for a message.
absl::Status MoveLargeOut(OperandInputs& inputs) {
  std::uint64_t bytes = 0;
  const std::vector<Part> parts = PartsOf(inputs);
  for (const Part& part : parts) {
    if (const auto* const matrix = std::get_if<InlineOperand>(part.input)) {
      bytes += matrix->data.bytes().size();
    }
  }
  if (bytes <= kMaxInlineBytes) return absl::OkStatus();
  for (const Part& part : parts) {
    auto* const matrix = std::get_if<InlineOperand>(part.input);
    if (matrix == nullptr) continue;
    absl::StatusOr<OperandSource> source =
        OperandSource::Create(std::move(matrix->data), std::move(matrix->scales));
    if (!source.ok()) return source.status();
    *part.input = *std::move(source);
  }
  return absl::OkStatus();
}

// The request's bytes; inline planes are where the inputs have them.
grpc::ByteBuffer Encode(v1::MatmulHeader header, const std::shared_ptr<OperandInputs>& inputs) {
  using Owner = std::shared_ptr<OperandInputs>;
  struct Plane {
    v1::Chunk head;
    absl::string_view bytes;
  };
  std::vector<Plane> planes;
  for (const Part& part : PartsOf(*inputs)) {
    v1::Operand* const field = FieldOf(part.name, header);
    if (const auto* const source = std::get_if<OperandSource>(part.input)) {
      field->set_digest(source->digest());
    } else if (const auto* const name = std::get_if<OperandName>(part.input)) {
      if (name->digest.empty()) {
        field->set_handle(name->handle);
      } else {
        field->set_digest(name->digest);
      }
    } else {
      const auto& matrix = std::get<InlineOperand>(*part.input);
      const auto add = [&](v1::PlaneName name, const Matrix& plane, v1::Plane* wire) {
        SetPlane(plane.format(), wire);
        Plane& each = planes.emplace_back();
        each.head.set_operand(part.name);
        each.head.set_plane(name);
        each.bytes = plane.bytes();
      };
      field->mutable_inline_();
      add(v1::DATA, matrix.data, field->mutable_data());
      if (matrix.scales) add(v1::SCALES, *matrix.scales, field->mutable_scales());
    }
  }
  v1::MatmulRequest request;
  *request.mutable_header() = std::move(header);
  std::string prefix = request.SerializeAsString();
  std::vector<grpc::Slice> slices;
  for (const Plane& plane : planes) {
    prefix += ChunkPrefix(v1::MatmulRequest::kPayloadFieldNumber, plane.head, plane.bytes.size());
    slices.emplace_back(prefix);
    prefix.clear();
    slices.emplace_back(
        const_cast<char*>(plane.bytes.data()), plane.bytes.size(),
        [](void* owner) { delete static_cast<Owner*>(owner); }, new Owner(inputs));
  }
  if (!prefix.empty()) slices.emplace_back(prefix);
  return grpc::ByteBuffer(slices.data(), slices.size());
}

absl::StatusOr<KeptOrSent> Decode(v1::MatmulResponse response) {
  KeptOrSent result;
  const absl::StatusOr<MatrixFormat> format = FormatOf(response.d());
  if (!format.ok()) return format.status();
  result.format = *format;
  result.handle = response.handle();
  result.receipt.server = std::move(*response.mutable_receipt());
  if (!result.handle.empty()) return result;
  std::string bytes;
  for (v1::Chunk& chunk : *response.mutable_payload()) {
    if (chunk.offset_bytes() != bytes.size() || chunk.operand() != v1::D) {
      return absl::InternalError("the server's answer is malformed: D's chunks do not follow");
    }
    if (bytes.empty()) {
      bytes = std::move(*chunk.mutable_data());
    } else {
      bytes += chunk.data();
    }
  }
  absl::StatusOr<Matrix> d = Matrix::Create(*format, std::move(bytes));
  if (!d.ok()) {
    return absl::InternalError(
        absl::StrCat("the server's answer is malformed: ", d.status().message()));
  }
  result.d = *std::move(d);
  return result;
}

}  // namespace

OperandName ParseOperandName(absl::string_view text) {
  const bool is_digest = text.size() == 2 * kSha256Bytes &&
                         std::all_of(text.begin(), text.end(),
                                     [](unsigned char c) { return absl::ascii_isxdigit(c); });
  if (is_digest) return {{}, absl::HexStringToBytes(text)};
  return {std::string(text), {}};
}

// What the methods share: a channel, and when to try again.
struct Operands::Link {
  RetryPolicy retry;
  std::shared_ptr<Timer> timer;
  std::shared_ptr<grpc::Channel> channel;
  // Of connections of their own, for parts of large uploads beside the first's.
  std::vector<std::shared_ptr<grpc::Channel>> more_channels;

  BlockingCall Call(const char* method, absl::Time deadline) const {
    return BlockingCall(channel, absl::StrCat("/gemmd.v1.", method), deadline);
  }

  // Waits before the next attempt; false: there is to be none.
  bool WaitAfter(const CallEnd& end, int attempts, absl::Time deadline,
                 absl::Duration* waited = nullptr) const {
    FailedAttempt failed;
    failed.attempts = attempts;
    failed.code = end.status.code();
    failed.pushback = end.pushback;
    failed.now = absl::Now();
    failed.deadline = deadline;
    absl::BitGen generator;
    const std::optional<absl::Duration> delay = RetryDelay(retry, failed, generator);
    if (!delay) return false;
    if (waited != nullptr) *waited += *delay;
    auto rung = std::make_shared<std::promise<void>>();
    timer->After(*delay, [rung] { rung->set_value(); });
    rung->get_future().wait();
    return true;
  }

  // One request and one answer, tried again where that helps.
  template <typename Response>
  absl::StatusOr<Response> Unary(const char* method, const google::protobuf::Message& request,
                                 absl::Time deadline) const {
    const grpc::ByteBuffer bytes = Serialize(request);
    for (int attempts = 1;; ++attempts) {
      grpc::ByteBuffer answer;
      CallEnd end;
      {
        BlockingCall call = Call(method, deadline);
        end = Exchange(call, bytes, &answer);
      }
      if (end.status.ok()) {
        Response response;
        if (absl::Status status = Parse(answer, &response); !status.ok()) return status;
        return response;
      }
      if (!WaitAfter(end, attempts, deadline)) return end.status;
    }
  }

  // What of the source the server lacks.
  absl::StatusOr<std::vector<v1::ByteRange>> MissingOf(const OperandSource& source,
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

  // Whether the server has begun an upload of the source. It tells as soon as bytes have come.
  bool HasBegun(const OperandSource& source, absl::Time deadline) const {
    constexpr int kMostLooks = 100;
    for (int look = 0; look < kMostLooks; ++look) {
      const absl::StatusOr<std::vector<v1::ByteRange>> missing = MissingOf(source, deadline);
      if (!missing.ok() || missing->empty()) return false;
      if (SizeOf(*missing) < source.size_bytes()) return true;
    }
    return false;
  }

  // One attempt. What is large goes over several connections: the first stream begins the upload,
  // others join it with a part of the bytes each, and when they have ended, the first ends it.
  CallEnd Upload(const v1::UploadRequest::Begin& begin, const OperandSource& source,
                 const std::vector<v1::ByteRange>& ranges, absl::Time deadline,
                 v1::ResidentOperand* resident) const {
    const std::size_t streams =
        SizeOf(ranges) < kMinSharedUploadBytes ? 1 : 1 + more_channels.size();
    const std::vector<std::vector<v1::ByteRange>> parts = CutRanges(ranges, streams);
    BlockingCall call = Call("Operands/Upload", deadline);
    UploadStream first(&call);
    first.Begin(begin);
    if (parts.size() == 1) {
      first.Send(source, ranges);
      return first.End(resident);
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
        UploadStream stream(&more);
        stream.Begin(begin);
        stream.Send(source, parts[i]);
        v1::ResidentOperand ignored;
        ends[i] = stream.End(&ignored);
      });
    }
    std::vector<v1::ByteRange> rest = is_shared ? parts.front() : ranges;
    rest.front().set_begin_bytes(head.end_bytes());
    first.Send(source, rest);
    for (std::thread& thread : threads) thread.join();
    CallEnd end = first.End(resident);
    if (end.status.ok()) return end;
    // Streams that ended before the operand was whole say that bytes are missing, which they
    // were; one that broke says why they still are.
    for (CallEnd& each : ends) {
      if (!each.status.ok() && !absl::IsInvalidArgument(each.status)) return std::move(each);
    }
    return end;
  }

  absl::StatusOr<v1::ResidentOperand> Put(const OperandSource& source, const Lease& lease,
                                          absl::Time deadline) const {
    v1::UploadRequest::Begin begin;
    begin.set_digest(source.digest());
    *begin.mutable_operand() = source.Describe();
    if (lease) SetDuration(*lease, begin.mutable_lease());
    for (int attempts = 1;; ++attempts) {
      const absl::StatusOr<std::vector<v1::ByteRange>> ranges = MissingOf(source, deadline);
      if (!ranges.ok()) return ranges.status();
      v1::ResidentOperand resident;
      const CallEnd end = Upload(begin, source, *ranges, deadline, &resident);
      if (end.status.ok()) return resident;
      if (!WaitAfter(end, attempts, deadline)) return end.status;
    }
  }
};

Operands::Operands(const ClientOptions& options) : link_(std::make_unique<Link>()) {
  link_->retry = options.retry;
  link_->timer = options.timer == nullptr ? MakeAlarmTimer() : options.timer;
  link_->channel = MakeChannel(options.channel);
  ChannelOptions own = options.channel;
  own.own_connection = true;
  for (int i = 1; i < kUploadConnections; ++i) link_->more_channels.push_back(MakeChannel(own));
}

Operands::~Operands() = default;

absl::StatusOr<v1::ResidentOperand> Operands::Put(const OperandSource& source, const Lease& lease,
                                                  const CallOptions& call) {
  return link_->Put(source, lease, absl::Now() + call.timeout);
}

absl::StatusOr<InlineOperand> Operands::Get(const OperandName& name, const CallOptions& call) {
  const absl::Time deadline = absl::Now() + call.timeout;
  for (int attempts = 1;; ++attempts) {
    std::optional<InlineOperand> operand;
    CallEnd end;
    {
      BlockingCall download = link_->Call("Operands/Download", deadline);
      end = Download(download, RequestFor<v1::DownloadRequest>(name), &operand);
    }
    if (!end.status.ok()) {
      if (!link_->WaitAfter(end, attempts, deadline)) return end.status;
      continue;
    }
    if (!name.digest.empty()) {
      const absl::StatusOr<OperandSource> source =
          OperandSource::Create(operand->data, operand->scales);
      if (!source.ok() || source->digest() != name.digest) {
        return absl::InternalError("what the server sent does not have the digest asked for");
      }
    }
    return *std::move(operand);
  }
}

absl::StatusOr<v1::ResidentOperand> Operands::Describe(const OperandName& name,
                                                       const CallOptions& call) {
  absl::StatusOr<v1::GetResponse> response = link_->Unary<v1::GetResponse>(
      "Operands/Get", RequestFor<v1::GetRequest>(name), absl::Now() + call.timeout);
  if (!response.ok()) return response.status();
  return std::move(*response->mutable_resident());
}

absl::StatusOr<std::vector<v1::ResidentOperand>> Operands::List(const CallOptions& call) {
  const absl::Time deadline = absl::Now() + call.timeout;
  std::vector<v1::ResidentOperand> residents;
  v1::ListRequest request;
  do {
    const absl::StatusOr<v1::ListResponse> page =
        link_->Unary<v1::ListResponse>("Operands/List", request, deadline);
    if (!page.ok()) return page.status();
    residents.insert(residents.end(), page->residents().begin(), page->residents().end());
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  return residents;
}

absl::Status Operands::Release(const OperandName& name, const CallOptions& call) {
  return link_
      ->Unary<v1::ReleaseResponse>("Operands/Release", RequestFor<v1::ReleaseRequest>(name),
                                   absl::Now() + call.timeout)
      .status();
}

absl::StatusOr<absl::Duration> Operands::Renew(const OperandName& name, const Lease& lease,
                                               const CallOptions& call) {
  auto request = RequestFor<v1::RenewRequest>(name);
  if (lease) SetDuration(*lease, request.mutable_lease());
  const absl::StatusOr<v1::RenewResponse> response =
      link_->Unary<v1::RenewResponse>("Operands/Renew", request, absl::Now() + call.timeout);
  if (!response.ok()) return response.status();
  return absl::Seconds(response->lease_remaining().seconds()) +
         absl::Nanoseconds(response->lease_remaining().nanos());
}

absl::StatusOr<KeptOrSent> Operands::Matmul(OperandInputs inputs, const MatmulOptions& options,
                                            const CallOptions& call) {
  return Multiply(std::move(inputs), options, std::nullopt, call);
}

absl::StatusOr<KeptOrSent> Operands::MatmulAndKeep(OperandInputs inputs,
                                                   const MatmulOptions& options, const Lease& lease,
                                                   const CallOptions& call) {
  return Multiply(std::move(inputs), options, lease, call);
}

absl::StatusOr<KeptOrSent> Operands::Multiply(OperandInputs inputs, const MatmulOptions& options,
                                              const std::optional<Lease>& keep,
                                              const CallOptions& call) {
  const SteadyClock::time_point begun = SteadyClock::now();
  const absl::Time deadline = absl::Now() + call.timeout;
  if (absl::Status status = MoveLargeOut(inputs); !status.ok()) return status;
  const auto shared = std::make_shared<OperandInputs>(std::move(inputs));
  v1::MatmulHeader header;
  SetHeader(options, header);
  if (keep) {
    header.mutable_keep_result();
    if (*keep) SetDuration(**keep, header.mutable_keep_result()->mutable_lease());
  }
  const grpc::ByteBuffer request = Encode(std::move(header), shared);
  ClientTimes times;
  times.encode = Since(begun);
  times.attempts = 0;
  int failures = 0;
  for (int refills = 0;;) {
    ++times.attempts;
    const SteadyClock::time_point started = SteadyClock::now();
    grpc::ByteBuffer answer;
    CallEnd end;
    {
      BlockingCall attempt = link_->Call("Gemm/Matmul", deadline);
      end = Exchange(attempt, request, &answer);
    }
    times.round_trip = Since(started);
    if (end.status.ok()) {
      const SteadyClock::time_point received = SteadyClock::now();
      v1::MatmulResponse response;
      if (absl::Status status = Parse(answer, &response); !status.ok()) return status;
      absl::StatusOr<KeptOrSent> result = Decode(std::move(response));
      if (!result.ok()) return result;
      times.decode = Since(received);
      times.wire =
          std::max(absl::ZeroDuration(),
                   times.round_trip - absl::Microseconds(result->receipt.server.total_us()));
      times.total = Since(begun);
      result->receipt.client = times;
      return result;
    }
    // Lost operands whose bytes are here are brought back.
    bool is_refilled = false;
    for (const Part& part : PartsOf(*shared)) {
      const auto* const source = std::get_if<OperandSource>(part.input);
      if (source == nullptr || refills >= kMaxRefills) continue;
      const auto& digests = end.missing.digests();
      if (std::find(digests.begin(), digests.end(), source->digest()) == digests.end()) continue;
      const absl::StatusOr<v1::ResidentOperand> put = link_->Put(*source, {}, deadline);
      if (!put.ok()) return put.status();
      is_refilled = true;
    }
    if (is_refilled) {
      ++refills;
    } else if (!link_->WaitAfter(end, ++failures, deadline, &times.waited)) {
      return end.status;
    }
  }
}

}  // namespace gemmd::client
