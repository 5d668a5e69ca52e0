#include "kernels/emulator/machine/collectives.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/machine/failure.h"

namespace gemmd::emulator {
void FailDiverged(const char* operation, const char* others, const CallSite& others_site,
                  const CallSite& site) {
  Fail(Violation::kDivergedCollective, site,
       absl::StrCat(operation, " while others of the same group are at ", others, " of line ",
                    others_site.line));
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
