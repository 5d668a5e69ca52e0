#include "client/calls/matmul_attempts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/details.h"
#include "client/result.h"
#include "client/retry_after.h"
#include "client/status.h"
#include "client/wire/message.h"
#include "gemmd/v1/matrix.pb.h"

namespace gemmd::client {
namespace {

constexpr char kMatmul[] = "/gemmd.v1.Gemm/Matmul";

// A product has lost operands uploaded this often, and fails then.
constexpr int kMaxRefills = 8;

using Clock = std::chrono::steady_clock;

absl::Status Cancelled() { return absl::CancelledError("cancelled by its caller"); }

std::vector<const v1::Operand*> OperandsOf(const v1::MatmulHeader& header) {
  // B first: weights that many products share are right factors.
  return {&header.b(), &header.a(), &header.c(), &header.bias()};
}

bool IsInSharedMemory(const EncodedMatmul& matmul) {
  const auto operands = OperandsOf(matmul.header);
  return matmul.header.has_output() ||
         std::any_of(operands.begin(), operands.end(),
                     [](const v1::Operand* each) { return each->has_shared(); });
}

TourPlan PlanOf(const EncodedMatmul& matmul, const CallOptions& call) {
  TourPlan plan = PlanOf(call);
  for (const v1::Operand* operand : OperandsOf(matmul.header)) {
    if (operand->has_digest() && plan.digest.empty()) plan.digest = operand->digest();
    if (operand->has_handle()) plan.things.push_back(KeyOfHandle(operand->handle()));
    if (operand->has_name()) plan.things.push_back(KeyOfName(operand->name()));
  }
  return plan;
}

Pushback PushbackOf(const grpc::ClientContext& context) {
  const auto& metadata = context.GetServerTrailingMetadata();
  const auto found = metadata.find(grpc::string_ref(kPushbackKey.data(), kPushbackKey.size()));
  if (found == metadata.end()) return ParsePushback(std::nullopt);
  return ParsePushback(absl::string_view(found->second.data(), found->second.size()));
}

}  // namespace

MatmulAttempts::MatmulAttempts(Servers& servers, const MatmulSettings& settings,
                               std::shared_ptr<const EncodedMatmul> matmul,
                               const RouteOptions& route, const CallOptions& call, TimePoint begun,
                               absl::Duration encode, Done done)
    : settings_(settings),
      matmul_(std::move(matmul)),
      options_(route),
      tour_(servers, servers.are_several() || settings.affinity_header ? PlanOf(*matmul_, call)
                                                                       : PlanOf(call)),
      deadline_(absl::Now() + call.timeout),
      retries_(settings.retry, deadline_),
      trace_(call.trace.empty() && call.trace.tracestate.empty()
                 ? nullptr
                 : std::make_shared<const TraceHeaders>(call.trace)),
      begun_(begun),
      done_(std::move(done)) {
  times_.attempts = 0;
  times_.encode = encode;
  settings_.calls->Begin();
  // A proxy can spread calls, not what a stream brings.
  const bool has_affinity = settings_.affinity_header && !tour_.plan().digest.empty();
  if (has_affinity && options_.transport == Transport::kAuto) {
    options_.transport = Transport::kUnary;
  }
}

void MatmulAttempts::Attempt() {
  ++times_.attempts;
  if (!matmul_->fault.ok()) return End(matmul_->fault);
  if (is_cancelled()) return End(Cancelled());
  if (trace_ != nullptr) {
    if (absl::Status s = Check(*trace_); !s.ok()) return End(std::move(s));
  }
  if (tour_.is_one_of_several() && tour_.plan().server.empty() && IsInSharedMemory(*matmul_)) {
    return End(absl::InvalidArgumentError(
        "server is \"\": an operand or D is in memory that one server shares, and this client has "
        "several; it must be that server's address"));
  }
  if (absl::Status s = tour_.Begin(); !s.ok()) return Fail(s, Pushback());
  if (server_ != tour_.server()) {
    if (server_ != nullptr) --link().in_flight;
    server_ = tour_.server();
    ++link().in_flight;
  }
  AttemptThere();
}

void MatmulAttempts::AttemptThere() {
  started_ = Clock::now();
  RouteInput input;
  input.bytes_in = matmul_->payload_bytes;
  input.bytes_out = matmul_->expected.answer_bytes();
  input.in_flight = link().in_flight - 1;
  input.connection_bytes_per_s = link().connection_bytes_per_s;
  input.max_channels = settings_.max_channels;
  input.can_stream = link().can_stream;
  alone_ = input.in_flight == 0;
  route_ = ChooseRoute(options_, input);
  if (route_.transport == Transport::kUnary) return AttemptUnary();
  AttemptStream();
}

void MatmulAttempts::Cancel() {
  std::shared_ptr<StreamSession> session;
  std::uint64_t id = 0;
  {
    const MutexLock lock(mutex_);
    if (ended_) return;
    cancelled_ = true;
    // Locked, so that it does not end meanwhile. gRPC calls nobody back from within.
    if (context_) context_->TryCancel();
    session = session_;
    id = stream_id_;
  }
  if (session != nullptr && id != 0) session->Cancel(id);
}

void MatmulAttempts::AttemptUnary() {
  absl::StatusOr<grpc::ByteBuffer> message = UnaryMessage(*matmul_);
  if (!message.ok()) return End(message.status());
  message_ = *std::move(message);
  answer_.Clear();
  grpc::ClientContext* context = nullptr;
  {
    const MutexLock lock(mutex_);
    context = &context_.emplace();
  }
  if (deadline_ != absl::InfiniteFuture()) context->set_deadline(absl::ToChronoTime(deadline_));
  if (trace_ != nullptr) {
    context->AddMetadata("traceparent", trace_->traceparent);
    if (!trace_->tracestate.empty()) context->AddMetadata("tracestate", trace_->tracestate);
  }
  if (settings_.affinity_header && !tour_.plan().digest.empty()) {
    context->AddMetadata(kAffinityHeader, AffinityOf(tour_.plan().digest));
  }
  link().stub.UnaryCall(
      context, kMatmul, grpc::StubOptions(), &message_, &answer_,
      [self = shared_from_this()](const grpc::Status& status) { self->OnUnary(status); });
  // A cancellation that came before the call did nothing to it.
  const MutexLock lock(mutex_);
  if (cancelled_ && context_) context_->TryCancel();
}

void MatmulAttempts::OnUnary(const grpc::Status& grpc_status) {
  received_ = Clock::now();
  absl::Status status = is_cancelled() && !grpc_status.ok() ? Cancelled() : FromGrpc(grpc_status);
  if (status.ok() && !answer_.Valid()) status = AnswerWasLost();
  Pushback pushback;
  {
    const MutexLock lock(mutex_);
    if (!status.ok()) pushback = PushbackOf(*context_);
    context_.reset();
  }
  if (!status.ok()) return Fail(status, pushback);
  std::vector<grpc::Slice> slices;
  v1::MatmulResponse response;
  PayloadViews payload;
  if (!DumpAndParse(answer_, slices, response, payload)) {
    return End(BadResponse("it is no MatmulResponse"));
  }
  absl::StatusOr<Answer> answer = DecodeResult(
      {response.receipt(), response.d(), response.handle(), response.payload(), payload},
      matmul_->expected);
  if (!answer.ok()) return End(answer.status());
  answer->receipt = std::move(*response.mutable_receipt());
  Succeed(*std::move(answer));
}

void MatmulAttempts::AttemptStream() {
  const int attempt = times_.attempts;
  // A session may break between being got and being used, but not time and again.
  constexpr int kTries = 3;
  std::shared_ptr<StreamSession> session;
  for (int i = 0; i < kTries; ++i) {
    session = link().sessions.Get(route_.channels);
    route_.channels = session->streams();
    {
      const MutexLock lock(mutex_);
      session_ = session;
      stream_id_ = 0;
      attempt_ = attempt;
    }
    StreamRequest request;
    request.matmul = matmul_;
    request.deadline = deadline_;
    request.trace = trace_;
    request.chunk_bytes = route_.chunk_bytes;
    request.unasked_bytes = kUnaskedBytes;
    request.done = [self = shared_from_this()](absl::StatusOr<Answer> answer,
                                               const Pushback& pushback) {
      self->OnStream(std::move(answer), pushback);
    };
    // From here on this attempt may be over, and another under way, before this returns.
    const std::uint64_t id = session->Start(std::move(request));
    if (id == 0) continue;
    bool cancelled = false;
    {
      const MutexLock lock(mutex_);
      if (attempt_ != attempt) return;
      stream_id_ = id;
      cancelled = cancelled_;
    }
    if (cancelled) session->Cancel(id);
    return;
  }
  received_ = Clock::now();
  FailStream(*session, session->why_ended(), Pushback());
}

void MatmulAttempts::OnStream(absl::StatusOr<Answer> answer, const Pushback& pushback) {
  received_ = Clock::now();
  std::shared_ptr<StreamSession> session;
  {
    const MutexLock lock(mutex_);
    attempt_ = 0;
    stream_id_ = 0;
    session = std::move(session_);
  }
  if (answer.ok()) return Succeed(*std::move(answer));
  FailStream(*session, answer.status(), pushback);
}

void MatmulAttempts::FailStream(const StreamSession& session, const absl::Status& status,
                                const Pushback& pushback) {
  if (options_.transport == Transport::kAuto && absl::IsUnimplemented(status) &&
      session.is_unimplemented()) {
    // An older server. It has received nothing of this, so this is no attempt.
    link().can_stream = false;
    return AttemptThere();
  }
  Fail(status, pushback);
}

void MatmulAttempts::Succeed(Answer answer) {
  const Clock::time_point now = Clock::now();
  times_.decode = absl::FromChrono(now - received_);
  times_.round_trip = absl::FromChrono(received_ - started_);
  times_.wire = std::max(absl::ZeroDuration(),
                         times_.round_trip - absl::Microseconds(answer.receipt.total_us()));
  times_.total = absl::FromChrono(now - begun_);
  Measure(answer.receipt);
  std::string address;
  if (tour_.is_one_of_several()) {
    address = server_->name;
    static_cast<void>(tour_.End(absl::OkStatus()));
    tour_.Learn(answer.handle);
  }
  End(Product{answer.format, std::move(answer.d), std::move(answer.handle),
              Receipt{std::move(answer.receipt), times_, route_, std::move(address)}});
}

std::vector<OperandSource> MatmulAttempts::LostBy(const absl::Status& status) const {
  std::vector<OperandSource> lost;
  if (!absl::IsNotFound(status) || matmul_->sources.empty()) return lost;
  const auto missing = DetailOf<v1::MissingOperands>(status);
  if (!missing.has_value()) return lost;
  const auto& digests = missing->digests();
  const bool is_more = missing->handles_size() + missing->names_size() > 0;
  if (is_more && tour_.is_one_of_several()) return lost;
  for (const OperandSource& source : matmul_->sources) {
    if (std::find(digests.begin(), digests.end(), source.digest()) != digests.end()) {
      lost.push_back(source);
    }
  }
  return lost;
}

void MatmulAttempts::Refill(std::vector<OperandSource> lost) {
  ++times_.refills;
  link().refiller.Bring(std::move(lost), deadline_,
                        [self = shared_from_this()](const absl::Status& status) {
                          if (status.ok()) {
                            ++self->times_.attempts;
                            return self->AttemptAgain();
                          }
                          // Its link has tried again, where there is no other server.
                          if (!self->tour_.is_one_of_several()) return self->End(status);
                          self->Fail(status, Pushback());
                        });
}

void MatmulAttempts::AttemptAgain() {
  if (is_cancelled()) return End(Cancelled());
  AttemptThere();
}

void MatmulAttempts::Fail(const absl::Status& answered, const Pushback& pushback) {
  const absl::Status status = RefusalOf(answered, matmul_->expected);
  std::vector<OperandSource> lost = LostBy(status);
  if (!lost.empty() && times_.refills < kMaxRefills) return Refill(std::move(lost));
  const absl::Status named = tour_.End(status);
  if (tour_.MaySearch(status)) return Attempt();
  if (matmul_->is_in_place && absl::IsUnavailable(status)) {
    return End(absl::UnavailableError(
        absl::StrCat(status.message(),
                     "; it was not tried again, because output is c, which the "
                     "product may have replaced")));
  }
  const std::optional<absl::Duration> delay =
      retries_.Fail(named, pushback, absl::Now(), tour_.HasOther());
  if (!delay) return End(retries_.ErrorOf(WithRetryAfter(named, pushback)));
  times_.waited += *delay;
  settings_.timer->After(*delay, [self = shared_from_this()] { self->Attempt(); });
}

void MatmulAttempts::End(absl::StatusOr<Product> product) {
  {
    const MutexLock lock(mutex_);
    ended_ = true;
  }
  if (server_ != nullptr) --link().in_flight;
  // Not with this object, which a caller may keep for longer than the client.
  server_ = nullptr;
  tour_.Leave();
  // A caller that keeps this object to cancel it should not keep the payload.
  message_.Clear();
  answer_.Clear();
  matmul_.reset();
  const Done done = std::move(done_);
  done(std::move(product));
  settings_.calls->End();
}

void MatmulAttempts::Measure(const v1::Receipt& receipt) const {
  if (!alone_ || link().in_flight > 1) return;  // others had a share of the connection
  double elsewhere_us = 0;
  for (const v1::Stage& stage : receipt.stages()) {
    if (stage.name() == v1::QUEUE || stage.name() == v1::COMPUTE) {
      elsewhere_us += stage.exposed_us();
    }
  }
  const double seconds =
      absl::ToDoubleSeconds(times_.round_trip - absl::Microseconds(elsewhere_us));
  link().connection_bytes_per_s =
      UpdateRate(link().connection_bytes_per_s,
                 matmul_->payload_bytes + receipt.payload_bytes_out(), seconds, route_.channels);
}

bool MatmulAttempts::is_cancelled() {
  const MutexLock lock(mutex_);
  return cancelled_;
}

}  // namespace gemmd::client
