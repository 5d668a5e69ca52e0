#include "kernels/workshop/model/memory_system.h"

#include <algorithm>

namespace gemmd::model {

MemorySystem::MemorySystem(const Machine& machine)
    : machine_(machine),
      caches_(static_cast<std::size_t>(machine.dies), LruCache(machine.l2_bytes / machine.dies)),
      arrivals_(static_cast<std::size_t>(machine.dies)) {}

void MemorySystem::AdvanceMemory(double now) {
  if (now <= memory_free_) return;
  const double drained = (now - memory_free_) * machine_.MemoryBytesPerClock();
  waiting_stores_ = std::max(0.0, waiting_stores_ - drained);
  memory_free_ = now;
}

double MemorySystem::CrossTo(int die, double now, double bytes) {
  double& free = link_free_[static_cast<std::size_t>(die)];
  free = std::max(free, now) + bytes / machine_.LinkBytesPerClock();
  return free;
}

double MemorySystem::Read(double now, int die, std::size_t block, double bytes, double requested) {
  const auto here = static_cast<std::size_t>(die);
  const std::size_t there = caches_.size() - 1 - here;
  std::vector<double>& arrivals = arrivals_[here];
  if (block >= arrivals.size()) arrivals.resize(block + block / 2 + 1);
  traffic_.read += requested;
  double ready = now;
  if (caches_[here].Has(block)) {
    traffic_.hit += requested;
    ready = std::max(now, arrivals[block]);
  } else {
    // The second of two requests for the same bytes finds them.
    traffic_.hit += requested - bytes;
    if (there != here && caches_[there].Has(block)) {
      traffic_.other_die += bytes;
      ready = std::max(CrossTo(die, now, bytes), arrivals_[there][block]);
    } else {
      traffic_.from_memory += bytes;
      AdvanceMemory(now);
      memory_free_ += bytes / machine_.MemoryBytesPerClock();
      ready = memory_free_;
      // Half of all addresses belong to the other die's memory.
      if (there != here) ready = std::max(ready, CrossTo(die, now, bytes / 2));
      ready += machine_.memory_latency;
    }
    arrivals[block] = ready;
  }
  caches_[here].Use(block, bytes);
  return ready + machine_.l2_latency;
}

void MemorySystem::Write(double now, int die, std::size_t block, double bytes, Output output) {
  AdvanceMemory(now);
  traffic_.written += bytes;
  if (caches_.size() == 2) CrossTo(1 - die, now, bytes / 2);
  const bool is_there = caches_[0].Has(block);
  // Each die keeps the half of D that belongs to its memory.
  const double share = bytes / static_cast<double>(caches_.size());
  for (LruCache& cache : caches_) cache.Use(block, share);
  // A workspace is small and is read at once.
  if (output == Output::kPartial || (output == Output::kAdd && is_there)) return;
  if (output == Output::kAdd) {
    traffic_.from_memory += bytes;
    memory_free_ += bytes / machine_.MemoryBytesPerClock();
  }
  traffic_.to_memory += bytes;
  waiting_stores_ += bytes;
  const double excess = waiting_stores_ - machine_.l2_bytes / 2;
  if (excess > 0) {
    memory_free_ += excess / machine_.MemoryBytesPerClock();
    waiting_stores_ -= excess;
  }
}

}  // namespace gemmd::model
