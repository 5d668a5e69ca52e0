// Plays a schedule on the machine, slab by slab of K: each pair's producer, ring of stages, tensor
// core and epilogue, and the L2 and DRAM that all pairs share. Deterministic.
//
// Events that touch memory are played in order of time; the rest of a pair is a chain that follows
// from them. Left out, because no source has it for Blackwell: the time from a kernel's launch to
// its first load, that of a signal between threads or blocks, and power, which lowers clocks.
#pragma once

#include "kernels/workshop/model/kernel_shape.h"
#include "kernels/workshop/model/machine.h"
#include "kernels/workshop/model/memory_system.h"
#include "kernels/workshop/model/schedule.h"

namespace gemmd::model {

// Where the clocks of all pairs went; they add up to pairs * clocks of the run.
struct Spent {
  double tensor = 0;       // products at the tensor core's own rate
  double shared = 0;       // products that waited for the banks of shared memory
  double issue = 0;        // products that waited for the thread that issues them
  double port = 0;         // waits for bytes that L2 had ready
  double memory = 0;       // waits for bytes that L2 did not have, or for its latency
  double accumulator = 0;  // waits for the epilogue to read tensor memory
  double fill = 0;         // before the first product
  double waves = 0;        // behind a pair's last product, while others have some
  double drain = 0;        // behind the last product of all
};

struct Result {
  double clocks = 0;
  Spent spent;
  Traffic traffic;
  double Seconds(const Machine& machine) const { return clocks / machine.ClockHz(); }
  double Teraflops(const Machine& machine, const Problem& problem) const {
    return 2.0 * problem.m * problem.n * problem.k / Seconds(machine) / 1e12;
  }
};

// REQUIRES: the shape has at least one stage; the schedule has one list for each pair.
Result Simulate(const Machine& machine, const KernelShape& shape, const Problem& problem,
                const Schedule& schedule);

}  // namespace gemmd::model
