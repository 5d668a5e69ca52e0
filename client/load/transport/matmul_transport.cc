#include "client/load/transport/matmul_transport.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/numbers/fp8.h"
#include "base/sync/mutex.h"
#include "client/calls/call_count.h"
#include "client/client.h"
#include "client/load/answer_check.h"
#include "client/load/random.h"
#include "client/load/transport/places.h"
#include "client/load/transport/shared_payload.h"
#include "client/operands.h"
#include "client/quantized/quantize.h"
#include "client/quantized/quantized_array.h"
#include "client/wire/codec.h"
#include "client/wire/message.h"

namespace gemmd::load {
namespace {

// Bytes of a result on the wire beside its payload: receipt, plane and framing.
constexpr std::uint64_t kReceiptBytes = 400;
// Bytes of a request beside its payload.
constexpr std::uint64_t kHeaderBytes = 80;
// Bytes of a request whose operands are in regions that it names.
constexpr std::uint64_t kSharedHeaderBytes = 200;

struct Payload {
  std::shared_ptr<const client::EncodedMatmul> encoded;
  std::unique_ptr<AnswerCheck> check;  // null where nothing is verified
  std::optional<SharedPayload> shared;
};

struct Entry {
  std::vector<Payload> payloads;
  std::unique_ptr<Places> turns;  // of payloads; null: any number of requests may use one
  std::size_t tenant = 0;         // of a lane's clients
  client::CallOptions call;
  EchoSizes sizes;
};

// The client's options for all requests of one tenant.
client::ClientOptions ClientOptionsFor(const MatmulTransportOptions& options,
                                       const std::string& tenant) {
  client::ClientOptions client;
  client.channel = options.channel;
  if (!tenant.empty()) client.channel.tenant = tenant;
  client.channel.own_connection = true;
  client.streams = options.streams;
  return client;
}

// Uploads the operand, and names it. The name alone brings nothing back: where a server loses it,
// that is to be seen.
absl::StatusOr<client::Operand> MakeResident(client::Operands& operands,
                                             const client::InlineOperand& operand,
                                             absl::Duration timeout) {
  const absl::StatusOr<client::OperandSource> source = client::OperandSource::Create(operand);
  if (!source.ok()) return source.status();
  client::CallOptions call;
  call.timeout = timeout;
  const absl::StatusOr<v1::ResidentOperand> resident = operands.Put(*source, {}, call);
  if (!resident.ok()) return resident.status();
  return client::OperandName{{}, source->digest(), operand.data.format()};
}

// One operand, and what its elements are worth where that is asked for.
struct Drawn {
  client::InlineOperand operand;
  std::optional<client::Matrix> values;
};

absl::StatusOr<Drawn> Draw(const WorkloadEntry& entry, client::Side side, DataSpec data,
                           std::uint64_t seed, bool wants_values) {
  client::MatrixFormat format = side == client::Side::kA ? entry.a : entry.b;
  const std::string& quantized = entry.quantized(side);
  if (!quantized.empty()) {
    format.type = DataType::kF32;
    data.has_sign = HasSign(*FindQuantFormat(quantized));
  }
  client::Matrix real = Generate(format, data, seed);
  if (quantized.empty()) return Drawn{real, real};
  const absl::StatusOr<client::QuantizedArray> array =
      client::QuantizeMatrix(real.view(), {quantized, client::KAxisOf(side, false), false, {}});
  if (!array.ok()) return array.status();
  absl::StatusOr<client::InlineOperand> operand = ToOperand(*array, side);
  if (!operand.ok()) return operand.status();
  Drawn drawn{*std::move(operand), std::nullopt};
  if (!wants_values) return drawn;
  absl::StatusOr<client::Matrix> values = client::Dequantize(*array);
  if (!values.ok()) return values.status();
  drawn.values = *std::move(values);
  return drawn;
}

absl::StatusOr<Payload> MakePayload(const WorkloadEntry& entry,
                                    const MatmulTransportOptions& options, std::uint64_t seed) {
  DataSpec b_data = entry.data;
  b_data.nan = false;  // in A alone: a row of D is all NaN or none
  const bool verifies = options.verify_fraction > 0;
  const absl::StatusOr<Drawn> drawn_a =
      Draw(entry, client::Side::kA, entry.data, Mix64(seed), verifies);
  if (!drawn_a.ok()) return drawn_a.status();
  const absl::StatusOr<Drawn> drawn_b =
      Draw(entry, client::Side::kB, b_data, Mix64(seed + 1), verifies);
  if (!drawn_b.ok()) return drawn_b.status();
  const client::InlineOperand& a = drawn_a->operand;
  const client::InlineOperand& b = drawn_b->operand;
  Payload payload;
  if (verifies) {
    payload.check =
        std::make_unique<AnswerCheck>(drawn_a->values->view(), drawn_b->values->view(), seed,
                                      IsFp8(entry.b.type) ? entry.b.type : entry.a.type);
  }
  if (entry.is_shared) {
    absl::StatusOr<SharedPayload> shared =
        Share(client::MakeChannel(ClientOptionsFor(options, entry.tenant).channel), a, b,
              entry.options, entry.output_type());
    if (!shared.ok()) return shared.status();
    payload.encoded = shared->encoded;
    payload.shared = *std::move(shared);
    return payload;
  }
  client::MatmulInputs inputs{a, b};
  if (entry.residents != Residents::kNone) {
    client::Operands operands(ClientOptionsFor(options, entry.tenant));
    absl::StatusOr<client::Operand> resident = MakeResident(operands, b, options.timeout);
    if (!resident.ok()) return resident.status();
    inputs.b = *std::move(resident);
    if (entry.residents == Residents::kBoth) {
      resident = MakeResident(operands, a, options.timeout);
      if (!resident.ok()) return resident.status();
      inputs.a = *std::move(resident);
    }
  }
  payload.encoded = client::Encode(std::move(inputs), entry.options);
  return payload;
}

absl::StatusOr<Entry> MakeEntry(const WorkloadEntry& entry, const MatmulTransportOptions& options,
                                std::uint64_t seed) {
  const EntryCost cost = entry.cost();
  const std::uint64_t fit = options.payload_bytes / std::max<std::uint64_t>(1, cost.bytes_in);
  const auto count =
      entry.is_shared
          ? static_cast<std::uint64_t>(std::clamp(options.in_flight, 1, kMaxSharedPayloads))
          : std::clamp<std::uint64_t>(fit, 1, static_cast<std::uint64_t>(options.payloads));
  Entry made;
  for (std::uint64_t i = 0; i < count; ++i) {
    absl::StatusOr<Payload> payload = MakePayload(entry, options, Mix64(seed) + 2 * i);
    if (!payload.ok()) return payload.status();
    made.payloads.push_back(*std::move(payload));
  }
  made.call.timeout = entry.deadline > absl::ZeroDuration() ? entry.deadline : options.timeout;
  made.sizes.request_bytes = made.payloads[0].encoded->payload_bytes + kHeaderBytes;
  made.sizes.answer_bytes = cost.bytes_out + kReceiptBytes;
  made.call.route = entry.route;
  if (entry.is_shared) {
    made.sizes.request_bytes = kSharedHeaderBytes;
    made.sizes.answer_bytes = kReceiptBytes;
    made.turns = std::make_unique<Places>(count);
    return made;
  }
  if (entry.route.transport == client::Transport::kUnary) {
    const absl::Status fits = client::UnaryMessage(*made.payloads[0].encoded).status();
    if (!fits.ok()) return fits;
  }
  // The route is the one that the client library would choose for a request that is alone.
  client::RouteInput input;
  input.bytes_in = cost.bytes_in;
  input.bytes_out = cost.bytes_out;
  const client::Route route = client::ChooseRoute(entry.route, input);
  made.sizes.streamed = route.transport == client::Transport::kStream;
  if (made.sizes.streamed) {
    made.sizes.stripes = route.channels;
    made.sizes.chunk_bytes = route.chunk_bytes;
  }
  return made;
}

StageIndex IndexOf(v1::StageName name) {
  switch (name) {
    case v1::DECODE:
      return kServerDecode;
    case v1::ADMISSION:
      return kAdmission;
    case v1::RECEIVE:
      return kReceive;
    case v1::QUEUE:
      return kQueue;
    case v1::COPY_IN:
      return kCopyIn;
    case v1::COMPUTE:
      return kCompute;
    case v1::COPY_OUT:
      return kCopyOut;
    case v1::ENCODE:
      return kServerEncode;
    default:
      return kServerOther;  // of a newer server
  }
}

Reply ReplyOf(const client::Receipt& receipt) {
  const auto us = [](absl::Duration time) {
    return static_cast<float>(absl::ToDoubleMicroseconds(time));
  };
  Reply reply;
  reply.stage_us[kClientEncode] = us(receipt.client.encode);
  reply.stage_us[kWire] = us(receipt.client.wire);
  reply.stage_us[kClientDecode] = us(receipt.client.decode);
  reply.stage_us[kServerOther] = static_cast<float>(receipt.server.unattributed_us());
  for (const v1::Stage& stage : receipt.server.stages()) {
    reply.stage_us[IndexOf(stage.name())] += static_cast<float>(stage.exposed_us());
  }
  reply.batch_requests = static_cast<std::uint32_t>(receipt.server.batch_requests());
  return reply;
}

bool IsUnary(const Entry& entry) {
  return entry.call.route.has_value() && entry.call.route->transport == client::Transport::kUnary;
}

class GrpcMatmulTransport final : public MatmulTransport {
 public:
  GrpcMatmulTransport(std::vector<Entry> entries, const std::vector<std::string>& tenants,
                      const MatmulTransportOptions& options)
      : options_(options), entries_(std::move(entries)) {
    for (int i = 0; i < options.channels; ++i) {
      Lane& lane = *lanes_.emplace_back(std::make_unique<Lane>());
      for (const std::string& tenant : tenants) {
        client::ClientOptions client_options = ClientOptionsFor(options, tenant);
        client_options.retry.max_attempts = 1;
        lane.clients.push_back(std::make_unique<client::Client>(client_options));
        if (options.calls_per_connection > 0) {
          lane.places.push_back(std::make_unique<Places>(options.calls_per_connection));
        }
      }
    }
  }

