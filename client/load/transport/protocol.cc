#include "client/load/transport/protocol.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace gemmd::load {
namespace {

absl::Status Refuse(absl::string_view field, absl::string_view value, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is \"", value, "\"; with --protocol=oip ", why));
}

absl::Status CheckOperands(const WorkloadEntry& entry) {
  if (entry.is_shared) {
    return Refuse("operands", "shared-memory",
                  "it must be inline, streamed or resident-b: perf_analyzer --shared-memory "
                  "measures such memory (docs/triton-clients.md)");
  }
  if (entry.residents == Residents::kBoth) {
    return Refuse("operands", "resident",
                  "it must be inline, streamed or resident-b: a model keeps B, and A travels");
  }
  return absl::OkStatus();
}

absl::Status CheckCall(const WorkloadEntry& entry) {
  if (entry.route.transport == client::Transport::kAuto) {
    return Refuse("call", "auto", "it must be unary or stream: no rule chooses between them");
  }
  if (entry.route.channels != 1) {
    return Refuse("channels (--stripes)", absl::StrCat(entry.route.channels),
                  "it must be 1: a request is one message, on one connection");
  }
  if (entry.route.chunk_bytes != 0) {
    return Refuse("chunk_bytes", absl::StrCat(entry.route.chunk_bytes),
                  "it must be left out: a request is one message");
  }
  if (entry.route.transport == client::Transport::kStream &&
      entry.deadline > absl::ZeroDuration()) {
    return Refuse("deadline", absl::FormatDuration(entry.deadline),
                  "it must be left out where call is stream: a stream's requests have none of "
                  "their own, but --timeout is kept here");
  }
  return absl::OkStatus();
}

absl::Status CheckTypes(const WorkloadEntry& entry) {
  constexpr char kTypes[] = "it must be f64, f32, f16, bf16 or int8";
  const std::string type = entry.type_name();
  if (!entry.a_quantized.empty() || DatatypeName(entry.a.type).empty()) {
    return Refuse("type", type,
                  absl::StrCat("A's: ", kTypes,
                               ", and B's the same; B's a quantized format with "
                               "--operands=resident-b, as a=bf16,b=mxfp4"));
  }
  if (entry.b_quantized.empty() && entry.b.type != entry.a.type) {
    return Refuse("type", type, "A and B must have one type, unless B is quantized");
  }
  if (!entry.b_quantized.empty() && entry.residents != Residents::kB) {
    return Refuse("type", type,
                  "a quantized B must stay on the server: --operands=resident-b, because no model "
                  "takes its scales");
  }
  const DataType output = entry.output_type();
  if (DatatypeName(output).empty() || output == DataType::kInt8) {
    return Refuse("output_type", Name(output), "it must be f64, f32, f16, bf16 or int32");
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view Name(Protocol protocol) { return protocol == Protocol::kOip ? "oip" : "gemmd"; }

absl::string_view DatatypeName(DataType type) {
  switch (type) {
    case DataType::kF64:
      return "FP64";
    case DataType::kF32:
      return "FP32";
    case DataType::kF16:
      return "FP16";
    case DataType::kBf16:
      return "BF16";
    case DataType::kInt8:
      return "INT8";
    case DataType::kInt32:
      return "INT32";
    default:
      return "";
  }
}

absl::Status CheckOip(const Workload& workload) {
  for (std::size_t i = 0; i < workload.size(); ++i) {
    for (const auto check : {CheckOperands, CheckCall, CheckTypes}) {
      const absl::Status status = check(workload[i]);
      if (status.ok()) continue;
      return absl::InvalidArgumentError(absl::StrCat("request ", i + 1, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace gemmd::load
