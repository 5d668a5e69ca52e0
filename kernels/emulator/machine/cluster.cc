#include "kernels/emulator/machine/cluster.h"

#include "absl/strings/str_cat.h"
#include "kernels/emulator/machine/failure.h"
#include "kernels/emulator/machine/machine.h"

namespace gemmd::emulator {

std::uint32_t MapShared(std::uint32_t address, std::uint32_t rank, const CallSite& site) {
  const Cluster& cluster = *CurrentThread().block->cluster;
  if (rank >= cluster.blocks.size()) {
    Fail(Violation::kBadOperand, site,
         absl::StrCat("mapa: rank ", rank, " in a cluster of ", cluster.blocks.size()));
  }
  return (address & kOffsetMask) | (rank << kRankShift);
}

}  // namespace gemmd::emulator
