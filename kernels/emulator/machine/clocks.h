// Vector clocks: who knows how much of whom.
//
// Every agent that can make memory accesses (a thread, and each asynchronous engine: an mbarrier
// that bulk copies complete on, a warpgroup's tensor core, a thread's bulk stores) counts its own
// steps. A clock holds, for each agent, the last step whose effects the owner is known to follow.
// An access (agent, step) is ordered before whatever a clock's owner does next exactly where
// clock[agent] >= step.
//
// Lamport, "Time, clocks, and the ordering of events in a distributed system", 1978;
// Mattern, "Virtual time and global states of distributed systems", 1989.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace gemmd::emulator {

using Step = std::uint32_t;
using Agent = std::uint32_t;

// Steps of all agents; those beyond its size are 0.
class VectorClock {
 public:
  Step operator[](Agent agent) const { return agent < steps_.size() ? steps_[agent] : 0; }

  void Raise(Agent agent, Step step) {
    if (agent >= steps_.size()) steps_.resize(agent + 1, 0);
    steps_[agent] = std::max(steps_[agent], step);
  }

  void Join(const VectorClock& other) {
    if (other.steps_.size() > steps_.size()) steps_.resize(other.steps_.size(), 0);
    const Step* from = other.steps_.data();
    Step* to = steps_.data();
    for (std::size_t i = 0; i < other.steps_.size(); ++i) to[i] = std::max(to[i], from[i]);
  }

  void Clear() { std::fill(steps_.begin(), steps_.end(), 0); }

  // Makes the clock as if nothing were known of the agent.
  void Forget(Agent agent) {
    if (agent < steps_.size()) steps_[agent] = 0;
  }

 private:
  std::vector<Step> steps_;
};

// The steps that one thread knows to be over, once for each way of reaching memory. PTX ISA,
// "Memory Consistency Model: Proxies": an access through the generic proxy is seen by the async
// proxy (TMA, wgmma) only across a proxy fence.
struct Knowledge {
  VectorClock generic;
  // Generic-proxy accesses that a fence.proxy.async has passed on.
  VectorClock async_proxy;
  // mbarrier initialisations that a fence has passed on: a fence.mbarrier_init passes on
  // these alone, a fence.proxy.async both.
  VectorClock mbarrier_init;
  // Generic-proxy accesses to global memory that a fence.proxy.async of .global, or of no state
  // space, has passed on.
  VectorClock async_global;
  // Steps that are over, though their stores may not be visible: an arrival at the block's scope
  // tells other blocks no more. Steps in `generic` are not repeated.
  VectorClock finished;
  // griddepcontrol.wait is behind this thread (grid_dependency.h).
  bool preceding_grid = false;
  // Products and copies of tcgen05 in the order that they were issued in, over or not, as a
  // fence::before_thread_sync passes it on (tensor_memory.h).
  VectorClock tensor_order;

  // Returns whether a step is over: its reads are done, and its bulk copies have landed.
  bool IsFinished(Agent agent, Step step) const {
    return generic[agent] >= step || finished[agent] >= step;
  }

  void JoinFinished(const Knowledge& other) {
    finished.Join(other.generic);
    finished.Join(other.finished);
    tensor_order.Join(other.tensor_order);
  }

  void Join(const Knowledge& other) {
    generic.Join(other.generic);
    async_proxy.Join(other.async_proxy);
    mbarrier_init.Join(other.mbarrier_init);
    async_global.Join(other.async_global);
    finished.Join(other.finished);
    tensor_order.Join(other.tensor_order);
    preceding_grid = preceding_grid || other.preceding_grid;
  }

  void Clear() {
    generic.Clear();
    async_proxy.Clear();
    mbarrier_init.Clear();
    async_global.Clear();
    finished.Clear();
    tensor_order.Clear();
    preceding_grid = false;
  }
};

}  // namespace gemmd::emulator
