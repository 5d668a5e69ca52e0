// Every wait, fence, barrier, arrival and commit of the MXFP8 kernel is needed by it.
#include <string>

#include "kernels/workshop/sm120_mxfp8/mx_launch.h"
#include "tests/kernels/emulator/deletions.h"
#include "tests/kernels/mma/mx_run.h"

namespace gemmd::testing {
namespace {

std::string WrongMx(const MxCase& each, const emulator::Options& options) {
  return RunMx(sm120_mxfp8::LaunchMx, each, options);
}

// Stages are filled again, and once more.
DeletionCheck MxGemm() {
  return {{"kernels/workshop/sm120_mxfp8/mx_gemm.h"},
          {},
          RunsOf<MxCase>({WrongMx}, {{{128, 100, 800}}})};
}
DELETION_TEST(MxGemm)

}  // namespace
}  // namespace gemmd::testing
