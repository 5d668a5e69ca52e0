#include "server/observe/statistics.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace gemmd {
namespace {

// The request's part of what the device computed for it.
double ComputeSeconds(const Receipt& receipt) {
  TimeNs busy = 0;
  for (const StageSpan& span : receipt.spans) {
    if (span.stage == Stage::kCompute) busy += span.end - span.start;
  }
  const double share =
      receipt.batch_flops > receipt.flops ? receipt.flops / receipt.batch_flops : 1;
  return static_cast<double>(busy) / 1e9 * share;
}

}  // namespace

Statistics::KernelTotals& Statistics::KernelTotals::operator+=(const KernelTotals& other) {
  requests += other.requests;
  flops += other.flops;
  compute_seconds += other.compute_seconds;
  joules += other.joules;
  return *this;
}

Statistics::TenantTotals& Statistics::TenantTotals::operator+=(const TenantTotals& other) {
  ok += other.ok;
  failed += other.failed;
  payload_bytes += other.payload_bytes;
  flops += other.flops;
  compute_seconds += other.compute_seconds;
  joules += other.joules;
  return *this;
}

void Statistics::RecordReceived() {
  const MutexLock lock(mutex_);
  ++totals_.received;
  ++totals_.in_flight;
}

void Statistics::RecordRefused(const absl::Status& why) { CountRefused(why.code(), CauseOf(why)); }

void Statistics::RecordRefused(absl::StatusCode code) { CountRefused(code, CauseOf(code)); }

void Statistics::CountRefused(absl::StatusCode code, RefusalCause cause) {
  const MutexLock lock(mutex_);
  CountFinished(code);
  ++totals_.refused[static_cast<std::size_t>(cause)];
}

void Statistics::RecordFinished(absl::StatusCode code, const Receipt& receipt) {
  const bool is_ok = code == absl::StatusCode::kOk;
  RecordByName(is_ok, receipt);
  if (is_ok && slow_ != nullptr && slow_->IsSlow(receipt)) slow_->Record(receipt);
  if (sink_ != nullptr) sink_->Take(code, receipt);
  const TimeNs duration = receipt.finish - receipt.arrival;
  const MutexLock lock(mutex_);
  CountFinished(code);
  if (!is_ok) return;
  totals_.payload_bytes_in += receipt.payload_bytes_in;
  totals_.payload_bytes_out += receipt.payload_bytes_out;
  totals_.shared_bytes_in += receipt.shared_bytes_in;
  totals_.shared_bytes_out += receipt.shared_bytes_out;
  totals_.flops += receipt.flops;
  totals_.durations.Add(duration);
  totals_.examples[DurationHistogram::BucketOf(duration)] = Example{receipt.request_id, duration};
  for (const StageSpan& span : receipt.spans) {
    StageTotals& stage = totals_.stages[static_cast<std::size_t>(span.stage)];
    ++stage.count;
    stage.sum += span.end - span.start;
    stage.max = std::max(stage.max, span.end - span.start);
    stage.durations.Add(span.end - span.start);
  }
}

void Statistics::RecordByName(bool is_ok, const Receipt& receipt) {
  if (!is_ok) {
    const MutexLock lock(names_mutex_);
    last_finish_ = std::max(last_finish_, receipt.finish);
    ++tenants_.At(receipt.tenant, last_finish_).failed;
    return;
  }
  const std::string product = absl::StrCat(ShapeOf(receipt), " ", receipt.types);
  const KernelTotals work = {1, receipt.flops, ComputeSeconds(receipt), receipt.joules.value_or(0)};
  const MutexLock lock(names_mutex_);
  last_finish_ = std::max(last_finish_, receipt.finish);
  TenantTotals& tenant = tenants_.At(receipt.tenant, last_finish_);
  ++tenant.ok;
  tenant.payload_bytes += receipt.payload_bytes_in + receipt.payload_bytes_out;
  tenant.flops += work.flops;
  tenant.compute_seconds += work.compute_seconds;
  tenant.joules += work.joules;
  kernels_.At(receipt.kernel, last_finish_) += work;
  products_.At(product, last_finish_) += work;
}

Statistics::Snapshot Statistics::Read() const {
  const MutexLock lock(mutex_);
  return totals_;
}

Statistics::ByName Statistics::ReadByName() const {
  const MutexLock lock(names_mutex_);
  return {kernels_.entries(), kernels_.rest(),    products_.entries(),
          products_.rest(),   tenants_.entries(), tenants_.rest()};
}

void Statistics::CountFinished(absl::StatusCode code) {
  ++totals_.finished[absl::StatusCodeToString(code)];
  --totals_.in_flight;
}

}  // namespace gemmd
