#include "kernels/workshop/model/simulation.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <tuple>
#include <vector>

#include "kernels/workshop/model/pair_pipeline.h"

namespace gemmd::model {
namespace {

// Numbers of blocks in L2: slabs of rows of A, of columns of B, and tiles of D.
class BlockNumbers {
 public:
  BlockNumbers(const Problem& problem, const Schedule& schedule) : slabs_(problem.Slabs()) {
    for (const std::vector<WorkUnit>& units : schedule.of_pair) {
      for (const WorkUnit& unit : units) {
        granule_ = std::gcd(granule_, std::gcd(unit.columns, unit.column));
        rows_ = std::max(rows_, unit.row / kTileRows + 1);
        columns_ = std::max(columns_, unit.column + unit.columns);
      }
    }
  }
  int granule() const { return granule_; }
  std::size_t OfA(int row, int slab) const {
    return static_cast<std::size_t>(row) / kTileRows * slabs_ + slab;
  }
  std::size_t OfB(int column, int slab) const {
    return static_cast<std::size_t>(rows_ + column / granule_) * slabs_ + slab;
  }
  std::size_t OfD(int row, int column) const {
    const int across = columns_ / granule_;
    return static_cast<std::size_t>(rows_ + across) * slabs_ +
           static_cast<std::size_t>(row) / kTileRows * across + column / granule_;
  }

 private:
  int slabs_;
  int rows_ = 0;
  int columns_ = 0;
  int granule_ = 0;
};

struct Event {
  double time;
  std::size_t pair;
  bool is_store;
  const WorkUnit* stored;                     // where is_store
  bool operator<(const Event& other) const {  // the earliest is the greatest
    return std::tie(time, pair, is_store) > std::tie(other.time, other.pair, other.is_store);
  }
};

class Run {
 public:
  Run(const Machine& machine, const KernelShape& shape, const Problem& problem,
      const Schedule& schedule)
      : machine_(machine), shape_(shape), numbers_(problem, schedule), memory_(machine) {
    for (const std::vector<WorkUnit>& units : schedule.of_pair) {
      pairs_.emplace_back(machine, shape, units);
      if (!units.empty())
        events_.push({pairs_.back().IssueTime(), pairs_.size() - 1, false, nullptr});
    }
    partial_ends_.resize(pairs_.size());
  }

  Result Play() {
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      if (event.is_store) {
        Store(event);
      } else {
        Load(event);
      }
    }
    FinishDeferred();
    return Sum();
  }

 private:
  int DieOf(std::size_t pair) const { return machine_.DieOfPair(static_cast<int>(pair)); }

  void Load(const Event& event) {
    PairPipeline& pair = pairs_[event.pair];
    const WorkUnit& unit = pair.unit();
    const int slab = pair.slab();
    const int die = DieOf(event.pair);
    constexpr int kScales = kSlab / kScaleBlock;
    const double a_bytes = kTileRows * (kSlab + kScales);
    double ready = memory_.Read(event.time, die, numbers_.OfA(unit.row, slab), a_bytes, a_bytes);
    const int granule = numbers_.granule();
    for (int column = unit.column; column < unit.column + unit.columns; column += granule) {
      const double bytes = granule * (kSlab + kScales);
      const double requested = bytes + (shape_.multicasts_scales ? 0 : granule * kScales);
      ready = std::max(ready,
                       memory_.Read(event.time, die, numbers_.OfB(column, slab), bytes, requested));
    }
    if (pair.Land(ready) && !pair.is_deferred()) {
      events_.push({pair.epilogue_start(), event.pair, true, &unit});
      if (unit.output == Output::kPartial) partial_ends_[event.pair] = pair.epilogue_end();
    }
    if (!pair.IsDone()) events_.push({pair.IssueTime(), event.pair, false, nullptr});
  }

  void Store(const Event& event) {
    const WorkUnit& unit = *event.stored;
    memory_.Write(event.time, DieOf(event.pair), numbers_.OfD(unit.row, unit.column),
                  4.0 * kTileRows * unit.columns, unit.output);
  }

  // Epilogues that wait for partial sums are the last of their pairs.
  void FinishDeferred() {
    for (std::size_t at = 0; at < pairs_.size(); ++at) {
      PairPipeline& pair = pairs_[at];
      if (!pair.is_deferred()) continue;
      const WorkUnit& unit = pair.last_unit();
      double partials = 0;
      for (int other = 1; other <= unit.partial_sums; ++other) {
        partials = std::max(partials, partial_ends_[at + static_cast<std::size_t>(other)]);
      }
      pair.FinishDeferred(partials);
      memory_.Write(pair.epilogue_start(), DieOf(at), numbers_.OfD(unit.row, unit.column),
                    4.0 * kTileRows * unit.columns, unit.output);
    }
  }

  Result Sum() const {
    Result result;
    double last_product = 0;
    for (const PairPipeline& pair : pairs_) {
      result.clocks = std::max(result.clocks, pair.epilogue_end());
      last_product = std::max(last_product, pair.last_product());
    }
    Spent& sum = result.spent;
    for (const PairPipeline& pair : pairs_) {
      const Spent& spent = pair.spent();
      sum.tensor += spent.tensor;
      sum.shared += spent.shared;
      sum.issue += spent.issue;
      sum.port += spent.port;
      sum.memory += spent.memory;
      sum.accumulator += spent.accumulator;
      sum.fill += spent.fill;
      sum.waves += last_product - pair.last_product();
      sum.drain += result.clocks - last_product;
    }
    result.traffic = memory_.traffic();
    return result;
  }

  const Machine& machine_;
  const KernelShape& shape_;
  BlockNumbers numbers_;
  MemorySystem memory_;
  std::vector<PairPipeline> pairs_;
  std::vector<double> partial_ends_;
  std::priority_queue<Event> events_;
};

}  // namespace

Result Simulate(const Machine& machine, const KernelShape& shape, const Problem& problem,
                const Schedule& schedule) {
  return Run(machine, shape, problem, schedule).Play();
}

}  // namespace gemmd::model
