#include "server/device/slices.h"

#include <algorithm>

namespace gemmd {
namespace {

// Rows and columns of every block but the last ones.
struct BlockSize {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

// One product as it is cut.
class Cutter {
 public:
  Cutter(const Problem& problem, const Plan& plan, const DeviceTraits& traits,
         const SliceSteps& steps)
      : problem_(problem),
        plan_(plan),
        traits_(traits),
        steps_{std::max(steps.rows, PanelRowStep(problem)),
               std::max(steps.columns, PanelColumnStep(problem)), steps.one_dimension} {
    const double predicted = plan.kernel->PredictedUs(problem, plan.config, traits);
    scale_ = predicted > 0 ? plan.predicted_us / predicted : 1;
  }

  // The prediction is for planes of the block's own: what lies between a block's lines is not read.
  double PredictedUs(const BlockSize& size) const {
    Problem part = PanelProblem(problem_, {0, size.rows, 0, size.columns});
    for (MatrixLayout* layout : {&part.a, &part.b, &part.c, &part.d}) {
      layout->leading_dimension = layout->inner();
    }
    return scale_ * plan_.kernel->PredictedUs(part, plan_.config, traits_);
  }
  // Predicted time of all blocks together.
  double TotalUs(const BlockSize& size) const {
    const std::int64_t blocks = ((problem_.m + size.rows - 1) / size.rows) *
                                ((problem_.n + size.columns - 1) / size.columns);
    return PredictedUs(size) * static_cast<double>(blocks);
  }

  // Returns whether the kernel takes the blocks, and computes the bits that the whole would have.
  bool IsAllowed(const BlockSize& size) const {
    const Kernel& kernel = *plan_.kernel;
    const std::vector<Panel> blocks = Blocks(size);
    for (const Panel& block : {blocks.front(), blocks.back()}) {
      const Problem part = PanelProblem(problem_, block);
      if (!kernel.Rejection(part).empty()) return false;
      if (kernel.traits().determinism == Determinism::kFast) continue;
      if (kernel.NumericsId(part) != plan_.numerics_id) return false;
    }
    return true;
  }

  std::vector<Panel> Blocks(const BlockSize& size) const {
    std::vector<Panel> blocks;
    // Neighbouring blocks share columns of B.
    for (std::int64_t n = 0; n < problem_.n; n += size.columns) {
      for (std::int64_t m = 0; m < problem_.m; m += size.rows) {
        blocks.push_back(
            {m, std::min(problem_.m, m + size.rows), n, std::min(problem_.n, n + size.columns)});
      }
    }
    return blocks;
  }

  // The largest blocks within the limit, else the largest of the quickest, along one dimension:
  // blocks smaller than keeps the device busy take no less time.
  BlockSize CutRows(const BlockSize& whole, double limit_us) const {
    BlockSize best = whole;
    std::int64_t count = 1;
    for (BlockSize size = whole; PredictedUs(best) > limit_us && size.rows > steps_.rows;) {
      size.rows = NextSize(problem_.m, steps_.rows, size.rows, &count);
      if (PredictedUs(size) < PredictedUs(best)) best = size;
    }
    return best;
  }
  BlockSize CutColumns(const BlockSize& whole, double limit_us) const {
    BlockSize best = whole;
    std::int64_t count = 1;
    for (BlockSize size = whole; PredictedUs(best) > limit_us && size.columns > steps_.columns;) {
      size.columns = NextSize(problem_.n, steps_.columns, size.columns, &count);
      if (PredictedUs(size) < PredictedUs(best)) best = size;
    }
    return best;
  }

 private:
  // The next smaller size of even blocks.
  static std::int64_t NextSize(std::int64_t whole, std::int64_t step, std::int64_t size,
                               std::int64_t* count) {
    std::int64_t next = size;
    while (next >= size) {
      ++*count;
      next = ((whole + *count - 1) / *count + step - 1) / step * step;
    }
    return next;
  }

  const Problem& problem_;
  const Plan& plan_;
  const DeviceTraits& traits_;
  const SliceSteps steps_;
  double scale_ = 1;
};

}  // namespace

std::vector<Panel> CutIntoSlices(const Problem& problem, const Plan& plan,
                                 const DeviceTraits& traits, const SliceSteps& steps,
                                 double slice_us) {
  if (plan.predicted_us <= slice_us) return {};
  const Cutter cutter(problem, plan, traits, steps);
  const BlockSize whole{problem.m, problem.n};
  const BlockSize by_rows = cutter.CutRows(whole, slice_us);
  const BlockSize by_columns = cutter.CutColumns(whole, slice_us);
  const BlockSize by_both = steps.one_dimension ? by_rows : cutter.CutColumns(by_rows, slice_us);
  const BlockSize* best = nullptr;
  double best_excess = 0;
  double best_total = 0;
  for (const BlockSize* size : {&by_rows, &by_columns, &by_both}) {
    if (cutter.Blocks(*size).size() < 2 || !cutter.IsAllowed(*size)) continue;
    const double excess = std::max(0.0, cutter.PredictedUs(*size) - slice_us);
    const double total = cutter.TotalUs(*size);
    if (best != nullptr &&
        (excess > best_excess || (excess == best_excess && total >= best_total))) {
      continue;
    }
    best = size;
    best_excess = excess;
    best_total = total;
  }
  return best == nullptr ? std::vector<Panel>() : cutter.Blocks(*best);
}

}  // namespace gemmd
