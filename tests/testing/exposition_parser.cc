#include "tests/testing/exposition_parser.h"

#include <algorithm>
#include <limits>
#include <regex>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace gemmd {
namespace {

using Labels = std::map<std::string, std::string>;

bool IsName(const std::string& name) {
  static const std::regex form("[a-zA-Z_][a-zA-Z0-9_]*");
  return std::regex_match(name, form);
}

// The rest of a line.
class Cursor {
 public:
  explicit Cursor(absl::string_view text) : text_(text) {}

  bool Skip(absl::string_view text) { return absl::ConsumePrefix(&text_, text); }
  std::string Until(absl::string_view ends) {
    const std::size_t end = std::min(text_.find_first_of(ends), text_.size());
    std::string found(text_.substr(0, end));
    text_.remove_prefix(end);
    return found;
  }
  // Up to the quote that ends it; none where a byte is escaped that need not be, or is not that
  // must be.
  std::optional<std::string> Escaped(bool is_quoted, bool quotes_are_escaped) {
    std::string value;
    while (!text_.empty()) {
      const char byte = text_.front();
      if (byte == '"' && is_quoted) return value;
      if (byte == '"' && quotes_are_escaped) return std::nullopt;
      text_.remove_prefix(1);
      if (byte != '\\') {
        value += byte;
        continue;
      }
      if (Skip("n")) {
        value += '\n';
      } else if (Skip("\\")) {
        value += '\\';
      } else if (quotes_are_escaped && Skip("\"")) {
        value += '"';
      } else {
        return std::nullopt;
      }
    }
    return is_quoted ? std::nullopt : std::optional<std::string>(value);
  }
  bool done() const { return text_.empty(); }

 private:
  absl::string_view text_;
};

std::optional<double> Number(const std::string& text) {
  if (text == "+Inf") return std::numeric_limits<double>::infinity();
  if (text == "-Inf") return -std::numeric_limits<double>::infinity();
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  static const std::regex form(R"([+-]?\d+(\.\d+)?(e[+-]?\d+)?)");
  if (!std::regex_match(text, form)) return std::nullopt;
  return std::stod(text);
}

std::optional<Labels> ReadLabels(Cursor* line) {
  Labels labels;
  if (line->Skip("}")) return labels;
  do {
    const std::string name = line->Until("=");
    if (!IsName(name) || !line->Skip("=\"")) return std::nullopt;
    const std::optional<std::string> value = line->Escaped(true, true);
    if (!value.has_value() || !line->Skip("\"")) return std::nullopt;
    if (!labels.emplace(name, *value).second) return std::nullopt;
  } while (line->Skip(","));
  return line->Skip("}") ? std::optional<Labels>(labels) : std::nullopt;
}

class Reader {
 public:
  explicit Reader(bool is_open) : is_open_(is_open) {}

  // Empty: the line is right.
  std::string Line(const std::string& text) {
    if (ended_) return "something stands after # EOF";
    if (is_open_ && text == "# EOF") {
      ended_ = true;
      return CheckFamily();
    }
    Cursor line(text);
    return line.Skip("# ") ? Head(&line) : Sample(&line);
  }
  std::string Finish() {
    if (is_open_ && !ended_) return "no # EOF";
    return is_open_ ? "" : CheckFamily();
  }
  ReadPage page;

 private:
  std::string Head(Cursor* line) {
    const std::string kind = line->Until(" ");
    line->Skip(" ");
    const std::string name = line->Until(" ");
    line->Skip(" ");
    if (!IsName(name)) return "not a name: " + name;
    if (page.families.empty() || page.families.back().name != name) {
      if (std::string error = CheckFamily(); !error.empty()) return error;
      if (!names_.insert(name).second) return "a second family of that name";
      page.families.push_back({name, "", "", "", {}});
    }
    ReadFamily& family = page.families.back();
    if (!family.samples.empty()) return "samples stand before it";
    if (kind == "HELP") {
      const auto help = line->Escaped(false, is_open_);
      if (!help.has_value()) return "help that is not escaped well";
      family.help = *help;
    } else if (kind == "TYPE") {
      family.type = line->Until("\n");
      static const std::set<std::string> types = {"counter", "gauge", "histogram"};
      if (types.count(family.type) == 0 && !(is_open_ && family.type == "info")) {
        return "not a type: " + family.type;
      }
    } else if (kind == "UNIT" && is_open_) {
      family.unit = line->Until("\n");
      if (!absl::EndsWith(name, "_" + family.unit)) return "the name does not end with the unit";
    } else {
      return "not known: " + kind;
    }
    return "";
  }

