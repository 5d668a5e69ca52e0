#include "client/cli/bench/bench_record.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cli/files/output_file.h"
#include "client/load/results/percentile_text.h"

namespace gemmd::cli {
namespace {

// "out.hgrm" for concurrency 8 is out-concurrency-8.hgrm.
std::string WithLoad(const std::string& path, const std::string& load) {
  std::string name;
  for (const char letter : load)
    name += absl::ascii_isalnum(letter) || letter == '.' ? letter : '-';
  const std::size_t folder = path.rfind('/');
  const std::size_t dot = path.rfind('.');
  const bool has_ending = dot != std::string::npos && (folder == std::string::npos || dot > folder);
  const std::size_t end = has_ending ? dot : path.size();
  return absl::StrCat(path.substr(0, end), "-", name, path.substr(end));
}

}  // namespace

Outcome BenchRecord::Open(const BenchArguments& arguments) {
  histogram_ = arguments.histogram;
  has_points_ = arguments.has_points();
  if (Outcome failure = CheckOutput(histogram_, false)) return failure;
  if (arguments.samples.empty()) return std::nullopt;
  absl::StatusOr<std::unique_ptr<load::SampleFile>> file =
      load::SampleFile::Create(arguments.samples);
  if (absl::IsInvalidArgument(file.status())) {
    return UsageFailure(absl::StrCat("--samples: ", file.status().message()));
  }
  if (!file.ok()) return FileFailure(file.status());
  samples_ = *std::move(file);
  return std::nullopt;
}

Outcome BenchRecord::Keep(const BenchTarget& target, Measured measured, load::Json& report) {
  const std::string load = load::LoadName(measured.point);
  if (samples_ != nullptr) {
    const absl::Status added = samples_->Add(load, measured.run, target.names);
    if (!added.ok()) return FileFailure(added);
  }
  if (!histogram_.empty()) {
    const bool is_split = has_points_ && !IsStandardOutput(histogram_);
    const std::string text = load::PercentileText(load::SortedLatencies(measured.run));
    Outcome failure = WriteOutput(is_split ? WithLoad(histogram_, load) : histogram_, text);
    if (failure) return failure;
  }
  report["points"].push_back(std::move(measured.point));
  return std::nullopt;
}

}  // namespace gemmd::cli
