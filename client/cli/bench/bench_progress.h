// The lines that `gemm bench` prints while it measures.
#pragma once

#include <string>

#include "client/load/load_generator.h"

namespace gemmd::cli {

// To standard error: on a terminal one line that is written over, elsewhere a line a
// second. Colour only on a terminal, and not where NO_COLOR is set.
class BenchProgress {
 public:
  enum class Where { kTerminal, kPlain, kNowhere };

  explicit BenchProgress(bool quiet);

  void Begin(const std::string& load);
  void Show(const load::Progress& progress);
  // Takes an unfinished line away.
  void End();

 private:
  Where where_;
  bool colour_;
  std::string load_;
  load::TimeNs shown_ns_ = 0;    // when a plain line was written last
  load::TimeNs counted_ns_ = 0;  // since when the figures below count
  std::uint64_t ok_ = 0;
  std::uint64_t failed_ = 0;
  std::vector<load::TimeNs> latencies_;
};

}  // namespace gemmd::cli
