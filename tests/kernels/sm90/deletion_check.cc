// Exits with 1 where a tiling of the Hopper GEMM breaks a rule of the emulator or gives a wrong
// bit. deploy/check/delete_synchronisation.py compiles it against copies of the sources with
// one statement deleted.
//
// Deletes from: kernels/sm90/wgmma_consumer.h
// Deletes from: kernels/sm90/wgmma_epilogue.h
// Deletes from: kernels/sm90/wgmma_gemm.h
// Deletes from: kernels/sm90/wgmma_producer.h
// Deletes from: kernels/sm90/wgmma_store.h
//
// What only brings a warp together again, for instructions that are .aligned: the emulator's
// threads never run as one, so that nothing is amiss there without it.
// Redundant in kernels/sm90/wgmma_consumer.h: ptx::SyncWarp(); # 1: wgmma.wait_group is the warp's
// Redundant in kernels/sm90/wgmma_consumer.h: ptx::SyncWarp(); # 2: for barrier.cluster alone
// Redundant in kernels/sm90/wgmma_gemm.h: ptx::SyncWarp(); # 1: for the next barrier alone
// Redundant in kernels/sm90/wgmma_gemm.h: ptx::SyncWarp(); # 2: for the next barrier alone
// Redundant in kernels/sm90/wgmma_gemm.h: ptx::SyncWarp(); # 3: for barrier.cluster alone
// Redundant in kernels/sm90/wgmma_gemm.h: ptx::SyncWarp(); # 4: for barrier.cluster alone
//
// The stagger is a delay and orders nothing. The emulator's wgmma.wait_group is for the product of
// the whole warpgroup; PTX promises the waiting threads theirs, and boxes of MN-major rows are
// read by other warps.
// Redundant in kernels/sm90/wgmma_consumer.h:
//     ptx::NamedBarrierSync(kStaggerBarrier, 2 * kWarpgroup); # 1: a delay
// Redundant in kernels/sm90/wgmma_store.h:
//     ptx::NamedBarrierSync(1 + me.group, kWarpgroup); # 1: other warps' reads
#include <cstdio>

#include "kernels/sm90/wgmma_gemm.h"
#include "tests/kernels/sm90/direct_launch.h"

namespace gemmd::testing {
namespace {

template <int kTiling, bool kHasEpilogue>
bool IsRight(const DirectShape& shape) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const std::string wrong = RunDirect<kTiling, kHasEpilogue>(
        shape, seed, seed == 3 ? emulator::Landing::kLazy : emulator::Landing::kRandom, seed == 2);
    if (wrong.empty()) continue;
    std::printf("%s: %s\n", sm90::kTilings[kTiling].name, wrong.c_str());
    return false;
  }
  return true;
}

}  // namespace
}  // namespace gemmd::testing

int main() {
  using gemmd::testing::IsRight;
  // By place in kernels/sm90/tilings.h: short boxes, pairs and drained stages, turns, pairs of one
  // warpgroup, and the epilogue; whole and ragged lines of D, without TMA and with it.
  const bool is_right = IsRight<6, false>({20, 264, 200}) && IsRight<0, false>({260, 520, 330}) &&
                        IsRight<4, false>({300, 580, 200}) && IsRight<8, false>({150, 262, 650}) &&
                        IsRight<5, true>({70, 140, 580}) && IsRight<6, false>({20, 262, 70}) &&
                        IsRight<7, false>({20, 262, 70});
  return is_right ? 0 : 1;
}
