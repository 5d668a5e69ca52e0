// Operations that a warp or a warpgroup executes together.
//
// Every lane brings its operand and waits; the last one executes for all. As on a GPU,
// this orders no memory accesses: only a barrier does. Lanes that meet at different
// places of the source are a violation, since `.aligned` instructions demand
// convergence (PTX ISA, "Instruction Descriptions", the .aligned qualifier).
#pragma once

#include "absl/functional/function_ref.h"
#include "kernels/emulator/machine/call_site.h"
#include "kernels/emulator/machine/machine.h"

namespace gemmd::emulator {

[[noreturn]] void FailDiverged(const char* operation, const char* others,
                               const CallSite& others_site, const CallSite& site);

// Shared by Warp and Warpgroup, which both have arrived, operation and site.
template <typename Group>
void CheckConverged(Group& group, const char* operation, const CallSite& site) {
  if (group.arrived == 0) {
    group.operation = operation;
    group.site = site;
    return;
  }
  if (group.operation == operation && group.site == site) return;
  FailDiverged(operation, group.operation, group.site, site);
}

// Calls execute(operands) on the last of the 32 lanes to come; operands[lane] is what each gave.
// Inline as BlockCurrent() is.
template <typename F>
inline __attribute__((always_inline)) void WarpCollective(const char* operation, void* operand,
                                                          const CallSite& site, const F& execute) {
  Thread& thread = CurrentThread();
  Warp& warp = *thread.warp;
  CheckConverged(warp, operation, site);
  warp.operand[thread.lane] = operand;
  if (++warp.arrived < kWarpSize) {
    BlockCurrent({operation, site});
    return;
  }
  warp.arrived = 0;
  ++CurrentGrid().report.statistics.warp_collectives;
  execute(static_cast<void* const*>(warp.operand.data()));
  for (Thread* lane = &thread - thread.lane; lane < &thread - thread.lane + kWarpSize; ++lane) {
    Wake(*lane);
  }
}

// Calls execute(group) on the last of a warpgroup's 128 threads to come; group.operand[i] is what
// thread i gave. A warpgroup is four warps, the first a multiple of 4.
void WarpgroupCollective(const char* operation, void* operand, const CallSite& site,
                         absl::FunctionRef<void(Warpgroup& group)> execute);

// The running thread's warpgroup, and its threads in order.
Warpgroup& CurrentWarpgroup();
Thread& WarpgroupThread(std::uint32_t i);

}  // namespace gemmd::emulator
