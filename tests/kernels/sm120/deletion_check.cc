// Exits with 1 where any step of ladder B breaks a rule of the emulator or gives a wrong bit.
// deploy/check/delete_synchronisation.py compiles it against copies of the kernel with one
// statement deleted.
//
// Deletes from: kernels/sm120/ladder_b.h
// Deletes from: kernels/sm120/tensor_stages.h
#include <cstdio>

#include "kernels/sm120/ladder_b.h"
#include "tests/kernels/sm120/ladder_b_run.h"

namespace gemmd::testing {
namespace {

template <class Step>
bool IsRight(std::uint64_t seed, emulator::Landing landing, std::int64_t k) {
  const Shape shape{128, 253, k};  // a tile of D that TMA stores and one that threads do
  emulator::Options options;
  options.seed = seed;
  options.landing = landing;
  const Outcome outcome = RunLadderB<Step>(shape, options, ExpectedOfLadderB(shape));
  if (outcome.ok()) return true;
  std::printf("%s: %s\n", Step::kName,
              outcome.report.ok() ? "wrong bits" : outcome.report.message.c_str());
  return false;
}

template <class Step>
bool IsRight() {
  for (const std::int64_t k : {32, 320}) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      if (!IsRight<Step>(seed, emulator::Landing::kRandom, k)) return false;
    }
    if (!IsRight<Step>(1, emulator::Landing::kLazy, k)) return false;
  }
  return true;
}

}  // namespace
}  // namespace gemmd::testing

int main() {
  using gemmd::testing::IsRight;
  namespace sm120 = gemmd::sm120;
  const bool is_right = IsRight<sm120::BcfDbfRw>() && IsRight<sm120::KStages>() &&
                        IsRight<sm120::TmaR64>() && IsRight<sm120::TmaR32>() &&
                        IsRight<sm120::TmaRw>();
  return is_right ? 0 : 1;
}
