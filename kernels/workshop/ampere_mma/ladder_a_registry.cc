#include "kernels/workshop/ampere_mma/ladder_a_registry.h"

#include <iterator>

#include "kernels/mma/copy_async/entry.h"
#include "kernels/workshop/ampere_mma/ladder_a_entries.h"
#include "kernels/workshop/ampere_mma/ladder_a_steps.h"

namespace gemmd {
namespace {

template <class Step>
constexpr copy_async::StepTraits Describe(const copy_async::Measured& measured) {
  copy_async::StepTraits step = copy_async::Describe<Step>(measured);
  step.half_gemm.only_by_name = true;
  return step;
}

// The published series has a03a and a03b as one step, which is a03b: a03a has the figure of a02
// there.
constexpr copy_async::StepTraits kSteps[] = {Describe<ampere_mma::A01a>({75, 71.7, 71.7}),
                                             Describe<ampere_mma::A01b>({73, 97.1, 97.4}),
                                             Describe<ampere_mma::A02>({212, 278.7, 284.9}),
                                             Describe<ampere_mma::A03a>({212, 412.8, 407.6}),
                                             Describe<ampere_mma::A03b>({245, 413.2, 416.3}),
                                             Describe<ampere_mma::A04>({255, 431.8, 469.7}),
                                             Describe<ampere_mma::A05>({256, 439.4, 480.6})};
static_assert(std::size(kSteps) == ampere_mma::kLadderAVariants);

}  // namespace

void AppendLadderA(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  for (int step = 0; step < ampere_mma::kLadderAVariants; ++step) {
    kernels->push_back(std::make_unique<copy_async::Entry>(
        kSteps[step], ampere_mma::CudaLadderA(step), ampere_mma::EmulatedLadderA(step)));
  }
}

}  // namespace gemmd
