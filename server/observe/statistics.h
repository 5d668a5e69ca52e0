// Counters over all requests since the server started. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "server/observe/receipt.h"
#include "sync/mutex.h"

namespace gemmd {

class Statistics {
 public:
  struct StageTotals {
    std::uint64_t count = 0;
    TimeNs sum = 0;
    TimeNs max = 0;
  };

  struct Snapshot {
    std::uint64_t received = 0;
    std::uint64_t admitted = 0;
    std::map<std::string, std::uint64_t> finished;  // by status code name
    std::uint64_t in_flight = 0;                    // received and not finished
    std::uint64_t payload_bytes_in = 0;             // of requests that finished OK
    std::uint64_t payload_bytes_out = 0;
    std::uint64_t shared_bytes_in = 0;
    std::uint64_t shared_bytes_out = 0;
    double flops = 0;
    std::array<StageTotals, kStageCount> stages{};  // of requests that finished OK
  };

  void RecordReceived();
  void RecordAdmitted();
  void RecordRefused(absl::StatusCode code);
  // OK, or why an admitted request failed; the receipt counts only with OK.
  void RecordFinished(absl::StatusCode code, const Receipt& receipt);

  Snapshot Read() const;

 private:
  void CountFinished(absl::StatusCode code) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable AdaptiveMutex mutex_;
  Snapshot totals_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd
