#include "kernels/workshop/model/pair_pipeline.h"

#include <algorithm>

namespace gemmd::model {
namespace {

// Bytes of a column of D in one block: 128 rows of f32.
constexpr double kColumnBytes = kBlockRows * 4;

}  // namespace

PairPipeline::PairPipeline(const Machine& machine, const KernelShape& shape,
                           const std::vector<WorkUnit>& units)
    : machine_(&machine),
      shape_(shape),
      units_(&units),
      stage_free_(static_cast<std::size_t>(shape.stages)) {}

double PairPipeline::IssueTime() const {
  return std::max(producer_free_, stage_free_[stage_ % stage_free_.size()]);
}

bool PairPipeline::Land(double ready) {
  const WorkUnit& unit = this->unit();
  KernelShape shape = shape_;
  shape.columns = unit.columns;

  // The producer's own clocks are spent once a stage.
  if (slabs_in_stage_ == 0) {
    producer_free_ = IssueTime() + machine_->producer_clocks;
  }
  const bool waited_for_port = ready <= port_free_;
  port_free_ = std::max(ready, port_free_) + shape.PortClocks(*machine_);

  double start = std::max(port_free_, product_end_);
  const double data_wait = start - product_end_;
  if (unit_ == 0 && slab_ == 0) {
    spent_.fill += data_wait;
  } else {
    (waited_for_port ? spent_.port : spent_.memory) += data_wait;
  }
  if (slab_ == 0) {
    const double shared = shape_.overlap > 0 ? shared_columns_free_ : 0;
    const double free = std::max(own_columns_free_[unit_ % 2], shared);
    spent_.accumulator += std::max(0.0, free - start);
    start = std::max(start, free);
  }
  // Staged stores and products share the banks evenly.
  const double tensor = shape.TensorClocks(*machine_);
  const double own_shared = shape.SharedClocks(*machine_);
  const double staging = std::min(staging_, own_shared);
  staging_ -= staging;
  const double units = std::max(tensor, own_shared + staging);
  const double clocks = std::max(units, shape.IssueClocks(*machine_));
  spent_.tensor += tensor;
  spent_.shared += units - tensor;
  spent_.issue += clocks - units;
  product_end_ = start + clocks;

  ++slab_;
  ++slabs_in_stage_;
  const bool is_last = slab_ == unit.slabs;
  if (is_last || slabs_in_stage_ == shape_.depth / kSlab) {
    stage_free_[stage_ % stage_free_.size()] = product_end_;
    ++stage_;
    slabs_in_stage_ = 0;
  }
  if (!is_last) return false;
  if (unit.partial_sums > 0) {
    is_deferred_ = true;
    epilogue_start_ = std::max(product_end_, epilogue_end_);
  } else {
    RunEpilogue(unit, std::max(product_end_, epilogue_end_));
  }
  ++unit_;
  slab_ = 0;
  return true;
}

void PairPipeline::RunEpilogue(const WorkUnit& unit, double start) {
  epilogue_start_ = start;
  double now = start;
  // The shared columns are read first.
  for (int column = 0; column < unit.columns;) {
    const int read = std::min(shape_.read_columns, unit.columns - column);
    now += read / machine_->columns_read_per_clock;
    column += read;
    if (column <= shape_.overlap) shared_columns_free_ = now;
    if (column == unit.columns) own_columns_free_[unit_ % 2] = now;
    const double stored = read * kColumnBytes / machine_->port_bytes_per_clock;
    if (shape_.store_buffers == 0) {
      now += stored;
      continue;
    }
    // Threads write a buffer before TMA reads it, or with two of them while it reads the other.
    const double staged = read * kColumnBytes / machine_->shared_bytes_per_clock;
    now += shape_.store_buffers == 1 ? stored + staged : std::max(stored, staged);
    staging_ += 2 * staged;
  }
  epilogue_end_ = now;
}

void PairPipeline::FinishDeferred(double partials) {
  const WorkUnit& unit = units_->back();
  const double loaded =
      unit.partial_sums * unit.columns * kColumnBytes / machine_->port_bytes_per_clock;
  RunEpilogue(unit, std::max(epilogue_start_, partials) + loaded);
}

}  // namespace gemmd::model
