#include "server/rpc/oip/model_totals.h"

#include <algorithm>

#include "server/rpc/oip/infer_model.h"

namespace gemmd {
namespace {

std::uint64_t* PartOf(Stage stage, ModelTotals::Row* row) {
  switch (stage) {
    case Stage::kAdmission:
    case Stage::kQueue:
      return &row->queue_ns;
    case Stage::kDecode:
    case Stage::kReceive:
    case Stage::kCopyIn:
      return &row->input_ns;
    case Stage::kCompute:
    case Stage::kVerify:
      return &row->infer_ns;
    case Stage::kCopyOut:
    case Stage::kEncode:
      break;
  }
  return &row->output_ns;
}

void Set(std::uint64_t count, std::uint64_t ns, inference::StatisticDuration* to) {
  to->set_count(count);
  to->set_ns(ns);
}

}  // namespace

void ModelTotals::RecordSuccess(const std::string& tenant, const std::string& model,
                                const Receipt& receipt, std::uint64_t unix_ms) {
  const Attribution attribution = Attribute(receipt);
  const MutexLock lock(mutex_);
  Row& row = RowOf(tenant, model, receipt.launch);
  row.last_inference_ms = unix_ms;
  ++row.success.count;
  row.success.ns += static_cast<std::uint64_t>(attribution.total);
  for (std::size_t i = 0; i < receipt.spans.size(); ++i) {
    *PartOf(receipt.spans[i].stage, &row) += static_cast<std::uint64_t>(attribution.exposed[i]);
  }
}

void ModelTotals::RecordFailure(const std::string& tenant, const std::string& model,
                                TimeNs duration) {
  const MutexLock lock(mutex_);
  Row& row = RowOf(tenant, model, 0);
  ++row.fail.count;
  row.fail.ns += static_cast<std::uint64_t>(std::max<TimeNs>(0, duration));
}

ModelTotals::Row ModelTotals::Read(const std::string& tenant, const std::string& model) const {
  const MutexLock lock(mutex_);
  const auto found = entries_.find({tenant, model});
  return found == entries_.end() ? Row() : found->second.row;
}

std::map<std::string, ModelTotals::Row> ModelTotals::ReadAll(const std::string& tenant) const {
  std::map<std::string, Row> rows;
  const MutexLock lock(mutex_);
  for (auto it = entries_.lower_bound({tenant, ""});
       it != entries_.end() && it->first.first == tenant; ++it) {
    rows.emplace(it->first.second, it->second.row);
  }
  return rows;
}

ModelTotals::Row& ModelTotals::RowOf(const std::string& tenant, const std::string& model,
                                     std::uint64_t launch) {
  Key key(tenant, model);
  auto found = entries_.find(key);
  if (found == entries_.end()) {
    MakeRoomLocked(tenant);
    found = entries_.emplace(key, Entry()).first;
    found->second.use = uses_.insert(uses_.end(), std::move(key));
    ++tenants_[tenant];
  } else {
    uses_.splice(uses_.end(), uses_, found->second.use);
  }
  Entry& entry = found->second;
  auto& launches = entry.launches;
  if (launch != 0 && std::find(launches.begin(), launches.end(), launch) == launches.end()) {
    launches[entry.row.launches++ % kRecentLaunches] = launch;
  }
  return entry.row;
}

void ModelTotals::MakeRoomLocked(const std::string& tenant) {
  const auto own = tenants_.find(tenant);
  if (own != tenants_.end() && own->second >= bounds_.tenant_rows) {
    EvictLocked(*std::find_if(uses_.begin(), uses_.end(),
                              [&tenant](const Key& each) { return each.first == tenant; }));
  }
  if (entries_.size() >= bounds_.rows) EvictLocked(uses_.front());
}

void ModelTotals::EvictLocked(const Key& key) {
  const auto found = entries_.find(key);
  const auto own = tenants_.find(key.first);
  if (--own->second == 0) tenants_.erase(own);
  uses_.erase(found->second.use);  // `key` may be the element
  entries_.erase(found);
}

inference::ModelStatistics EncodeStatistics(const std::string& model, const ModelTotals::Row& row) {
  inference::ModelStatistics wire;
  wire.set_name(model);
  wire.set_version(std::string(kModelVersion));
  wire.set_last_inference(row.last_inference_ms);
  wire.set_inference_count(row.success.count);
  wire.set_execution_count(row.launches);
  inference::InferStatistics& totals = *wire.mutable_inference_stats();
  Set(row.success.count, row.success.ns, totals.mutable_success());
  Set(row.fail.count, row.fail.ns, totals.mutable_fail());
  Set(row.success.count, row.queue_ns, totals.mutable_queue());
  Set(row.success.count, row.input_ns, totals.mutable_compute_input());
  Set(row.success.count, row.infer_ns, totals.mutable_compute_infer());
  Set(row.success.count, row.output_ns, totals.mutable_compute_output());
  Set(0, 0, totals.mutable_cache_hit());
  Set(0, 0, totals.mutable_cache_miss());
  return wire;
}

}  // namespace gemmd
