#include "client/load/results/sample_file.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/time/units.h"
#include "client/load/results/turns.h"

namespace gemmd::load {
namespace {

struct Field {
  std::string name;
  std::string value;
  bool is_text = false;
};

std::string Seconds(TimeNs time) {
  return absl::StrFormat("%.9f", static_cast<double>(time) / kSecond);
}

std::string CodeName(std::uint8_t code) {
  return code == kNotSent ? "NOT_SENT"
                          : absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
}

// One list of fields for both formats.
std::vector<Field> FieldsOf(const std::string& load, const std::string& entry, bool is_measured,
                            const Sample& sample) {
  std::vector<Field> fields = {
      {"load", load, true},
      {"entry", entry, true},
      {"due_s", Seconds(sample.intended_ns)},
      {"sent_s", Seconds(sample.sent_ns)},
      {"completed_s", Seconds(sample.completed_ns)},
      {"measured", is_measured ? "1" : "0"},
      {"code", sample.ok() ? "OK" : CodeName(sample.code), true},
      {"latency_us", absl::StrFormat("%.3f", static_cast<double>(sample.latency_ns()) / 1e3)},
      {"batch_requests", absl::StrCat(sample.batch_requests)}};
  for (std::size_t i = 0; i < kStages; ++i) {
    fields.push_back({absl::StrCat(absl::StrReplaceAll(kStageNames[i], {{" ", "_"}}), "_us"),
                      absl::StrFormat("%.3f", sample.stage_us[i])});
  }
  return fields;
}

// Quotes as CSV (RFC 4180) and JSON have them; names of loads and entries hold no control
// characters.
std::string Quoted(const std::string& text, bool is_csv) {
  if (is_csv && text.find_first_of(",\"") == std::string::npos) return text;
  const auto escaped = is_csv ? absl::StrReplaceAll(text, {{"\"", "\"\""}})
                              : absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}});
  return absl::StrCat("\"", escaped, "\"");
}

std::string Line(const std::vector<Field>& fields, bool is_csv) {
  std::string line = is_csv ? "" : "{";
  for (const Field& field : fields) {
    const char* const comma = &field == &fields[0] ? "" : ",";
    const std::string value = field.is_text ? Quoted(field.value, is_csv) : field.value;
    if (is_csv) {
      absl::StrAppend(&line, comma, value);
    } else {
      absl::StrAppend(&line, comma, "\"", field.name, "\":", value);
    }
  }
  return line + (is_csv ? "\n" : "}\n");
}

}  // namespace

SampleFile::SampleFile(std::string path, bool is_csv)
    : path_(std::move(path)), is_csv_(is_csv), file_(path_, std::ios::trunc | std::ios::binary) {}

absl::StatusOr<std::unique_ptr<SampleFile>> SampleFile::Create(const std::string& path) {
  const bool is_csv = absl::EndsWith(path, ".csv");
  if (!is_csv && !absl::EndsWith(path, ".jsonl")) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": must end in .csv or .jsonl"));
  }
  std::unique_ptr<SampleFile> file(new SampleFile(path, is_csv));
  if (is_csv) {
    std::vector<Field> names = FieldsOf("", "", false, Sample());
    for (Field& field : names) field.value = field.name;
    file->file_ << Line(names, true);
  }
  if (!file->file_.good()) {
    return absl::UnavailableError(absl::StrCat(path, ": cannot be written"));
  }
  return file;
}

absl::Status SampleFile::Add(const std::string& load, const LoadRun& run,
                             const std::vector<std::string>& entries) {
  const std::vector<Turn> turns = TurnsOf(run);
  std::vector<const Sample*> samples;
  samples.reserve(run.samples.size());
  for (const Sample& sample : run.samples) samples.push_back(&sample);
  std::sort(samples.begin(), samples.end(),
            [](const Sample* a, const Sample* b) { return a->intended_ns < b->intended_ns; });
  for (const Sample* sample : samples) {
    const bool is_measured = FindTurn(turns, sample->intended_ns) < turns.size();
    file_ << Line(FieldsOf(load, entries[sample->entry], is_measured, *sample), is_csv_);
  }
  file_.flush();
  if (file_.good()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(path_, ": cannot be written to its end"));
}

}  // namespace gemmd::load
