// L2 on one or two dies, DRAM behind it, the link between the dies: when a block that was asked for
// leaves L2, and how many bytes went where.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "kernels/workshop/model/lru_cache.h"
#include "kernels/workshop/model/machine.h"
#include "kernels/workshop/model/schedule.h"

namespace gemmd::model {

// Bytes since the start.
struct Traffic {
  double read = 0;       // that multiprocessors asked for
  double hit = 0;        // of these, there or on their way in L2 of the asking die
  double other_die = 0;  // of the rest, there in L2 of the other
  double from_memory = 0;
  double written = 0;    // by multiprocessors, which always hits
  double to_memory = 0;  // in the end: what L2 still has when it is added to counts once

  double HitRate() const { return (hit + written) / (read + written); }
  double MemoryBytes() const { return from_memory + to_memory; }
};

class MemorySystem {
 public:
  explicit MemorySystem(const Machine& machine);

  // The clock at which `block` has left L2 for a multiprocessor of `die` that asked at `now`.
  // `bytes` are the block's, `requested` those that the pair's requests add up to.
  // REQUIRES: calls come in order of `now`.
  double Read(double now, int die, std::size_t block, double bytes, double requested);

  // Stores are taken at once and go to memory when it has nothing to read, or when more than half
  // of L2 waits. A sum's old value is read again if L2 has lost it.
  void Write(double now, int die, std::size_t block, double bytes, Output output);

  const Traffic& traffic() const { return traffic_; }

 private:
  // Lets stores go in the time in which DRAM was idle.
  void AdvanceMemory(double now);
  // When `bytes` have come over the link to `die`.
  double CrossTo(int die, double now, double bytes);

  Machine machine_;
  std::vector<LruCache> caches_;               // of each die
  std::vector<std::vector<double>> arrivals_;  // of each die, each block
  std::array<double, 2> link_free_ = {};       // towards each die
  double memory_free_ = 0;
  double waiting_stores_ = 0;  // bytes
  Traffic traffic_;
};

}  // namespace gemmd::model
