#include "server/trace/otlp_json.h"

#include <array>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace gemmd {
namespace {

using Json = nlohmann::json;

constexpr int kInternal = 1;  // SpanKind
constexpr int kServer = 2;
constexpr int kStatusError = 2;  // StatusCode

Json Text(absl::string_view key, absl::string_view value) {
  return {{"key", std::string(key)}, {"value", {{"stringValue", std::string(value)}}}};
}

// 64-bit numbers are strings in Protobuf's JSON.
Json Number(absl::string_view key, std::uint64_t value) {
  return {{"key", std::string(key)}, {"value", {{"intValue", absl::StrCat(value)}}}};
}

Json Real(absl::string_view key, double value) {
  return {{"key", std::string(key)}, {"value", {{"doubleValue", value}}}};
}

std::string Hex(std::uint64_t number) {
  std::array<std::uint8_t, sizeof number> bytes{};
  std::memcpy(bytes.data(), &number, sizeof number);
  return ToHex(bytes.data(), bytes.size());
}

std::string UnixNs(TimeNs time, const OtlpContext& context) {
  return absl::StrCat(time + context.unix_minus_mono);
}

Json AttributesOf(const Timeline& timeline) {
  const Receipt& receipt = timeline.receipt;
  Json attributes = Json::array();
  attributes.push_back(Text("rpc.system", "grpc"));
  attributes.push_back(Text("rpc.service", "gemmd.v1.Gemm"));
  attributes.push_back(Number("rpc.grpc.status_code", static_cast<std::uint64_t>(timeline.code)));
  attributes.push_back(Number("gemmd.request_id", receipt.request_id));
  attributes.push_back(Text("gemmd.tenant", receipt.tenant));
  attributes.push_back(Text("gemmd.device", receipt.device));
  attributes.push_back(Text("gemmd.kernel", receipt.kernel));
  attributes.push_back(Text("gemmd.plan", receipt.plan));
  attributes.push_back(Text("gemmd.numerics_id", receipt.numerics_id));
  attributes.push_back(Real("gemmd.flops", receipt.flops));
  attributes.push_back(Number("gemmd.launch", receipt.launch));
  attributes.push_back(Number("gemmd.batch_requests", receipt.batch_requests));
  attributes.push_back(Number("gemmd.batch_rows", receipt.batch_rows));
  attributes.push_back(Number("gemmd.payload_bytes_in", receipt.payload_bytes_in));
  attributes.push_back(Number("gemmd.payload_bytes_out", receipt.payload_bytes_out));
  if (timeline.spans_left_out != 0) {
    attributes.push_back(Number("gemmd.stages_left_out", timeline.spans_left_out));
  }
  return attributes;
}

void AddSpans(const Timeline& timeline, const OtlpContext& context, Json* spans) {
  const Receipt& receipt = timeline.receipt;
  const TraceOrigin& origin = receipt.trace;
  const auto random = [&](std::uint64_t which) {
    return RandomOf(context.seed, receipt.request_id, which);
  };
  const std::string trace_id = origin.context.has_value() ? ToHex(origin.context->trace_id.data(),
                                                                  origin.context->trace_id.size())
                                                          : Hex(random(0)) + Hex(random(1));
  const std::string own_id = Hex(random(2));
  Json span = {{"traceId", trace_id},
               {"spanId", own_id},
               {"name", "gemmd.v1.Gemm/Matmul"},
               {"kind", kServer},
               {"flags", TraceContext::kSampled},
               {"startTimeUnixNano", UnixNs(receipt.arrival, context)},
               {"endTimeUnixNano", UnixNs(receipt.finish, context)},
               {"attributes", AttributesOf(timeline)},
               {"status", Json::object()}};
  if (origin.context.has_value()) {
    span["parentSpanId"] =
        ToHex(origin.context->parent_id.data(), origin.context->parent_id.size());
  }
  if (!origin.state.empty()) span["traceState"] = origin.state;
  if (timeline.code != absl::StatusCode::kOk) {
    span["status"] = {{"code", kStatusError}, {"message", absl::StatusCodeToString(timeline.code)}};
  }
  spans->push_back(std::move(span));
  constexpr std::uint64_t kFirstStage = 3;
  for (std::size_t i = 0; i < receipt.spans.size(); ++i) {
    const StageSpan& stage = receipt.spans[i];
    spans->push_back({{"traceId", trace_id},
                      {"spanId", Hex(random(kFirstStage + i))},
                      {"parentSpanId", own_id},
                      {"name", std::string(Name(stage.stage))},
                      {"kind", kInternal},
                      {"flags", TraceContext::kSampled},
                      {"startTimeUnixNano", UnixNs(stage.start, context)},
                      {"endTimeUnixNano", UnixNs(stage.end, context)},
                      {"status", Json::object()}});
  }
}

}  // namespace

std::uint64_t RandomOf(std::uint64_t seed, std::uint64_t request_id, std::uint64_t which) {
  // SplitMix64 (Steele, Lea, Flood 2014), of numbers that are all different.
  std::uint64_t x = seed + request_id * 0x9e3779b97f4a7c15U;
  for (int round = 0; round < 2; ++round) {
    x += 0x9e3779b97f4a7c15U + which;
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
    x ^= x >> 31U;
  }
  return x == 0 ? 1 : x;
}

std::size_t SpansOf(const Timeline& timeline) { return 1 + timeline.receipt.spans.size(); }

std::string ToOtlpJson(absl::Span<const Timeline> timelines, const OtlpContext& context) {
  Json spans = Json::array();
  for (const Timeline& timeline : timelines) AddSpans(timeline, context, &spans);
  const std::string version(context.version);
  // Written out, because braces alone do not tell an array of one from what is in it.
  Json scope;
  scope["scope"] = {{"name", "gemmd"}, {"version", version}};
  scope["spans"] = std::move(spans);
  Json resource;
  resource["resource"]["attributes"] =
      Json::array({Text("service.name", "gemmd"), Text("service.version", version)});
  resource["scopeSpans"] = Json::array({std::move(scope)});
  Json request;
  request["resourceSpans"] = Json::array({std::move(resource)});
  // A tenant's name may be cut within a character.
  return request.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::uint64_t RejectedSpans(absl::string_view body) {
  const Json answer = Json::parse(body.begin(), body.end(), nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) return 0;
  const auto partial = answer.find("partialSuccess");
  if (partial == answer.end() || !partial->is_object()) return 0;
  const auto rejected = partial->find("rejectedSpans");
  if (rejected == partial->end()) return 0;
  if (rejected->is_number_unsigned()) return rejected->get<std::uint64_t>();
  std::uint64_t count = 0;
  if (rejected->is_string() && absl::SimpleAtoi(rejected->get<std::string>(), &count)) return count;
  return 0;
}

}  // namespace gemmd
