// Exits with 1 where a tiling of the f32 product breaks a rule of the emulator or gives a wrong
// bit. deploy/check/delete_synchronisation.py compiles it against copies of the sources with one
// statement deleted.
//
// Deletes from: kernels/sm90f32/consumer.h
// Deletes from: kernels/sm90f32/producer.h
// Deletes from: kernels/sm90f32/product.h
// Deletes from: kernels/sm90f32/split.h
//
// Turns say when, and order no memory: each group has sums of its own.
// Redundant in kernels/sm90f32/consumer.h:
//     ptx::NamedBarrierSync(kTurnBarrier + me_.group, 2 * kWarpgroup); # 1: only when
//
// What only brings a warp together again, for instructions that are .aligned: the emulator's
// threads never run as one, so that nothing is amiss there without it.
// Redundant in kernels/sm90f32/product.h: ptx::SyncWarp(); # 1: for the next barrier alone
// Redundant in kernels/sm90f32/product.h: ptx::SyncWarp(); # 2: for the next barrier alone
// Redundant in kernels/sm90f32/product.h: ptx::SyncWarp(); # 3: nothing comes after it
#include <cstdio>

#include "kernels/sm90f32/launch.h"
#include "tests/kernels/sm90f32/direct_run.h"

namespace gemmd::testing {
namespace {

template <int kTiling, ptx::Major kRowMajor>
bool IsRight(std::int64_t m, std::int64_t n, std::int64_t k) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const std::string wrong = RunDirect<kTiling, kRowMajor>(
        m, n, k, seed, seed == 3 ? emulator::Landing::kLazy : emulator::Landing::kRandom);
    if (wrong.empty()) continue;
    std::printf("tiling %d: %s\n", kTiling, wrong.c_str());
    return false;
  }
  return true;
}

}  // namespace
}  // namespace gemmd::testing

int main() {
  using gemmd::ptx::Major;
  using gemmd::testing::IsRight;
  // By place in kernels/sm90f32/tilings.h: two groups that take turns, and one; several tiles for a
  // block, and more stages of K than the ring has.
  const bool is_right =
      IsRight<1, Major::kK>(130, 300, 200) && IsRight<6, Major::kMn>(20, 200, 800);
  return is_right ? 0 : 1;
}