  ~GrpcMatmulTransport() override { Drain(); }

  void Send(const Request& request, Done done) override {
    Lane& lane = *lanes_[request.lane % lanes_.size()];
    const Entry& entry = entries_[request.entry];
    lane.calls.Begin();
    const auto sending =
        std::make_shared<Sending>(Sending{lane, entry, request, std::move(done), Clock::now()});
    if (entry.turns == nullptr) {
      sending->payload = request.index % entry.payloads.size();
      return TakePlace(sending);
    }
    entry.turns->Take([this, sending](std::size_t payload) {
      sending->payload = payload;
      TakePlace(sending);
    });
  }

  void Drain() override {
    for (const auto& lane : lanes_) lane->calls.WaitForNone();
  }

  Findings TakeFindings() override {
    const MutexLock lock(mutex_);
    return std::exchange(findings_, Findings());
  }

  std::vector<EchoSizes> sizes() const override {
    std::vector<EchoSizes> sizes;
    sizes.reserve(entries_.size());
    for (const Entry& entry : entries_) sizes.push_back(entry.sizes);
    return sizes;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Lane {
    client::CallCount calls;
    // One a tenant, each with a connection of its own; places on it, where they are limited.
    std::vector<std::unique_ptr<client::Client>> clients;
    std::vector<std::unique_ptr<Places>> places;
  };
  struct Sending {
    Lane& lane;
    const Entry& entry;
    const Request request;
    const Done done;
    const Clock::time_point since;
    std::size_t payload = 0;
    std::size_t place = 0;

    Places* places() const {
      return lane.places.empty() || !IsUnary(entry) ? nullptr : lane.places[entry.tenant].get();
    }
  };

  bool IsToVerify(const Request& request, const Payload& payload) const {
    return payload.check != nullptr &&
           ToUnit(Mix64(options_.seed ^ ~request.index)) < options_.verify_fraction;
  }

  void TakePlace(const std::shared_ptr<Sending>& sending) {
    Places* const places = sending->places();
    if (places == nullptr) return Start(sending);
    places->Take([this, sending](std::size_t place) {
      sending->place = place;
      Start(sending);
    });
  }

  void Start(const std::shared_ptr<Sending>& sending) {
    const Entry& entry = sending->entry;
    const Payload& payload = entry.payloads[sending->payload];
    if (payload.shared && IsToVerify(sending->request, payload)) {
      // The last request's D must not be taken for this one's.
      std::memset(payload.shared->d, 0xFF, payload.shared->d_bytes);
    }
    const bool may_wait = entry.turns != nullptr || sending->places() != nullptr;
    const absl::Duration waited =
        may_wait ? absl::FromChrono(Clock::now() - sending->since) : absl::ZeroDuration();
    client::CallOptions call = entry.call;
    // The deadline counts the wait too. Where nothing is left gRPC ends the call, on a thread of
    // its own: ended here, a thousand that wait would end within each other.
    call.timeout = std::max(call.timeout - waited, absl::Milliseconds(1));
    sending->lane.clients[entry.tenant]->MatmulAsync(
        payload.encoded, call,
        [this, sending, waited](const absl::StatusOr<client::Product>& product) {
          End(*sending, product, waited);
        });
  }

  void End(const Sending& sending, const absl::StatusOr<client::Product>& product,
           absl::Duration waited) {
    Lane& lane = sending.lane;
    Finish(sending, product, waited);
    if (sending.entry.turns != nullptr) sending.entry.turns->GiveBack(sending.payload);
    if (Places* const places = sending.places()) places->GiveBack(sending.place);
    lane.calls.End();
  }

  // Verifies after `done`, so that it is in no latency.
  void Finish(const Sending& sending, const absl::StatusOr<client::Product>& product,
              absl::Duration waited) {
    const Payload& payload = sending.entry.payloads[sending.payload];
    if (!product.ok()) {
      {
        const MutexLock lock(mutex_);
        findings_.first_errors.emplace(absl::StatusCodeToString(product.status().code()),
                                       product.status().message());
      }
      Reply reply;
      reply.code = product.status().code();
      return sending.done(reply);
    }
    Reply reply = ReplyOf(product->receipt);
    reply.stage_us[kClientQueue] = static_cast<float>(absl::ToDoubleMicroseconds(waited));
    sending.done(reply);
    if (!IsToVerify(sending.request, payload)) return;
    const std::string why = payload.check->WhyWrong(*product);
    const MutexLock lock(mutex_);
    ++findings_.verified;
    if (why.empty()) return;
    if (findings_.wrong++ == 0) findings_.first_wrong = why;
  }

  const MatmulTransportOptions options_;
  const std::vector<Entry> entries_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  Mutex mutex_;
  Findings findings_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<MatmulTransport>> MatmulTransport::Create(
    const Workload& workload, const MatmulTransportOptions& options) {
  std::vector<Entry> entries;
  std::vector<std::string> tenants;
  for (const WorkloadEntry& entry : workload) {
    absl::StatusOr<Entry> made = MakeEntry(entry, options, options.seed + entries.size());
    if (!made.ok()) {
      return absl::Status(made.status().code(),
                          absl::StrCat(entry.name, ": ", made.status().message()));
    }
    const auto tenant = std::find(tenants.begin(), tenants.end(), entry.tenant);
    made->tenant = static_cast<std::size_t>(tenant - tenants.begin());
    if (tenant == tenants.end()) tenants.push_back(entry.tenant);
    entries.push_back(*std::move(made));
  }
  return std::make_unique<GrpcMatmulTransport>(std::move(entries), tenants, options);
}

}  // namespace gemmd::load
