// A file of every request of a run, for people who compute figures of their own.
#pragma once

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/load/load_generator.h"

namespace gemmd::load {

// CSV with a header where the path ends in .csv, a JSON object a line where it ends in .jsonl. Not
// thread-safe.
class SampleFile {
 public:
  // INVALID_ARGUMENT where the path ends otherwise; errors begin with the path.
  static absl::StatusOr<std::unique_ptr<SampleFile>> Create(const std::string& path);

  // Appends the requests of one load, in the order in which they were due. `load` is its name in
  // reports, `entries` are the workload's.
  absl::Status Add(const std::string& load, const LoadRun& run,
                   const std::vector<std::string>& entries);

 private:
  SampleFile(std::string path, bool is_csv);

  const std::string path_;
  const bool is_csv_;
  std::ofstream file_;
};

}  // namespace gemmd::load
