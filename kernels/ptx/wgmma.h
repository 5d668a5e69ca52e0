// wgmma: products of a warpgroup with operands in shared memory (sm_90a).
// PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".
//
// A warpgroup is four warps, the first a multiple of 4; all 128 threads execute each of
// these. The order is: WgmmaFence() once the accumulators were last touched; products;
// WgmmaCommit(); WgmmaWait() before the accumulators or the operands' memory are touched.
// Operands that threads stored need FenceProxyAsync() and a barrier before; those that
// TMA wrote need the wait for their mbarrier alone.
//
// Accumulators, m64nNk16: register i of thread t is row t / 32 * 16 + t % 32 / 4 +
// i / 2 % 2 * 8, column i / 4 * 8 + t % 4 * 2 + i % 2.
#pragma once

#include "kernels/ptx/matrix_descriptor.h"
#include "kernels/ptx/platform.h"

#ifdef __CUDACC__
#include "kernels/ptx/wgmma_operands.h"
#else
#include "kernels/emulator/wgmma.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// wgmma.fence.sync.aligned
GEMMD_DEVICE void WgmmaFence(GEMMD_ONLY_SITE) {
  GEMMD_ON_DEVICE(asm volatile("wgmma.fence.sync.aligned;" ::: "memory");)
  GEMMD_IN_EMULATOR(emulator::WgmmaFence(site);)
}

// wgmma.commit_group.sync.aligned: the products since the last one become a group.
GEMMD_DEVICE void WgmmaCommit(GEMMD_ONLY_SITE) {
  GEMMD_ON_DEVICE(asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");)
  GEMMD_IN_EMULATOR(emulator::WgmmaCommit(site);)
}

// wgmma.wait_group.sync.aligned: until at most kPending of the newest groups are pending.
template <int kPending>
GEMMD_DEVICE void WgmmaWait(GEMMD_ONLY_SITE) {
  GEMMD_ON_DEVICE(asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");)
  GEMMD_IN_EMULATOR(emulator::WgmmaWait(kPending, site);)
}

enum class WgmmaType : int { kF16, kBf16 };

#ifdef __CUDACC__
// wgmma.mma_async.sync.aligned.m64nNk16.f32.TYPE.TYPE, scales 1, both operands K-major. The
// predicate scale-d says whether D takes part in the sum.
#define GEMMD_WGMMA_ASM(columns, type, a_name, b_name, scale_name)                                 \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " scale_name                                      \
               ", 0;\n"                                                                            \
               "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." type "." type               \
               " {" GEMMD_WGMMA_ALL_NAMES_##columns "}, " a_name ", " b_name ", p, 1, 1, 0, 0;\n}" \
               : GEMMD_WGMMA_ALL_FLOATS_##columns                                                  \
               : "l"(a_descriptor), "l"(b_descriptor),                                             \
                 "r"(static_cast<std::uint32_t>(accumulate)))
#define GEMMD_WGMMA_CASE(columns, a_name, b_name, scale_name)       \
  if constexpr (kColumns == columns) {                              \
    if constexpr (kType == WgmmaType::kBf16) {                      \
      GEMMD_WGMMA_ASM(columns, "bf16", a_name, b_name, scale_name); \
    } else {                                                        \
      GEMMD_WGMMA_ASM(columns, "f16", a_name, b_name, scale_name);  \
    }                                                               \
  }
#endif

// d[64 x kColumns] = a * b (+ d where `accumulate`): a is 64x16, b is kColumns x 16, by
// descriptor, f16 or bf16; kColumns is a multiple of 8 up to 256.
template <WgmmaType kType, int kColumns>
GEMMD_DEVICE void Wgmma(float (&d)[kColumns / 2], std::uint64_t a_descriptor,
                        std::uint64_t b_descriptor, bool accumulate GEMMD_SITE) {
  static_assert(kColumns % 8 == 0 && kColumns >= 8 && kColumns <= 256);
#ifdef __CUDACC__
  GEMMD_WGMMA_CASE(8, "%4", "%5", "%6")
  GEMMD_WGMMA_CASE(16, "%8", "%9", "%10")
  GEMMD_WGMMA_CASE(24, "%12", "%13", "%14")
  GEMMD_WGMMA_CASE(32, "%16", "%17", "%18")
  GEMMD_WGMMA_CASE(40, "%20", "%21", "%22")
  GEMMD_WGMMA_CASE(48, "%24", "%25", "%26")
  GEMMD_WGMMA_CASE(56, "%28", "%29", "%30")
  GEMMD_WGMMA_CASE(64, "%32", "%33", "%34")
  GEMMD_WGMMA_CASE(72, "%36", "%37", "%38")
  GEMMD_WGMMA_CASE(80, "%40", "%41", "%42")
  GEMMD_WGMMA_CASE(88, "%44", "%45", "%46")
  GEMMD_WGMMA_CASE(96, "%48", "%49", "%50")
  GEMMD_WGMMA_CASE(104, "%52", "%53", "%54")
  GEMMD_WGMMA_CASE(112, "%56", "%57", "%58")
  GEMMD_WGMMA_CASE(120, "%60", "%61", "%62")
  GEMMD_WGMMA_CASE(128, "%64", "%65", "%66")
  GEMMD_WGMMA_CASE(136, "%68", "%69", "%70")
  GEMMD_WGMMA_CASE(144, "%72", "%73", "%74")
  GEMMD_WGMMA_CASE(152, "%76", "%77", "%78")
  GEMMD_WGMMA_CASE(160, "%80", "%81", "%82")
  GEMMD_WGMMA_CASE(168, "%84", "%85", "%86")
  GEMMD_WGMMA_CASE(176, "%88", "%89", "%90")
  GEMMD_WGMMA_CASE(184, "%92", "%93", "%94")
  GEMMD_WGMMA_CASE(192, "%96", "%97", "%98")
  GEMMD_WGMMA_CASE(200, "%100", "%101", "%102")
  GEMMD_WGMMA_CASE(208, "%104", "%105", "%106")
  GEMMD_WGMMA_CASE(216, "%108", "%109", "%110")
  GEMMD_WGMMA_CASE(224, "%112", "%113", "%114")
  GEMMD_WGMMA_CASE(232, "%116", "%117", "%118")
  GEMMD_WGMMA_CASE(240, "%120", "%121", "%122")
  GEMMD_WGMMA_CASE(248, "%124", "%125", "%126")
  GEMMD_WGMMA_CASE(256, "%128", "%129", "%130")
#else
  emulator::WgmmaMultiply(
      kType == WgmmaType::kF16 ? emulator::HalfFormat::kF16 : emulator::HalfFormat::kBf16, d,
      kColumns, a_descriptor, b_descriptor, accumulate, site);
#endif
}

#ifdef __CUDACC__
#undef GEMMD_WGMMA_CASE
#undef GEMMD_WGMMA_ASM
#endif

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
