// tcgen05: matrix products in tensor memory (sm_100a, sm_103a). PTX ISA, "TensorCore 5th
// Generation Family Instructions".
//
// A block has 128 lanes by 512 columns of 4 bytes; an address has the lane in bits 16 and up, the
// column below. One thread issues products and copies; a commit says on an mbarrier when all that
// it issued before is complete. All lanes of a warp load, from 32 * (warp % 4) on.
//
// Order is what "Memory Consistency Model for 5th generation of TensorCore operations" says, and no
// more:
//   * products with the same accumulator, shape, kind and group run as issued, and products after
//     the copies before them; nothing else does, a copy behind products that read its columns
//     least;
//   * a load's registers are there after Tcgen05WaitLoad(), what products and copies did after the
//     wait for the commit's mbarrier;
//   * between threads: Tcgen05FenceBefore(), then what orders them (a barrier, an arrival), then
//     Tcgen05FenceAfter(). A commit has the former in it. After the wait for a commit's mbarrier a
//     load needs the latter, in the thread that committed too.
// All of a kernel's instructions have the same group: 1, or 2 for pairs of blocks of even and odd
// rank, which act together on the operands of both.
#pragma once

#include "kernels/ptx/platform.h"
#include "kernels/ptx/tcgen05_descriptor.h"

#ifdef __CUDACC__
#include "kernels/ptx/tcgen05_operands.h"
#else
#include "kernels/emulator/instructions/tcgen05.h"
#endif

