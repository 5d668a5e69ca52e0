#include "server/observe_http/console.h"

#include <cstdint>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/digest/sha256.h"
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
  constexpr double kNsPerUs = 1e3;
  const Attribution attribution = Attribute(receipt);
  Json exposed = Json::object();
  for (std::size_t i = 0; i < receipt.spans.size(); ++i) {
    const std::string stage(Name(receipt.spans[i].stage));
    exposed[stage] =
        exposed.value(stage, 0.0) + static_cast<double>(attribution.exposed[i]) / kNsPerUs;
  }
  exposed["unattributed"] = static_cast<double>(attribution.unattributed) / kNsPerUs;
  Json json;
  json["request_id"] = receipt.request_id;
  json["tenant"] = receipt.tenant;
  json["device"] = receipt.device;
  json["kernel"] = receipt.kernel;
  json["total_us"] = static_cast<double>(attribution.total) / kNsPerUs;
  json["exposed_us"] = std::move(exposed);
  return json;
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

std::string ConsoleNumbers(TimeNs now, const std::vector<MetricFamily>& families,
                           const std::vector<Receipt>& slow) {
  constexpr double kSecondsPerNs = 1e-9;
  Json json;
  json["seconds"] = static_cast<double>(now) * kSecondsPerNs;
  json["families"] = Json::object();
  for (const MetricFamily& family : families) {
    Json& samples = json["families"][SampleName(family)] = Json::array();
    for (const MetricSample& sample : family.samples) samples.push_back(SampleOf(family, sample));
  }
  json["slow"] = Json::array();
  for (const Receipt& each : slow) json["slow"].push_back(ReceiptOf(each));
  // Labels may be any bytes.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gemmd
