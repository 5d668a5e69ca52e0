// The parts that the files of tcgen05 share: addresses, groups of blocks, the engines' steps.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/emulator/instructions/tensor_memory.h"
#include "kernels/emulator/machine/call_site.h"
#include "kernels/emulator/machine/machine.h"

namespace gemmd::emulator {

struct TensorAddress {
  std::uint32_t lane;
  std::uint32_t column;
};
inline TensorAddress SplitTensorAddress(std::uint32_t address) {
  return {address >> kTensorLaneShift, address & ((1u << kTensorLaneShift) - 1)};
}

// Ends the launch unless the lane is 0 or, where D has half of the lanes, 16.
void CheckTensorLane(const TensorAddress& at, bool is_half, const char* what, const CallSite& site);

// Ends the launch where the kernel has said another .cta_group, there is no pair, or the other
// block of it may not have started.
void CheckTensorGroup(std::uint32_t group, const char* what, const CallSite& site);

// This block, or those of its pair, even rank first.
std::vector<Block*> BlocksOfGroup(std::uint32_t group);

// The engine's agent, which it gets when it is first used.
Agent AgentOf(TensorEngine& engine);

void DropLanded(std::vector<OperationId>* operations);

// Returns the step of a product or copy that the thread issues; those that follow are ordered after
// it.
Step IssueProduct(Thread& thread);

// The number of that accumulator in the first block of its group, TensorCell::accumulator.
std::uint16_t FindAccumulator(Block& block, const Accumulator& accumulator);

// Posts what a product of the running thread does, behind all copies to the first block of its
// group and behind the products before it of the same accumulator.
void PostProduct(Block& first, std::uint16_t accumulator, std::function<void()> land);

}  // namespace gemmd::emulator
