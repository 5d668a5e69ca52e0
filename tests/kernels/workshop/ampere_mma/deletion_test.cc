// Every wait, barrier and commit of ladder A is needed by one of its steps.
#include <string>

#include "kernels/workshop/ampere_mma/ladder_a_launch.h"
#include "tests/kernels/emulator/deletions.h"
#include "tests/kernels/mma/direct_run.h"

namespace gemmd::testing {
namespace {

template <class Step>
std::string Wrong(const Shape& shape, const emulator::Options& options) {
  return RunDirect(copy_async::Launch<Step, mma::F16AccumulateF32>, shape, options);
}

DeletionCheck LadderA() {
  return {{"kernels/mma/copy_async/gemm.h"},
          {},
          RunsOf<Shape>({Wrong<ampere_mma::A01a>, Wrong<ampere_mma::A01b>, Wrong<ampere_mma::A02>,
                         Wrong<ampere_mma::A03a>, Wrong<ampere_mma::A03b>, Wrong<ampere_mma::A04>,
                         Wrong<ampere_mma::A05>, Wrong<ampere_mma::A06>},
                        {{128, 128, 64}, {128, 128, 384}})};
}
DELETION_TEST(LadderA)

}  // namespace
}  // namespace gemmd::testing
