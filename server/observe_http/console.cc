#include "server/observe_http/console.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/digest/sha256.h"
#include "base/time/units.h"
#include "nlohmann/json.hpp"

namespace gemmd {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kPage[] =
#include "server/observe_http/console_page.inc"
    ;

// The text between the element's tags.
absl::string_view Content(absl::string_view page, absl::string_view element) {
  const std::string open = absl::StrCat("<", element, ">");
  const std::size_t begin = page.find(open) + open.size();
  return page.substr(begin, page.find(absl::StrCat("</", element, ">")) - begin);
}

// Returns the name that CSP gives an inline block
// (https://www.w3.org/TR/CSP3/#grammardef-hash-source).
std::string Source(absl::string_view content) {
  Sha256 hash;
  hash.Update(content);
  const Sha256Digest digest = hash.Finish();
  const absl::string_view bytes(reinterpret_cast<const char*>(digest.data()), digest.size());
  return absl::StrCat("'sha256-", absl::Base64Escape(bytes), "'");
}

// To the millisecond.
double Seconds(TimeNs time) {
  const TimeNs ms = time / kMillisecond;
  return static_cast<double>(ms) / 1e3;
}

std::string SampleName(const MetricFamily& family) {
  return absl::StrCat(family.name, family.type == MetricType::kCounter ? "_total"
                                   : family.type == MetricType::kInfo  ? "_info"
                                                                       : "");
}

Json SampleOf(const MetricFamily& family, const MetricSample& sample) {
  Json json;
  json["labels"] = Json::object();
  for (const auto& [name, value] : sample.labels) json["labels"][name] = value;
  if (family.type != MetricType::kHistogram) {
    json["value"] = sample.value;
    return json;
  }
  std::uint64_t count = 0;
  for (const std::uint64_t each : sample.buckets.counts) count += each;
  json["bounds"] = sample.buckets.bounds;
  json["counts"] = sample.buckets.counts;
  json["sum"] = sample.buckets.sum;
  json["count"] = count;
  return json;
}

Json ReceiptOf(const Receipt& receipt) {
  const Attribution attribution = Attribute(receipt);
  Json exposed = Json::object();
  for (std::size_t i = 0; i < receipt.spans.size(); ++i) {
    const std::string stage(Name(receipt.spans[i].stage));
    exposed[stage] =
        exposed.value(stage, 0.0) + static_cast<double>(attribution.exposed[i]) / kMicrosecond;
  }
  exposed["unattributed"] = static_cast<double>(attribution.unattributed) / kMicrosecond;
  Json json;
  json["request_id"] = receipt.request_id;
  json["finish"] = Seconds(receipt.finish);
  json["tenant"] = receipt.tenant;
  json["peer"] = receipt.endpoint;
  json["traceparent"] = TraceparentOf(receipt);
  json["m"] = receipt.m;
  json["n"] = receipt.n;
  json["k"] = receipt.k;
  json["products"] = receipt.products;
  json["types"] = receipt.types;
  json["device"] = receipt.device;
  json["kernel"] = receipt.kernel;
  json["batch_requests"] = receipt.batch_requests;
  json["total_us"] = static_cast<double>(attribution.total) / kMicrosecond;
  json["exposed_us"] = std::move(exposed);
  return json;
}

// The curve needs no more digits, and a page has thousands of numbers.
Json Short(double value) {
  double rounded = 0;
  return absl::SimpleAtod(absl::StrFormat("%.4g", value), &rounded) ? rounded : value;
}

Json Short(const std::optional<double>& value) {
  return value.has_value() ? Short(*value) : Json(nullptr);
}

Json CurveOf(const HistoryRing& ring) {
  Json points;
  for (const char* name :
       {"begin", "end", "ok", "not_ok", "flops", "p50", "p99", "in_flight", "backlog"}) {
    points[name] = Json::array();
  }
  for (const HistoryPoint& point : ring.points()) {
    points["begin"].push_back(Seconds(point.begin));
    points["end"].push_back(Seconds(point.end));
    points["ok"].push_back(Short(point.ok_per_second));
    points["not_ok"].push_back(Short(point.not_ok_per_second));
    points["flops"].push_back(Short(point.flops_per_second));
    points["p50"].push_back(Short(point.p50_seconds));
    points["p99"].push_back(Short(point.p99_seconds));
    points["in_flight"].push_back(point.in_flight);
    points["backlog"].push_back(Short(point.backlog_seconds));
  }
  Json curve;
  curve["period_seconds"] = Seconds(ring.length());
  curve["points"] = std::move(points);
  return curve;
}

}  // namespace

absl::string_view ConsolePage() { return {kPage, sizeof kPage - 1}; }

const std::string& ConsolePolicy() {
  static const std::string& policy = *new std::string(
      absl::StrCat("default-src 'none'; script-src ", Source(Content(ConsolePage(), "script")),
                   "; style-src ", Source(Content(ConsolePage(), "style")),
                   "; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                   "frame-ancestors 'none'"));
  return policy;
}

std::string ConsoleNumbers(const ConsoleView& view) {
  Json json;
  json["seconds"] = Seconds(view.now);
  Json& server = json["server"];
  server["version"] = view.server.version;
  server["host"] = view.server.host;
  server["address"] = view.server.address;
  server["uptime_seconds"] = Seconds(view.now - view.server.start);
  json["families"] = Json::object();
  for (const MetricFamily& family : view.families) {
    Json& samples = json["families"][SampleName(family)] = Json::array();
    for (const MetricSample& sample : family.samples) samples.push_back(SampleOf(family, sample));
  }
  json["history"]["recent"] = CurveOf(view.history.recent);
  json["history"]["hour"] = CurveOf(view.history.hour);
  json["slow"] = Json::array();
  for (const Receipt& each : view.slow) json["slow"].push_back(ReceiptOf(each));
  // Labels may be any bytes.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gemmd
