// Every wait, barrier and commit of ladder A is needed by one of its steps.
#include <string>

#include "kernels/sm80/ladder_a_launch.h"
#include "tests/kernels/emulator/deletions.h"
#include "tests/kernels/mma/direct_run.h"

namespace gemmd::testing {
namespace {

template <class Step>
std::string Wrong(const Shape& shape, const emulator::Options& options) {
  return RunDirect(sm80::LaunchLadderA<Step, mma::F16AccumulateF32>, shape, options);
}

DeletionCheck LadderA() {
  return {{"kernels/sm80/ladder_a.h"},
          {},
          RunsOf<Shape>({Wrong<sm80::A01a>, Wrong<sm80::A01b>, Wrong<sm80::A02>, Wrong<sm80::A03a>,
                         Wrong<sm80::A03b>, Wrong<sm80::A04>, Wrong<sm80::A05>, Wrong<sm80::A06>},
                        {{128, 128, 64}, {128, 128, 384}})};
}
DELETION_TEST(LadderA)

}  // namespace
}  // namespace gemmd::testing
