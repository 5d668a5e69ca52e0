#include "kernels/emulator/collectives.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/failure.h"

namespace gemmd::emulator {
namespace {

// Shared by Warp and Warpgroup, which both have arrived, operation and site.
template <typename Group>
void CheckConverged(Group& group, const char* operation, const CallSite& site) {
  if (group.arrived == 0) {
    group.operation = operation;
    group.site = site;
    return;
  }
  if (group.operation == operation && group.site == site) return;
  Fail(Violation::kDivergedCollective, site,
       absl::StrCat(operation, " while others of the same group are at ", group.operation,
                    " of line ", group.site.line));
}

}  // namespace

void WarpCollective(const char* operation, void* operand, const CallSite& site,
                    absl::FunctionRef<void(void* const* operands)> execute) {
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
  execute(warp.operand.data());
  for (std::uint32_t lane = 0; lane < kWarpSize; ++lane) {
    Wake(thread.block->cluster->threads[warp.first_agent + lane]);
  }
}

void WarpgroupCollective(const char* operation, void* operand, const CallSite& site,
                         absl::FunctionRef<void(Warpgroup& group)> execute) {
  Warpgroup& group = CurrentWarpgroup();
  CheckConverged(group, operation, site);
  group.operand[CurrentThread().index % kWarpgroupSize] = operand;
  if (++group.arrived < kWarpgroupSize) {
    BlockCurrent({operation, site});
    return;
  }
  group.arrived = 0;
  execute(group);
  for (std::uint32_t i = 0; i < kWarpgroupSize; ++i) Wake(WarpgroupThread(i));
}

Warpgroup& CurrentWarpgroup() {
  Thread& thread = CurrentThread();
  Block& block = *thread.block;
  Warpgroup& group = block.warpgroups[thread.index / kWarpgroupSize];
  if (!group.has_agent) {
    group.has_agent = true;
    group.agent = NewAgent(*block.cluster);
  }
  return group;
}

Thread& WarpgroupThread(std::uint32_t i) {
  Thread& thread = CurrentThread();
  return thread.block->cluster->threads[thread.agent - thread.index % kWarpgroupSize + i];
}

}  // namespace gemmd::emulator
