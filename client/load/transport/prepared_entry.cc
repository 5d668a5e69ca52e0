#include "client/load/transport/prepared_entry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/numbers/fp8.h"
#include "client/load/random.h"
#include "client/operands.h"
#include "client/quantized/quantize.h"
#include "client/quantized/quantized_array.h"
#include "client/wire/message.h"

namespace gemmd::load {
namespace {

// Bytes of a result on the wire beside its payload: receipt, plane and framing.
constexpr std::uint64_t kReceiptBytes = 400;
// Bytes of a request beside its payload.
constexpr std::uint64_t kHeaderBytes = 80;
// Bytes of a request whose operands are in regions that it names.
constexpr std::uint64_t kSharedHeaderBytes = 200;
// Bytes of an answer of the Open Inference Protocol beside D: names and the receipt's parameters.
constexpr std::uint64_t kInferReceiptBytes = 900;

// Uploads the operand, and returns its digest, which brings nothing back: where a server loses it,
// that is to be seen.
absl::StatusOr<client::OperandName> MakeResident(client::Operands& operands,
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

// Uploads B as a model, and returns its name: that of its content, so that runs at one time agree
// on it.
absl::StatusOr<std::string> MakeModel(client::Operands& operands, const client::InlineOperand& b,
                                      absl::Duration timeout) {
  const absl::StatusOr<client::OperandName> resident = MakeResident(operands, b, timeout);
  if (!resident.ok()) return resident.status();
  constexpr std::size_t kDigestBytes = 16;
  std::string name = absl::StrCat(
      "bench-",
      absl::BytesToHexString(absl::string_view(resident->digest).substr(0, kDigestBytes)));
  client::CallOptions call;
  call.timeout = timeout;
  const auto named = operands.SetName(*resident, name, /*replace=*/true, call);
  if (!named.ok()) return named.status();
  return name;
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

absl::StatusOr<PreparedPayload> MakePayload(const WorkloadEntry& entry,
                                            const MatmulTransportOptions& options,
                                            std::uint64_t seed) {
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
  PreparedPayload payload;
  if (verifies) {
    payload.check =
        std::make_unique<AnswerCheck>(drawn_a->values->view(), drawn_b->values->view(), seed,
                                      IsFp8(entry.b.type) ? entry.b.type : entry.a.type);
  }
  if (options.protocol == Protocol::kOip) {
    std::string model;
    if (entry.residents == Residents::kB) {
      client::Operands operands(ClientOptionsFor(options, entry.tenant));
      absl::StatusOr<std::string> made = MakeModel(operands, b, options.timeout);
      if (!made.ok()) return made.status();
      model = *std::move(made);
    }
    absl::StatusOr<std::shared_ptr<const EncodedInfer>> infer = EncodeInfer(entry, a, b, model);
    if (!infer.ok()) return infer.status();
    payload.infer = *std::move(infer);
    return payload;
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
    absl::StatusOr<client::OperandName> resident = MakeResident(operands, b, options.timeout);
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

}  // namespace

client::ClientOptions ClientOptionsFor(const MatmulTransportOptions& options,
                                       const std::string& tenant) {
  client::ClientOptions client;
  client.channel = options.channel;
  if (!tenant.empty()) client.channel.tenant = tenant;
  client.channel.own_connection = true;
  client.streams = options.streams;
  return client;
}

absl::StatusOr<PreparedEntry> PrepareEntry(const WorkloadEntry& entry,
                                           const MatmulTransportOptions& options,
                                           std::uint64_t seed) {
  const EntryCost cost = entry.cost();
  const std::uint64_t fit = options.payload_bytes / std::max<std::uint64_t>(1, cost.bytes_in);
  const auto count =
      entry.is_shared
          ? static_cast<std::uint64_t>(std::clamp(options.in_flight, 1, kMaxSharedPayloads))
          : std::clamp<std::uint64_t>(fit, 1, static_cast<std::uint64_t>(options.payloads));
  PreparedEntry made;
  for (std::uint64_t i = 0; i < count; ++i) {
    absl::StatusOr<PreparedPayload> payload = MakePayload(entry, options, Mix64(seed) + 2 * i);
    if (!payload.ok()) return payload.status();
    made.payloads.push_back(*std::move(payload));
  }
  made.call.timeout = entry.deadline > absl::ZeroDuration() ? entry.deadline : options.timeout;
  made.call.route = entry.route;
  if (options.protocol == Protocol::kOip) {
    made.sizes.request_bytes = made.payloads[0].infer->bytes;
    made.sizes.answer_bytes = cost.bytes_out + kInferReceiptBytes;
    made.sizes.streamed = entry.route.transport == client::Transport::kStream;
    // A message each way.
    made.sizes.chunk_bytes = std::max(made.sizes.request_bytes, made.sizes.answer_bytes);
    return made;
  }
  made.sizes.request_bytes = made.payloads[0].encoded->payload_bytes + kHeaderBytes;
  made.sizes.answer_bytes = cost.bytes_out + kReceiptBytes;
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

}  // namespace gemmd::load
