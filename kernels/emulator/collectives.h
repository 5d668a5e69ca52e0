// Operations that a warp or a warpgroup executes together.
//
// Every lane brings its operand and waits; the last one executes for all. As on a GPU,
// this orders no memory accesses: only a barrier does. Lanes that meet at different
// places of the source are a violation, since `.aligned` instructions demand
// convergence (PTX ISA, "Instruction Descriptions", the .aligned qualifier).
#pragma once

#include "absl/functional/function_ref.h"
#include "kernels/emulator/call_site.h"
#include "kernels/emulator/machine.h"

namespace gemmd::emulator {

// Calls execute(operands) on the last of the 32 lanes; operands[lane] is what each gave.
void WarpCollective(const char* operation, void* operand, const CallSite& site,
                    absl::FunctionRef<void(void* const* operands)> execute);

// The same for the 128 threads of a warpgroup: four warps, the first a multiple of 4.
void WarpgroupCollective(const char* operation, void* operand, const CallSite& site,
                         absl::FunctionRef<void(Warpgroup& group)> execute);

// The running thread's warpgroup, and its threads in order.
Warpgroup& CurrentWarpgroup();
Thread& WarpgroupThread(std::uint32_t i);

}  // namespace gemmd::emulator
