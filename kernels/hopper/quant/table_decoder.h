// Codes that are places in a table of 16 numbers. A block writes the pairs that a byte of two codes
// can stand for to shared memory, so that one load gives a register of a fragment, or of each term.
//
// A number of f32 is the sum of two terms of A's type (table_terms.h): a step has a product for
// each.
#pragma once

#include "kernels/hopper/quant/decoder.h"
#include "kernels/hopper/quant/params.h"
#include "kernels/ptx/shared_memory.h"

namespace gemmd::hopper::quant {
inline namespace GEMMD_BACKEND {

// The table in shared memory: a line of 128 bytes, which is all banks, for each byte. It has the
// byte's pair of numbers, or of each term one after another, as often as they fit: a lane reads the
// banks that are its own.
inline constexpr int kTableLineBytes = 128;
inline constexpr int kTableBytes = 256 * kTableLineBytes;

// To be called by `count` threads, of which this is the `nth`.
template <int kTerms>
GEMMD_DEVICE void WriteTable(const QuantParams& params, ptx::SharedAddress to, std::uint32_t nth,
                             std::uint32_t count) {
  constexpr std::uint32_t kPieces = kTableLineBytes / 16;
  GEMMD_NO_UNROLL
  for (std::uint32_t i = nth; i < kTableBytes / 16; i += count) {
    const std::uint32_t low = params.table[i / kPieces % 16];
    const std::uint32_t high = params.table[i / kPieces / 16];
    const std::uint32_t upper = (low & 0xffff) | high << 16;
    const std::uint32_t other = kTerms == 1 ? upper : low >> 16 | (high & 0xffff0000);
    ptx::StoreShared(to + i * 16, ptx::Vector4{upper, other, upper, other});
  }
}

template <class Rows_, CodeFormat kFormat>
struct TableDecoder : OfFormat<kFormat> {
  using Of = OfFormat<kFormat>;
  using Rows = Rows_;
  using Scales =
      std::conditional_t<ScaleSize(kFormat) == 4, FloatScales<Of::kParts>, HalfScales<Of::kParts>>;
  static constexpr int kTerms = Of::kTerms;
  static constexpr bool kHasShifts = false;

  Scales scales;
  ptx::SharedAddress table;  // this lane's banks

  GEMMD_DEVICE void SetTable(ptx::SharedAddress of_block) {
    constexpr std::uint32_t kLanes = kTableLineBytes / (4 * kTerms);
    table = ptx::Keep(of_block + ptx::LaneIndex() % kLanes * (4 * kTerms));
  }

  GEMMD_DEVICE void Load(ptx::SharedAddress scales_at, ptx::SharedAddress /*shifts_at*/) {
    scales = LoadAll<Scales>(scales_at);
  }

  // A fragment of each term.
  GEMMD_DEVICE void DecodeTerms(const std::uint32_t (&words)[Of::kStepWords],
                                std::uint32_t (&fragments)[kTerms][4]) const {
    struct alignas(4 * kTerms) Terms {
      std::uint32_t of[kTerms];
    };
    GEMMD_UNROLL
    for (int j = 0; j < 4; ++j) {
      const std::uint32_t byte = words[0] >> (8 * j) & 0xff;
      const auto terms = ptx::LoadShared<Terms>(table + byte * kTableLineBytes);
      GEMMD_UNROLL
      for (int t = 0; t < kTerms; ++t) fragments[t][j] = terms.of[t];
    }
  }
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
