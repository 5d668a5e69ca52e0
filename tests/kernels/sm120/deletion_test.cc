// Every wait, fence, barrier, arrival and commit of ladder B is needed by one of its steps.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/sm120/ladder_b.h"
#include "tests/kernels/emulator/deletions.h"
#include "tests/kernels/sm120/ladder_b_run.h"

namespace gemmd::testing {
namespace {

template <class Step>
std::string Wrong(const emulator::Options& options, std::int64_t k) {
  const Shape shape{128, 253, k};  // a tile of D that TMA stores and one that threads do
  const Outcome outcome = RunLadderB<Step>(shape, options, ExpectedOfLadderB(shape));
  if (!outcome.report.ok()) return outcome.report.message;
  return outcome.ok() ? "" : std::string(Step::kName) + ": wrong bits";
}

template <class... Step>
DeletionCheck CheckOf(std::vector<const char*> sources) {
  DeletionCheck check{std::move(sources), {}, {}};
  for (const std::int64_t k : {32, 320}) {
    (check.runs.emplace_back(
         [k](const emulator::Options& options) { return Wrong<Step>(options, k); }),
     ...);
  }
  return check;
}

DeletionCheck LadderB() {
  return CheckOf<sm120::BcfDbfRw, sm120::KStages, sm120::TmaR64, sm120::TmaR32, sm120::TmaRw>(
      {"kernels/sm120/ladder_b.h", "kernels/sm120/tensor_stages.h"});
}
DELETION_TEST(LadderB, LadderB)

}  // namespace
}  // namespace gemmd::testing
