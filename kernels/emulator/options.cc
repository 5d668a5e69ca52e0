#include "kernels/emulator/options.h"

#include <algorithm>

namespace gemmd::emulator {

const char* Name(Violation violation) {
  switch (violation) {
    case Violation::kNone:
      return "none";
    case Violation::kBadLaunch:
      return "bad launch";
    case Violation::kOutOfBounds:
      return "out of bounds";
    case Violation::kMisaligned:
      return "misaligned";
    case Violation::kReadOnly:
      return "write to read-only memory";
    case Violation::kUnwritten:
      return "read of unwritten memory";
    case Violation::kNotLanded:
      return "bytes not yet landed";
    case Violation::kRace:
      return "race";
    case Violation::kMissingFence:
      return "missing fence";
    case Violation::kMbarrierProtocol:
      return "mbarrier protocol";
    case Violation::kBarrierMismatch:
      return "barrier mismatch";
    case Violation::kDivergedCollective:
      return "diverged collective";
    case Violation::kBadOperand:
      return "bad operand";
    case Violation::kUnfinished:
      return "unfinished work";
    case Violation::kDeadlock:
      return "deadlock";
    case Violation::kNoProgress:
      return "no progress";
  }
  return "";
}

int Statistics::worst_bank_ways() const {
  int worst = 0;
  for (const auto& [site, use] : banks) worst = std::max(worst, use.worst_ways);
  return worst;
}

std::uint64_t Statistics::extra_wavefronts() const {
  std::uint64_t sum = 0;
  for (const auto& [site, use] : banks) sum += use.extra_wavefronts;
  return sum;
}

}  // namespace gemmd::emulator
