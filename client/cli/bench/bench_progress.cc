#include "client/cli/bench/bench_progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/time/units.h"
#include "client/load/percentile.h"

namespace gemmd::cli {
namespace {

constexpr char kWriteOver[] = "\r\x1b[2K";

}  // namespace

BenchProgress::BenchProgress(bool quiet) {
  const bool terminal = isatty(STDERR_FILENO) == 1;
  where_ = quiet ? Where::kNowhere : terminal ? Where::kTerminal : Where::kPlain;
  const char* no_colour = std::getenv("NO_COLOR");
  colour_ = where_ == Where::kTerminal && (no_colour == nullptr || *no_colour == '\0');
}

void BenchProgress::Begin(const std::string& load) {
  load_ = load;
  shown_ns_ = 0;
  counted_ns_ = 0;
  ok_ = failed_ = 0;
  latencies_.clear();
}

void BenchProgress::Show(const load::Progress& progress) {
  if (where_ == Where::kNowhere) return;
  for (const load::Sample& sample : progress.recent) {
    ++(sample.ok() ? ok_ : failed_);
    if (sample.ok()) latencies_.push_back(sample.latency_ns());
  }
  if (where_ == Where::kPlain && progress.elapsed_ns - shown_ns_ < kSecond) return;
  shown_ns_ = progress.elapsed_ns;
  const double seconds =
      static_cast<double>(std::max<load::TimeNs>(1, progress.elapsed_ns - counted_ns_)) / kSecond;
  std::string line = absl::StrFormat(
      "%s %5.1fs %s %10.1f/s  p50 %.3f ms  p99 %.3f ms  %d in flight", load_,
      static_cast<double>(progress.elapsed_ns) / kSecond,
      progress.warming_up ? "warm-up" : "measure", static_cast<double>(ok_) / seconds,
      static_cast<double>(load::SelectPercentile(latencies_, 50)) / 1e6,
      static_cast<double>(load::SelectPercentile(latencies_, 99)) / 1e6, progress.in_flight);
  if (failed_ > 0) {
    absl::StrAppend(&line, colour_ ? "\x1b[31m" : "", "  ", failed_, " failed",
                    colour_ ? "\x1b[0m" : "");
  }
  if (where_ == Where::kTerminal) {
    std::cerr << kWriteOver << line << std::flush;
  } else {
    std::cerr << line << "\n" << std::flush;
  }
  // The figures are of about the last second.
  if (progress.elapsed_ns - counted_ns_ >= kSecond) {
    counted_ns_ = progress.elapsed_ns;
    ok_ = failed_ = 0;
    latencies_.clear();
  }
}

void BenchProgress::End() {
  if (where_ == Where::kTerminal) std::cerr << kWriteOver << std::flush;
}

}  // namespace gemmd::cli