namespace gemmd::ptx {
inline namespace GEMMD_BACKEND {

// An address in tensor memory.
using TensorAddress = std::uint32_t;

constexpr GEMMD_DEVICE TensorAddress TensorLane(std::uint32_t lane) { return lane << 16; }

#ifdef __CUDACC__
// An instruction with its .cta_group, which is part of its name.
#define GEMMD_TCGEN05_GROUP(before, after, ...)             \
  if constexpr (kGroup == 1) {                              \
    asm volatile(before ".cta_group::1" after __VA_ARGS__); \
  } else {                                                  \
    asm volatile(before ".cta_group::2" after __VA_ARGS__); \
  }
#endif

// ------------------------------------------------------------ allocation

// tcgen05.alloc.sync.aligned.shared::cta.b32: all lanes of one warp, in each block of a pair;
// `columns` is a power of two from 32 to 512, and never more than before. The address comes to
// shared memory at `slot`. Waits while too few columns are free. Like each instruction of a pair it
// stands behind a cluster barrier, by which the other block is known to run; another one lies
// between it and the dealloc.
template <int kGroup = 1>
GEMMD_DEVICE void Tcgen05Alloc(SharedAddress slot, std::uint32_t columns GEMMD_SITE) {
  static_assert(kGroup == 1 || kGroup == 2);
#ifdef __CUDACC__
  GEMMD_TCGEN05_GROUP("tcgen05.alloc", ".sync.aligned.shared::cta.b32 [%0], %1;", ::"r"(slot),
                      "r"(columns)
                      : "memory")
#else
  emulator::Tcgen05Alloc(slot, columns, kGroup, site);
#endif
}

// tcgen05.dealloc.sync.aligned.b32: a whole allocation, before the kernel ends, by all lanes of one
// warp, in each block of a pair. Nothing may be under way in it.
template <int kGroup = 1>
GEMMD_DEVICE void Tcgen05Dealloc(TensorAddress address, std::uint32_t columns GEMMD_SITE) {
#ifdef __CUDACC__
  GEMMD_TCGEN05_GROUP("tcgen05.dealloc", ".sync.aligned.b32 %0, %1;", ::"r"(address), "r"(columns)
                      : "memory")
#else
  emulator::Tcgen05Dealloc(address, columns, kGroup, site);
#endif
}

// tcgen05.relinquish_alloc_permit.sync.aligned: the block allocates no more, so that another one of
// the multiprocessor may.
template <int kGroup = 1>
GEMMD_DEVICE void Tcgen05Relinquish(GEMMD_ONLY_SITE) {
#ifdef __CUDACC__
  GEMMD_TCGEN05_GROUP("tcgen05.relinquish_alloc_permit", ".sync.aligned;", ::: "memory")
#else
  emulator::Tcgen05Relinquish(kGroup, site);
#endif
}

// ------------------------------------------------------------ products and copies

// tcgen05.mma.kind::f16: D = A * B (+ D where `accumulate`), 16 deep, by one thread. In the pair's
// form both blocks have their half of the rows of A and of the columns of B at the same places.
//   D of f32   M of 128, or 256 of a pair: row r in lane r of the block, column n in column n
//              M of 64: 16 rows in each quarter of the lanes, from lane 0 or 16 of it on
//              M of 128 of a pair: 64 rows a block; the right half of the columns in lanes 64 on
template <int kGroup = 1>
GEMMD_DEVICE void Tcgen05Multiply(TensorAddress d, std::uint64_t a_descriptor,
                                  std::uint64_t b_descriptor, std::uint32_t instruction,
                                  bool accumulate GEMMD_SITE) {
#ifdef __CUDACC__
  GEMMD_TCGEN05_GROUP("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\ntcgen05.mma",
                      ".kind::f16 [%0], %1, %2, %3, p;\n}", ::"r"(d), "l"(a_descriptor),
                      "l"(b_descriptor), "r"(instruction),
                      "r"(static_cast<std::uint32_t>(accumulate))
                      : "memory")
#else
  emulator::Tcgen05Multiply({kGroup, d, a_descriptor, b_descriptor, instruction, accumulate}, site);
#endif
}

// A kind of block-scaled product, with the size of its blocks, and so its scales a line.
enum class Tcgen05ScaledKind : std::uint8_t {
  kMxf8f6f4,  // .kind::mxf8f6f4.block_scale.block32: 32 deep, one E8M0 scale
  kMxf4,      // .kind::mxf4.block_scale.block32: 64 deep, two E8M0 scales
  kMxf4nvf4,  // .kind::mxf4nvf4.block_scale.block16: 64 deep, four scales, E4M3 or E8M0
};

// tcgen05.mma with .block_scale: D = (A * scales) * (B * scales) (+ D where `accumulate`), by one
// thread. In the pair's form, of M of 256, a block has half of the rows of A with their scales, and
// half of the columns of B, but the scales of all.
//   A and B    lines of 32 bytes: of mxf8f6f4 8-bit elements, or 16 of 4 or 6 bits in the first 8
//   or
//              12 bytes of each 16; of the others e2m1, two in a byte; of few bits K-major
//   scales     those of line i in lane i % 32 of each quarter, column i / 32, from the byte on that
//              the instruction says: what tcgen05.cp.32x128b.warpx4 makes of a tile of 128 x 4
//              scales (base/numbers/scaling.h, kTiles128x4)
//   D of f32   row r in lane r of the block, column n in column n
template <int kGroup = 1, Tcgen05ScaledKind kKind = Tcgen05ScaledKind::kMxf8f6f4>
GEMMD_DEVICE void Tcgen05MultiplyMx(TensorAddress d, std::uint64_t a_descriptor,
                                    std::uint64_t b_descriptor, std::uint32_t instruction,
                                    TensorAddress a_scales, TensorAddress b_scales,
                                    bool accumulate GEMMD_SITE) {
#ifdef __CUDACC__
#define GEMMD_TCGEN05_SCALED(kind)                                                              \
  GEMMD_TCGEN05_GROUP("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\ntcgen05.mma",                   \
                      kind " [%0], %1, %2, %3, [%4], [%5], p;\n}", ::"r"(d), "l"(a_descriptor), \
                      "l"(b_descriptor), "r"(instruction), "r"(a_scales), "r"(b_scales),        \
                      "r"(static_cast<std::uint32_t>(accumulate))                               \
                      : "memory")
  if constexpr (kKind == Tcgen05ScaledKind::kMxf8f6f4) {
    GEMMD_TCGEN05_SCALED(".kind::mxf8f6f4.block_scale.block32")
  } else if constexpr (kKind == Tcgen05ScaledKind::kMxf4) {
    GEMMD_TCGEN05_SCALED(".kind::mxf4.block_scale.block32")
  } else {
    GEMMD_TCGEN05_SCALED(".kind::mxf4nvf4.block_scale.block16")
  }
#undef GEMMD_TCGEN05_SCALED
#else
  emulator::Tcgen05MultiplyScaled(
      {static_cast<emulator::Tcgen05ScaledKind>(kKind), kGroup, d, a_descriptor, b_descriptor,
       instruction, a_scales, b_scales, accumulate},
      site);
#endif
}

// tcgen05.cp.32x128b.warpx4: 32 lines of 16 bytes to four columns of each quarter of the lanes, by
// one thread, in each block of a pair.
template <int kGroup = 1>
GEMMD_DEVICE void Tcgen05Copy32x128b(TensorAddress to, std::uint64_t descriptor GEMMD_SITE) {
#ifdef __CUDACC__
  GEMMD_TCGEN05_GROUP("tcgen05.cp", ".32x128b.warpx4 [%0], %1;", ::"r"(to), "l"(descriptor)
                      : "memory")
#else
  emulator::Tcgen05Copy(to, descriptor, kGroup, site);
#endif
}

// tcgen05.commit.mbarrier::arrive::one.shared::cluster.b64: one arrival at this block's mbarrier
// once this thread's products and copies are complete. Commits arrive in no order: wherever one
// arrives, a thread of the block waits for its phase before the block ends.
template <int kGroup = 1>
GEMMD_DEVICE void Tcgen05Commit(SharedAddress mbarrier GEMMD_SITE) {
#ifdef __CUDACC__
  GEMMD_TCGEN05_GROUP("tcgen05.commit", ".mbarrier::arrive::one.shared::cluster.b64 [%0];",
                      ::"r"(mbarrier)
                      : "memory")
#else
  emulator::Tcgen05Commit(mbarrier, 1u << (mbarrier >> 24), kGroup, site);
#endif
}

// With .multicast::cluster: at the mbarrier of the same offset of every block whose bit is set.
template <int kGroup = 1>
GEMMD_DEVICE void Tcgen05CommitMulticast(SharedAddress mbarrier, std::uint32_t mask GEMMD_SITE) {
#ifdef __CUDACC__
  GEMMD_TCGEN05_GROUP("tcgen05.commit",
                      ".mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;",
                      ::"r"(mbarrier), "h"(static_cast<std::uint16_t>(mask))
                      : "memory")
#else
  emulator::Tcgen05Commit(mbarrier, mask, kGroup, site);
#endif
}

// ------------------------------------------------------------ registers

#ifdef __CUDACC__
#define GEMMD_TCGEN05_LOAD(count, text, address)                                                   \
  asm volatile("tcgen05.ld.sync.aligned" text " {" GEMMD_TCGEN05_NAMES_##count "}, [" address "];" \
               : GEMMD_TCGEN05_OUTPUTS_##count                                                     \
               : "r"(from)                                                                         \
               : "memory")
#define GEMMD_TCGEN05_LOAD_32X32B(count, quarter, address)                   \
  if constexpr (kCount == count && kPacked) {                                \
    GEMMD_TCGEN05_LOAD(count, ".32x32b.x" #count ".pack::16b.b32", address); \
  } else if constexpr (kCount == count) {                                    \
    GEMMD_TCGEN05_LOAD(count, ".32x32b.x" #count ".b32", address);           \
  }
#define GEMMD_TCGEN05_LOAD_16X256B(count, quarter, address)                     \
  if constexpr (kCount == count && kPacked) {                                   \
    GEMMD_TCGEN05_LOAD(count, ".16x256b.x" #quarter ".pack::16b.b32", address); \
  } else if constexpr (kCount == count) {                                       \
    GEMMD_TCGEN05_LOAD(count, ".16x256b.x" #quarter ".b32", address);           \
  }
#endif

// tcgen05.ld.sync.aligned.32x32b.xN.b32 and .16x256b.xM.b32, where kCount is N, or 4 * M:
//   32x32b    register i of lane t is tensor memory's lane t, column i
//   16x256b   register i of lane t is lane t / 4 + 8 * (i / 2 % 2) of 16, column
//             8 * (i / 4) + 2 * (t % 4) + i % 2
// kPacked, .pack::16b: the low halves of columns 2 * c and 2 * c + 1 for column c. All lanes give
// the same address, of the warp's quarter or for 16x256b of either half of it. The registers may be
// read after Tcgen05WaitLoad(); a dependency on them alone is respected too (PTX ISA, "Register
// dependencies, same thread"), so that none is read early.
template <int kCount, bool kPacked = false>
GEMMD_DEVICE void Tcgen05Load32x32b(std::uint32_t (&registers)[kCount],
                                    TensorAddress from GEMMD_SITE) {
  static_assert(kCount >= 1 && kCount <= 128 && (kCount & (kCount - 1)) == 0);
#ifdef __CUDACC__
  GEMMD_TCGEN05_EACH(GEMMD_TCGEN05_LOAD_32X32B)
#else
  emulator::Tcgen05Load({emulator::Tcgen05Shape::k32x32b, kCount, kPacked, from}, registers, site);
#endif
}
template <int kCount, bool kPacked = false>
GEMMD_DEVICE void Tcgen05Load16x256b(std::uint32_t (&registers)[kCount],
                                     TensorAddress from GEMMD_SITE) {
  static_assert(kCount >= 4 && kCount <= 128 && (kCount & (kCount - 1)) == 0);
#ifdef __CUDACC__
  GEMMD_TCGEN05_EACH_FROM_4(GEMMD_TCGEN05_LOAD_16X256B)
#else
  emulator::Tcgen05Load({emulator::Tcgen05Shape::k16x256b, kCount, kPacked, from}, registers, site);
#endif
}

// tcgen05.wait::ld.sync.aligned: for all of this thread's loads.
GEMMD_DEVICE void Tcgen05WaitLoad(GEMMD_ONLY_SITE) {
  GEMMD_ON_DEVICE(asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");)
  GEMMD_IN_EMULATOR(emulator::Tcgen05WaitLoad(site);)
}

// tcgen05.fence::before_thread_sync and ::after_thread_sync
GEMMD_DEVICE void Tcgen05FenceBefore(GEMMD_ONLY_SITE) {
  GEMMD_ON_DEVICE(asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");)
  GEMMD_IN_EMULATOR(emulator::Tcgen05FenceBefore(site);)
}
GEMMD_DEVICE void Tcgen05FenceAfter(GEMMD_ONLY_SITE) {
  GEMMD_ON_DEVICE(asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");)
  GEMMD_IN_EMULATOR(emulator::Tcgen05FenceAfter(site);)
}

#ifdef __CUDACC__
#undef GEMMD_TCGEN05_GROUP
#undef GEMMD_TCGEN05_LOAD
#undef GEMMD_TCGEN05_LOAD_16X256B
#undef GEMMD_TCGEN05_LOAD_32X32B
#endif

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::ptx
