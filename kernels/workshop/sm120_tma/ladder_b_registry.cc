#include "kernels/workshop/sm120_tma/ladder_b_registry.h"

#include <iterator>

#include "kernels/mma/tensor_copy/entry.h"
#include "kernels/workshop/sm120_tma/ladder_b_entries.h"
#include "kernels/workshop/sm120_tma/ladder_b_steps.h"

namespace gemmd {
namespace {

template <class Step>
constexpr tensor_copy::StepTraits Describe(const tensor_copy::Measured& measured) {
  tensor_copy::StepTraits step = tensor_copy::Describe<Step>(measured);
  step.half_gemm.only_by_name = true;
  return step;
}

// A step that was not published has the figure of the one that it derives from.
constexpr tensor_copy::StepTraits kSteps[] = {Describe<sm120_tma::BcfDbfRw>({352.8, 34.00}),
                                              Describe<sm120_tma::KStages>({363.6, 33.27}),
                                              Describe<sm120_tma::TmaLoads>({441.5, 33.27}),
                                              Describe<sm120_tma::TmaR64>({502.9, 32.05}),
                                              Describe<sm120_tma::TmaRw>({483.2, 34.31}),
                                              Describe<sm120_tma::PairBoxes>({482.2, 34.31}),
                                              Describe<sm120_tma::WarpRelease>({432.6, 34.31}),
                                              Describe<sm120_tma::Warps64>({464.5, 34.31}),
                                              Describe<sm120_tma::Warps64K64>({516.4, 32.05}),
                                              Describe<sm120_tma::TmaRw64>({518.9, 32.05})};
static_assert(std::size(kSteps) == sm120_tma::kLadderBVariants);

}  // namespace

void AppendLadderB(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  for (int step = 0; step < sm120_tma::kLadderBVariants; ++step) {
    kernels->push_back(std::make_unique<tensor_copy::Entry>(
        kSteps[step], sm120_tma::CudaLadderB(step), sm120_tma::EmulatedLadderB(step)));
  }
}

}  // namespace gemmd
