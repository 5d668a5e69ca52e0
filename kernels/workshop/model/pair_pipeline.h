// One pair of blocks: the chain from a slab's arrival to the tensor core and on to the epilogue.
// Times are in clocks. Both blocks of a pair do the same, so one stands for both.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/workshop/model/simulation.h"

namespace gemmd::model {

class PairPipeline {
 public:
  PairPipeline(const Machine& machine, const KernelShape& shape,
               const std::vector<WorkUnit>& units);

  bool IsDone() const { return unit_ == units_->size(); }
  const WorkUnit& unit() const { return (*units_)[unit_]; }
  int slab() const { return unit().first_slab + slab_; }

  // When the producer asks for the next slab. REQUIRES: !IsDone().
  double IssueTime() const;

  // The slab asked for at IssueTime() has left L2 at `ready`: it arrives and is multiplied. True if
  // it was its unit's last.
  bool Land(double ready);

  // The start of the epilogue of the unit that Land() ended.
  double epilogue_start() const { return epilogue_start_; }
  double epilogue_end() const { return epilogue_end_; }
  double last_product() const { return product_end_; }
  bool is_deferred() const { return is_deferred_; }
  const WorkUnit& last_unit() const { return units_->back(); }
  // The last unit's epilogue waited until `partials` for other pairs' sums, and adds them.
  void FinishDeferred(double partials);

  const Spent& spent() const { return spent_; }

 private:
  void RunEpilogue(const WorkUnit& unit, double start);

  const Machine* machine_;
  KernelShape shape_;
  const std::vector<WorkUnit>* units_;

  std::size_t unit_ = 0;
  int slab_ = 0;
  std::size_t stage_ = 0;           // number of the stage being filled
  int slabs_in_stage_ = 0;          // of it, asked for
  std::vector<double> stage_free_;  // when the products of the last use of each slot ended
  double producer_free_ = 0;
  double port_free_ = 0;
  double product_end_ = 0;
  double staging_ = 0;  // clocks of shared memory that staged stores still need

  double shared_columns_free_ = 0;  // those of both accumulators
  double own_columns_free_[2] = {0, 0};
  double epilogue_start_ = 0;
  double epilogue_end_ = 0;
  bool is_deferred_ = false;
  Spent spent_;
};

}  // namespace gemmd::model
