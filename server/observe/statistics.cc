#include "server/observe/statistics.h"

#include <algorithm>

namespace gemmd {

void Statistics::RecordReceived() {
  const MutexLock lock(mutex_);
  ++totals_.received;
  ++totals_.in_flight;
}

void Statistics::RecordAdmitted() {
  const MutexLock lock(mutex_);
  ++totals_.admitted;
}

void Statistics::RecordRefused(absl::StatusCode code) {
  const MutexLock lock(mutex_);
  CountFinished(code);
}

void Statistics::RecordFinished(absl::StatusCode code, const Receipt& receipt) {
  const MutexLock lock(mutex_);
  CountFinished(code);
  if (code != absl::StatusCode::kOk) return;
  totals_.payload_bytes_in += receipt.payload_bytes_in;
  totals_.payload_bytes_out += receipt.payload_bytes_out;
  totals_.shared_bytes_in += receipt.shared_bytes_in;
  totals_.shared_bytes_out += receipt.shared_bytes_out;
  totals_.flops += receipt.flops;
  for (const StageSpan& span : receipt.spans) {
    StageTotals& stage = totals_.stages[static_cast<std::size_t>(span.stage)];
    ++stage.count;
    stage.sum += span.end - span.start;
    stage.max = std::max(stage.max, span.end - span.start);
  }
}

Statistics::Snapshot Statistics::Read() const {
  const MutexLock lock(mutex_);
  return totals_;
}

void Statistics::CountFinished(absl::StatusCode code) {
  ++totals_.finished[absl::StatusCodeToString(code)];
  --totals_.in_flight;
}

}  // namespace gemmd