  std::string Sample(Cursor* line) {
    ReadSample sample;
    sample.name = line->Until("{ ");
    if (!IsName(sample.name)) return "not a name: " + sample.name;
    if (line->Skip("{")) {
      const std::optional<Labels> labels = ReadLabels(line);
      if (!labels.has_value()) return "labels that are not well formed";
      sample.labels = *labels;
    }
    if (!line->Skip(" ")) return "no value";
    const std::optional<double> value = Number(line->Until(" "));
    if (!value.has_value()) return "a value that is not a number";
    sample.value = *value;
    if (line->Skip(" # {")) {
      const std::optional<Labels> labels = ReadLabels(line);
      if (!is_open_ || !labels.has_value() || !line->Skip(" ")) return "no exemplar as it must be";
      const std::optional<double> seen = Number(line->Until(" "));
      if (!seen.has_value()) return "an exemplar without a number";
      sample.exemplar = ReadExemplar{*labels, *seen};
    }
    if (!line->done()) return "more than a value";
    if (page.families.empty()) return "a sample of no family";
    ReadFamily& family = page.families.back();
    if (!Belongs(sample, family)) return sample.name + " is not " + family.name + "'s";
    if (!series_.emplace(sample.name, sample.labels).second) return "a series that stands twice";
    family.samples.push_back(std::move(sample));
    return "";
  }

  bool Belongs(const ReadSample& sample, const ReadFamily& family) const {
    absl::string_view rest = sample.name;
    if (!absl::ConsumePrefix(&rest, family.name)) return false;
    const bool has_bound = sample.labels.count("le") != 0;
    if (family.type == "histogram") {
      return has_bound ? rest == "_bucket" : rest == "_sum" || rest == "_count";
    }
    if (has_bound || family.type.empty()) return false;
    if (!is_open_) {
      return rest.empty() && (family.type != "counter" || absl::EndsWith(family.name, "_total"));
    }
    return rest == (family.type == "counter" ? "_total" : family.type == "info" ? "_info" : "");
  }

  // The last one, once it is whole.
  std::string CheckFamily() const {
    if (page.families.empty()) return "";
    const ReadFamily& family = page.families.back();
    if (family.help.empty()) return family.name + " has no help";
    if (family.samples.empty()) return family.name + " has no samples";
    for (const ReadSample& sample : family.samples) {
      if (family.type == "counter" && !(sample.value >= 0)) return "a counter below zero";
    }
    return family.type == "histogram" ? CheckBuckets(family) : "";
  }

  static std::string CheckBuckets(const ReadFamily& family) {
    double bound = -std::numeric_limits<double>::infinity();
    double count = 0;
    for (const ReadSample& sample : family.samples) {
      if (absl::EndsWith(sample.name, "_bucket")) {
        const std::optional<double> next = Number(sample.labels.at("le"));
        if (!next.has_value() || !(*next > bound)) return "bounds that do not ascend";
        if (sample.value < count) return "buckets that do not add up";
        if (sample.exemplar.has_value() &&
            !(sample.exemplar->value > bound && sample.exemplar->value <= *next)) {
          return "an exemplar of another bucket";
        }
        bound = *next;
        count = sample.value;
      } else if (absl::EndsWith(sample.name, "_count")) {
        if (bound != std::numeric_limits<double>::infinity()) return "no bucket to +Inf";
        if (sample.value != count) return "a count that is not the last bucket's";
        bound = -bound;
        count = 0;
      }
    }
    return "";
  }

  const bool is_open_;
  bool ended_ = false;
  std::set<std::string> names_;
  std::set<std::pair<std::string, Labels>> series_;
};

}  // namespace

const ReadFamily* ReadPage::Find(const std::string& name) const {
  for (const ReadFamily& family : families) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

std::optional<double> ReadPage::Value(const std::string& sample, const Labels& labels) const {
  std::optional<double> found;
  for (const ReadFamily& family : families) {
    for (const ReadSample& each : family.samples) {
      bool fits = each.name == sample;
      for (const auto& [name, value] : labels) {
        const auto own = each.labels.find(name);
        fits = fits && own != each.labels.end() && own->second == value;
      }
      if (!fits) continue;
      if (found.has_value()) return std::nullopt;
      found = each.value;
    }
  }
  return found;
}

absl::StatusOr<ReadPage> ReadExposition(const std::string& text, ExpositionForm form) {
  Reader reader(form == ExpositionForm::kOpenMetrics);
  const auto fault = [](absl::string_view line, absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": \"", line, "\""));
  };
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t end = text.find('\n', start);
    if (end == std::string::npos) return fault(text.substr(start), "a line without an end");
    const std::string line = text.substr(start, end - start);
    if (const std::string error = reader.Line(line); !error.empty()) return fault(line, error);
    start = end + 1;
  }
  if (const std::string error = reader.Finish(); !error.empty()) return fault("", error);
  return std::move(reader.page);
}

}  // namespace gemmd
