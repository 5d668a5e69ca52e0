// Every wait, fence, barrier, arrival and commit of ladder C is needed by one of its steps.
#include <string>

#include "kernels/workshop/blackwell_bf16/ladder_c_launch.h"
#include "tests/kernels/emulator/deletions.h"
#include "tests/kernels/workshop/blackwell_bf16/ladder_c_run.h"

namespace gemmd::testing {
namespace {

template <class Step>
std::string Wrong(const BlackwellCase& each, const emulator::Options& options) {
  return RunBlackwell(blackwell_bf16::LaunchLadderC<Step>, each, options);
}

DeletionCheck LadderC() {
  return {{"kernels/workshop/blackwell_bf16/ladder_c.h"},
          {},
          // A tile of D that TMA stores and one that threads do; three tiles of K.
          RunsOf<BlackwellCase>({Wrong<blackwell_bf16::C2>, Wrong<blackwell_bf16::C3>,
                                 Wrong<blackwell_bf16::C4>, Wrong<blackwell_bf16::C4Elected>},
                                {{{64, 101, 140}}})};
}
DELETION_TEST(LadderC)

}  // namespace
}  // namespace gemmd::testing
