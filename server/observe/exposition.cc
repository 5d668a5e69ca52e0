#include "server/observe/exposition.h"

#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/text/utf8.h"

namespace gemmd {
namespace {

constexpr std::size_t kMaxExemplarCharacters = 128;

// Escapes the text as it stands in a line. Prometheus' own form takes a quote in HELP as it is, and
// knows no escape for it there.
std::string Escaped(absl::string_view text, bool quotes) {
  std::string escaped;
  while (!text.empty()) {
    const std::size_t bytes = Utf8CharacterBytes(text);
    if (bytes == 0) {
      escaped += "\xef\xbf\xbd";
    } else if (text.front() == '\n') {
      escaped += "\\n";
    } else if (text.front() == '\\' || (quotes && text.front() == '"')) {
      escaped += '\\';
      escaped += text.front();
    } else {
      absl::StrAppend(&escaped, text.substr(0, bytes));
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return escaped;
}

std::size_t Characters(absl::string_view text) {
  std::size_t characters = 0;
  for (; !text.empty(); ++characters) {
    const std::size_t bytes = Utf8CharacterBytes(text);
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return characters;
}

// {a="x",b="y"}.
std::string Braces(const MetricLabels& labels) {
  std::string text = "{";
  for (const auto& [name, value] : labels) {
    absl::StrAppend(&text, text.size() == 1 ? "" : ",", name, "=\"", Escaped(value, true), "\"");
  }
  return text + "}";
}

std::string LabelText(const MetricLabels& labels) { return labels.empty() ? "" : Braces(labels); }

// 1 is written 1.0, as OpenMetrics asks, in both forms: the series are the same in both.
std::string BoundText(double bound) {
  std::string text = MetricNumber(bound);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

std::string ExemplarText(const std::optional<Exemplar>& exemplar) {
  if (!exemplar.has_value()) return "";
  std::size_t characters = 0;
  for (const auto& [name, value] : exemplar->labels) {
    characters += name.size() + Characters(value);
  }
  if (characters > kMaxExemplarCharacters) return "";
  return absl::StrCat(" # ", Braces(exemplar->labels), " ", MetricNumber(exemplar->value));
}

class Writer {
 public:
  explicit Writer(ExpositionForm form) : is_open_(form == ExpositionForm::kOpenMetrics) {}

  void Write(const MetricFamily& family) {
    if (family.samples.empty()) return;
    WriteHead(family);
    for (const MetricSample& sample : family.samples) {
      if (family.type == MetricType::kHistogram) {
        WriteHistogram(family.name, sample);
      } else {
        WriteLine(absl::StrCat(family.name, Suffix(family.type)), sample.labels, sample.value);
      }
    }
  }

  std::string Finish() {
    if (is_open_) text_ += "# EOF\n";
    return std::move(text_);
  }

 private:
  static absl::string_view Suffix(MetricType type) {
    return type == MetricType::kCounter ? "_total" : type == MetricType::kInfo ? "_info" : "";
  }

  // Only OpenMetrics knows info, and families whose name is not their samples'.
  absl::string_view TypeName(MetricType type) const {
    switch (type) {
      case MetricType::kCounter:
        return "counter";
      case MetricType::kHistogram:
        return "histogram";
      case MetricType::kInfo:
        return is_open_ ? "info" : "gauge";
      case MetricType::kGauge:
        break;
    }
    return "gauge";
  }

  void WriteHead(const MetricFamily& family) {
    const std::string name =
        is_open_ ? family.name : absl::StrCat(family.name, Suffix(family.type));
    absl::StrAppend(&text_, "# HELP ", name, " ", Escaped(family.help, is_open_), "\n");
    absl::StrAppend(&text_, "# TYPE ", name, " ", TypeName(family.type), "\n");
    if (is_open_ && !family.unit.empty()) {
      absl::StrAppend(&text_, "# UNIT ", name, " ", family.unit, "\n");
    }
  }

  void WriteLine(absl::string_view name, const MetricLabels& labels, double value,
                 const std::optional<Exemplar>& exemplar = std::nullopt) {
    absl::StrAppend(&text_, name, LabelText(labels), " ", MetricNumber(value),
                    is_open_ ? ExemplarText(exemplar) : "", "\n");
  }

  void WriteHistogram(const std::string& name, const MetricSample& sample) {
    const MetricBuckets& buckets = sample.buckets;
    MetricLabels labels = sample.labels;
    labels.emplace_back("le", "");
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < buckets.counts.size(); ++i) {
      count += buckets.counts[i];
      labels.back().second = i < buckets.bounds.size() ? BoundText(buckets.bounds[i]) : "+Inf";
      WriteLine(name + "_bucket", labels, static_cast<double>(count),
                i < buckets.exemplars.size() ? buckets.exemplars[i] : std::nullopt);
    }
    WriteLine(name + "_sum", sample.labels, buckets.sum);
    WriteLine(name + "_count", sample.labels, static_cast<double>(count));
  }

  const bool is_open_;
  std::string text_;
};

}  // namespace

absl::string_view ContentType(ExpositionForm form) {
  return form == ExpositionForm::kOpenMetrics
             ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
             : "text/plain; version=0.0.4; charset=utf-8";
}

std::string WriteExposition(const std::vector<MetricFamily>& families, ExpositionForm form) {
  Writer writer(form);
  for (const MetricFamily& family : families) writer.Write(family);
  return writer.Finish();
}

std::string MetricNumber(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  constexpr double kExact = 9007199254740992;  // 2^53: counts are written whole up to it
  char text[32];
  const bool is_count = std::abs(value) < kExact && std::trunc(value) == value;
  const std::to_chars_result end =
      is_count ? std::to_chars(text, text + sizeof(text), static_cast<std::int64_t>(value))
               : std::to_chars(text, text + sizeof(text), value);
  return std::string(text, end.ptr);
}

}  // namespace gemmd
