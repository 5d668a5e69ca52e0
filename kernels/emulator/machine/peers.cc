#include "kernels/emulator/machine/peers.h"

#include "absl/strings/str_cat.h"
#include "kernels/emulator/machine/failure.h"

namespace gemmd::emulator {

void CheckStarted(const Block& block, const char* what, const CallSite& site) {
  const Thread& thread = CurrentThread();
  if (thread.block == &block || !CurrentGrid().options.check_order) return;
  const Cluster& cluster = *block.cluster;
  const auto threads = static_cast<Agent>(cluster.threads.size() / cluster.blocks.size());
  for (Agent agent = block.rank * threads; agent < (block.rank + 1) * threads; ++agent) {
    if (thread.knows.IsFinished(agent, 1)) return;
  }
  Fail(Violation::kRace, site,
       absl::StrCat(what, " reaches the block of rank ", block.rank,
                    ", which may not have started: no cluster barrier before this"));
}

}  // namespace gemmd::emulator
