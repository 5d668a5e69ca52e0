#include "server/device/partial_executor.h"

#include <algorithm>

#include "base/math.h"

namespace gemmd {

void PartialExecutor::Begin(int first, int end, const std::atomic<bool>* is_over) {
  first_ = first;
  end_ = end;
  is_over_ = is_over;
  next_loop_ = 0;
  has_stopped_ = false;
}

std::int64_t PartialExecutor::EndOf(int parts, std::int64_t count) const {
  const std::int64_t indices = CeilOfRatio(count * parts, std::int64_t{parts_});
  return std::min(count, RoundUp(indices, std::int64_t{workers()}));
}

int PartialExecutor::parts_done() const {
  if (!has_stopped_) return parts_;
  int done = first_ + 1;
  const Loop& last = loops_.back();
  while (done + 1 < parts_ && EndOf(done + 1, last.count) <= last.done) ++done;
  return done;
}

void PartialExecutor::Run(std::int64_t count,
                          absl::FunctionRef<void(int worker, std::int64_t index)> body) {
  const std::size_t place = next_loop_++;
  if (place == loops_.size()) loops_.push_back({count, 0});
  if (has_stopped_) return;
  Loop& loop = loops_[place];
  // Loops that others are known to follow go to their end, because those cannot begin before.
  const bool is_last = place + 1 == loops_.size();
  const std::int64_t least = EndOf(first_ + 1, count);
  const std::int64_t most = is_last ? EndOf(end_, count) : count;
  std::atomic<std::int64_t> next{loop.done};
  // Those that were taken are always the first ones.
  const auto take = [&](std::int64_t* index) {
    *index = next.load(std::memory_order_relaxed);
    do {
      if (*index >= most) return false;
      if (*index >= least && is_over_ != nullptr && is_over_->load(std::memory_order_relaxed)) {
        return false;
      }
    } while (!next.compare_exchange_weak(*index, *index + 1, std::memory_order_relaxed));
    return true;
  };
  executor_->Run(std::min<std::int64_t>(workers(), most - loop.done),
                 [&](int worker, std::int64_t) {
                   for (std::int64_t index; take(&index);) body(worker, index);
                 });
  loop.done = next;
  has_stopped_ = loop.done < count;
}

}  // namespace gemmd
