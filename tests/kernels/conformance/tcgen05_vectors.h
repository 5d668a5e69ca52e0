// Single tcgen05.mma, each by a block or a pair of them, on random operands, scales, addends and
// descriptors (tcgen05_form.h). tcgen05.cp brings addends and scales to tensor memory, where each
// quarter of the lanes has them alike; all of D comes back by tcgen05.ld, in either shape.
#pragma once

#include "kernels/ptx/barriers.h"
#include "kernels/ptx/cluster.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/mbarrier.h"
#include "kernels/ptx/shared_memory.h"
#include "kernels/ptx/tcgen05.h"
#include "tests/kernels/conformance/tcgen05_form.h"
#include "tests/kernels/conformance/vector_sink.h"

namespace gemmd::conformance {

inline constexpr std::uint32_t kTcgen05Instructions = 16;  // a block, or a pair
inline constexpr std::uint32_t kTcgen05Threads = 128;      // of a block

// A block's shared memory.
struct Tcgen05Shared {
  static constexpr std::uint32_t kA = 0;                // 128 lines, spans of 128 bytes
  static constexpr std::uint32_t kB = 16 * 1024;        // 256 lines
  static constexpr std::uint32_t kAddends = 48 * 1024;  // 256 columns of 32 words
  static constexpr std::uint32_t kAScales = 80 * 1024;  // a tile of 128 x 4
  static constexpr std::uint32_t kTileBytes = 512;
  static constexpr std::uint32_t kBScales = kAScales + kTileBytes;  // two tiles
  static constexpr std::uint32_t kSlot = kBScales + 2 * kTileBytes;
  static constexpr std::uint32_t kDone = kSlot + 8;
  // More than half of a multiprocessor's, so that it has one block: each takes all of tensor
  // memory.
  static constexpr std::uint32_t kBytes = 120 * 1024;
};

// The columns of tensor memory.
struct Tcgen05Columns {
  static constexpr std::uint32_t kD = 0;
  static constexpr std::uint32_t kAScales = 256;
  static constexpr std::uint32_t kBScales = 260;
  static constexpr std::uint32_t kAll = 512;
};

// Results of a thread and instruction: a word for each column, or two of f16.
constexpr std::uint32_t Tcgen05Words(const Tcgen05Set& set) {
  return set.columns / (set.sums_f16 ? 2 : 1);
}

inline namespace GEMMD_BACKEND {

GEMMD_DEVICE std::uint32_t RandomOperandWord(const Tcgen05Set& set, OperandClass operands,
                                             bool is_b, std::uint64_t key, std::uint32_t word) {
  const std::uint64_t random = RandomBits(key, word);
  if (set.kind == Tcgen05Kind::kF16) return RandomPair(set.a_type == 1, operands, is_b, random);
  const std::uint32_t type = is_b ? set.b_type : set.a_type;
  if (set.kind == Tcgen05Kind::kMxf8f6f4 && type < 2) {
    return RandomFp8s(type == 0, operands, is_b, key, word);
  }
  // All codes of 4 and 6 bits are numbers.
  const bool is_zero = operands == OperandClass::kSparse && (random >> 32) % 2 == 0;
  return is_zero ? 0 : static_cast<std::uint32_t>(random);
}

// A word of D ahead of the product.
GEMMD_DEVICE std::uint32_t RandomSum(const Tcgen05Set& set, OperandClass operands,
                                     std::uint64_t random) {
  if (!set.sums_f16) return RandomAddend(operands, random);
  return RandomHalf(false, operands, false, static_cast<std::uint32_t>(random));
}

template <typename Word>
GEMMD_DEVICE void FillWords(ptx::SharedAddress to, std::uint32_t bytes, Word word) {
  for (std::uint32_t i = ptx::ThreadIndex(); i < bytes / 4; i += kTcgen05Threads) {
    ptx::StoreShared(to + 4 * i, word(i));
  }
}

// Everything that the product reads; what both blocks of a pair must have alike is B's scales.
GEMMD_DEVICE void FillTcgen05(const Tcgen05Set& set, const Tcgen05Form& form, OperandClass operands,
                              std::uint32_t rank, std::uint64_t key) {
  const ptx::SharedAddress base = ptx::SharedBase();
  const auto operand = [&](bool is_b) {
    const std::uint64_t own = Mix(key + 16 + 2 * rank + (is_b ? 1 : 0));
    return [&set, operands, is_b, own](std::uint32_t i) {
      return RandomOperandWord(set, operands, is_b, own, i);
    };
  };
  const auto scales = [&](std::uint64_t own) {
    return [&set, operands, own](std::uint32_t i) {
      return RandomScales(set.has_e4m3_scales, operands, own, i);
    };
  };
  FillWords(base + Tcgen05Shared::kA, form.a.bytes, operand(false));
  FillWords(base + Tcgen05Shared::kB, form.b.bytes, operand(true));
  FillWords(base + Tcgen05Shared::kAddends, set.columns * 128, [&](std::uint32_t i) {
    return RandomSum(set, operands, RandomBits(Mix(key + 32 + rank), i));
  });
  if (set.kind == Tcgen05Kind::kF16) return;
  FillWords(base + Tcgen05Shared::kAScales, Tcgen05Shared::kTileBytes,
            scales(Mix(key + 48 + rank)));
  FillWords(base + Tcgen05Shared::kBScales, 2 * Tcgen05Shared::kTileBytes, scales(Mix(key + 64)));
}

GEMMD_DEVICE std::uint64_t DescriptorOf(std::uint32_t at, const Tcgen05Lines& lines) {
  return ptx::MakeTcgen05Descriptor(ptx::SharedBase() + at + lines.start, lines.leading,
                                    lines.stride, static_cast<ptx::Swizzle>(lines.span));
}

// By one thread: addends and scales to tensor memory, the product, and its commit.
template <int kGroup, Tcgen05Kind kKind>
GEMMD_DEVICE void IssueTcgen05(const Tcgen05Set& set, const Tcgen05Form& form,
                               ptx::TensorAddress memory) {
  const ptx::SharedAddress base = ptx::SharedBase();
  const auto copy = [&](std::uint32_t column, std::uint32_t from) {
    ptx::Tcgen05Copy32x128b<kGroup>(
        memory + column, ptx::MakeTcgen05Descriptor(base + from, 0, 128, ptx::Swizzle::kNone));
  };
  for (std::uint32_t i = 0; i < set.columns / 4; ++i) {
    copy(Tcgen05Columns::kD + 4 * i, Tcgen05Shared::kAddends + 512 * i);
  }
  const ptx::TensorAddress d = memory + Tcgen05Columns::kD + ptx::TensorLane(form.lane);
  const std::uint64_t a = DescriptorOf(Tcgen05Shared::kA, form.a);
  const std::uint64_t b = DescriptorOf(Tcgen05Shared::kB, form.b);
  const std::uint32_t instruction = InstructionOf(set, form);
  if constexpr (kKind == Tcgen05Kind::kF16) {
    ptx::Tcgen05Multiply<kGroup>(d, a, b, instruction, form.accumulates);
  } else {
    constexpr auto kScaled = kKind == Tcgen05Kind::kMxf8f6f4 ? ptx::Tcgen05ScaledKind::kMxf8f6f4
                             : kKind == Tcgen05Kind::kMxf4   ? ptx::Tcgen05ScaledKind::kMxf4
                                                             : ptx::Tcgen05ScaledKind::kMxf4nvf4;
    copy(Tcgen05Columns::kAScales, Tcgen05Shared::kAScales);
    for (std::uint32_t tile = 0; tile < (set.columns + 127) / 128; ++tile) {
      copy(Tcgen05Columns::kBScales + 4 * tile,
           Tcgen05Shared::kBScales + Tcgen05Shared::kTileBytes * tile);
    }
    ptx::Tcgen05MultiplyMx<kGroup, kScaled>(d, a, b, instruction, memory + Tcgen05Columns::kAScales,
                                            memory + Tcgen05Columns::kBScales, form.accumulates);
  }
  if constexpr (kGroup == 2) {
    ptx::Tcgen05CommitMulticast<kGroup>(base + Tcgen05Shared::kDone, 3);
  } else {
    ptx::Tcgen05Commit<kGroup>(base + Tcgen05Shared::kDone);
  }
}

// Every column of this warp's lanes, 8 columns a time, or 16 where they are of two f16 a word.
template <bool kPacked>
GEMMD_DEVICE void ReadTcgen05(const Tcgen05Set& set, const Tcgen05Form& form,
                              ptx::TensorAddress memory, std::uint32_t instruction,
                              VectorSink* sink) {
  const ptx::TensorAddress from = memory + ptx::TensorLane(ptx::ThreadIndex() / 32 * 32);
  const std::uint32_t words = form.loads_16x256b ? 8 : 4;  // a step
  std::uint32_t next = 0;
  for (std::uint32_t column = 0; column < set.columns; column += words * (kPacked ? 2 : 1)) {
    std::uint32_t low[4];
    std::uint32_t high[4] = {};
    if (form.loads_16x256b) {
      ptx::Tcgen05Load16x256b<4, kPacked>(low, from + column);
      ptx::Tcgen05Load16x256b<4, kPacked>(high, from + ptx::TensorLane(16) + column);
    } else {
      ptx::Tcgen05Load32x32b<4, kPacked>(low, from + column);
    }
    ptx::Tcgen05WaitLoad();
    for (std::uint32_t i = 0; i < 4; ++i) sink->Add(instruction, next + i, low[i]);
    for (std::uint32_t i = 4; i < words; ++i) sink->Add(instruction, next + i, high[i - 4]);
    next += words;
  }
}

template <int kGroup>
GEMMD_DEVICE void SyncGroup() {
  if constexpr (kGroup == 2) {
    ptx::ClusterSync();
  } else {
    ptx::SyncThreads();
  }
}

template <int kGroup, Tcgen05Kind kKind>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kTcgen05Threads, 1)
    Tcgen05Vectors(const GEMMD_GRID_CONSTANT VectorParams params) {
  const Tcgen05Set set = Tcgen05SetOf(params.set);
  const std::uint32_t thread = ptx::ThreadIndex();
  const std::uint32_t rank = kGroup == 2 ? ptx::RankInCluster() : 0;
  const std::uint32_t unit = ptx::BlockIndexX() / kGroup;
  const std::uint32_t block = params.first_block + unit;
  const auto operands = static_cast<OperandClass>(block % kOperandClasses);
  const ptx::SharedAddress base = ptx::SharedBase();
  if (thread == 0) ptx::MbarrierInit(base + Tcgen05Shared::kDone, 1);
  ptx::FenceMbarrierInit();
  SyncGroup<kGroup>();
  if (thread < 32) {
    ptx::Tcgen05Alloc<kGroup>(base + Tcgen05Shared::kSlot, Tcgen05Columns::kAll);
    ptx::Tcgen05Relinquish<kGroup>();
  }
  SyncGroup<kGroup>();
  const auto memory = ptx::LoadShared<std::uint32_t>(base + Tcgen05Shared::kSlot);
  VectorSink sink(params, kTcgen05Threads * kGroup, kTcgen05Instructions, Tcgen05Words(set), unit,
                  rank * kTcgen05Threads + thread);
  for (std::uint32_t instruction = 0; instruction < kTcgen05Instructions; ++instruction) {
    const std::uint64_t key = KeyOf(params.set, block, instruction);
    const Tcgen05Form form = FormOf(set, key);
    FillTcgen05(set, form, operands, rank, key);
    ptx::FenceProxyAsync();
    SyncGroup<kGroup>();
    if (thread == 0 && rank == 0) {
      ptx::Tcgen05FenceAfter();  // behind the loads of the instruction before
      IssueTcgen05<kGroup, kKind>(set, form, memory);
    }
    ptx::MbarrierWait(base + Tcgen05Shared::kDone, instruction % 2);
    ptx::Tcgen05FenceAfter();
    if (set.sums_f16) {
      ReadTcgen05<true>(set, form, memory, instruction, &sink);
    } else {
      ReadTcgen05<false>(set, form, memory, instruction, &sink);
    }
    ptx::Tcgen05FenceBefore();
    SyncGroup<kGroup>();
  }
  sink.Finish();
  if (thread < 32) ptx::Tcgen05Dealloc<kGroup>(memory, Tcgen05Columns::kAll);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::conformance
