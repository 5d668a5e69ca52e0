// The forms of x86-64, which are chosen when the program runs.
#include "kernels/cpu/code_form.h"

#if defined(__x86_64__)

#include <algorithm>
#include <iterator>

#include "base/numbers/float_bits.h"
#include "kernels/cpu/code_types_x86.h"

namespace gemmd {
namespace x86 {
namespace {

// ------------------------------------------------------------- loops

// The numbers of each block, in registers while its elements pass.

template <typename Type, Shift kShift>
GEMMD_AVX2 void DecodeBlocks256(const Codes16& codes, const Blocks& blocks, float* out) {
  const std::int64_t elements = 16 * codes.count;
  for (std::int64_t begin = 0, block = 0; begin < elements; begin += blocks.length, ++block) {
    const __m256 factor = _mm256_set1_ps(blocks.factors[block]);
    __m256 shift{};
    if constexpr (kShift != Shift::kNone) shift = _mm256_set1_ps(ShiftsOf<kShift>(blocks)[block]);
    const std::int64_t end = std::min(elements, begin + blocks.length);
    for (std::int64_t i = begin; i < end; i += 16) {
      const Pair x = Type::Load256(codes.data + BytesOf<Type>(i));
      _mm256_storeu_ps(out + i, Scaled<kShift>(x.low, factor, shift));
      _mm256_storeu_ps(out + i + 8, Scaled<kShift>(x.high, factor, shift));
    }
  }
}

// Blocks of `kSixteens` registers, where there are as many, are unrolled: one of 32 elements is
// over too soon for a loop.
template <typename Type, Shift kShift, int kSixteens>
GEMMD_AVX512 void DecodeBlocks512(const Codes16& codes, const Blocks& blocks, float* out) {
  const std::int64_t elements = 16 * codes.count;
  std::int64_t begin = 0;
  for (std::int64_t block = 0; begin < elements; begin += blocks.length, ++block) {
    const __m512 factor = _mm512_set1_ps(blocks.factors[block]);
    __m512 shift{};
    if constexpr (kShift != Shift::kNone) shift = _mm512_set1_ps(ShiftsOf<kShift>(blocks)[block]);
    const auto decode = [&](std::int64_t i)
        __attribute__((target("avx512f,avx2,fma,f16c"), always_inline)) {
      const __m512 x = Type::Load512(codes.data + BytesOf<Type>(i));
      _mm512_storeu_ps(out + i, Scaled<kShift>(x, factor, shift));
    };
    if (kSixteens != 0 && begin + blocks.length <= elements) {
#pragma GCC unroll 8
      for (std::int64_t j = 0; j < kSixteens; ++j) decode(begin + 16 * j);
      continue;
    }
    const std::int64_t end = std::min(elements, begin + blocks.length);
    for (std::int64_t i = begin; i < end; i += 16) decode(i);
  }
}

// Numbers of their own for each element.
template <typename Type, Shift kShift>
GEMMD_AVX2 void DecodeEach256(const Codes16& codes, const Blocks& blocks, float* out) {
  const auto scaled = [&](std::int64_t i, __m256 x)
      __attribute__((target("avx2,fma,f16c"), always_inline)) {
    __m256 shift{};
    if constexpr (kShift != Shift::kNone) shift = _mm256_loadu_ps(ShiftsOf<kShift>(blocks) + i);
    return Scaled<kShift>(x, _mm256_loadu_ps(blocks.factors + i), shift);
  };
  for (std::int64_t i = 0; i < 16 * codes.count; i += 16) {
    const Pair x = Type::Load256(codes.data + BytesOf<Type>(i));
    _mm256_storeu_ps(out + i, scaled(i, x.low));
    _mm256_storeu_ps(out + i + 8, scaled(i + 8, x.high));
  }
}

template <typename Type, Shift kShift>
GEMMD_AVX512 void DecodeEach512(const Codes16& codes, const Blocks& blocks, float* out) {
  for (std::int64_t i = 0; i < 16 * codes.count; i += 16) {
    __m512 shift{};
    if constexpr (kShift != Shift::kNone) shift = _mm512_loadu_ps(ShiftsOf<kShift>(blocks) + i);
    const __m512 x = Type::Load512(codes.data + BytesOf<Type>(i));
    _mm512_storeu_ps(out + i, Scaled<kShift>(x, _mm512_loadu_ps(blocks.factors + i), shift));
  }
}

template <typename Type, Shift kShift>
__attribute__((target("avx2,fma,f16c"))) void DecodeAs256(const Codes16& codes,
                                                          const Blocks& blocks, float* out) {
  if (blocks.length == 1) return DecodeEach256<Type, kShift>(codes, blocks, out);
  DecodeBlocks256<Type, kShift>(codes, blocks, out);
}

template <typename Type, Shift kShift>
__attribute__((target("avx512f,avx2,fma,f16c"))) void DecodeAs512(const Codes16& codes,
                                                                  const Blocks& blocks,
                                                                  float* out) {
  if (blocks.length == 1) return DecodeEach512<Type, kShift>(codes, blocks, out);
  if (blocks.length == 32) return DecodeBlocks512<Type, kShift, 2>(codes, blocks, out);
  if (blocks.length == 128) return DecodeBlocks512<Type, kShift, 8>(codes, blocks, out);
  DecodeBlocks512<Type, kShift, 0>(codes, blocks, out);
}

// ------------------------------------------------------------- 4 bits

template <Shift kShift>
__attribute__((target("avx2,fma,f16c"))) void Decode4Bits256(const float* values,
                                                             const Codes16& codes,
                                                             const Blocks& blocks, float* out) {
  const std::int64_t elements = 16 * codes.count;
  const float* const shifts = ShiftsOf<kShift>(blocks);
  const __m256 low = _mm256_loadu_ps(values);
  const __m256 high = _mm256_loadu_ps(values + 8);
  if (blocks.length == 1) {
    for (std::int64_t i = 0; i < elements; i += 8) {
      __m256 shift{};
      if constexpr (kShift != Shift::kNone) shift = _mm256_loadu_ps(shifts + i);
      const __m256 x = Look256(low, high, codes.data + i / 2);
      _mm256_storeu_ps(out + i, Scaled<kShift>(x, _mm256_loadu_ps(blocks.factors + i), shift));
    }
    return;
  }
  for (std::int64_t begin = 0, block = 0; begin < elements; begin += blocks.length, ++block) {
    const __m256 factor = _mm256_set1_ps(blocks.factors[block]);
    __m256 shift{};
    if constexpr (kShift != Shift::kNone) shift = _mm256_set1_ps(shifts[block]);
    const __m256 scaled_low = Scaled<kShift>(low, factor, shift);
    const __m256 scaled_high = Scaled<kShift>(high, factor, shift);
    const std::int64_t end = std::min(elements, begin + blocks.length);
    for (std::int64_t i = begin; i < end; i += 8) {
      _mm256_storeu_ps(out + i, Look256(scaled_low, scaled_high, codes.data + i / 2));
    }
  }
}

template <Shift kShift, int kSixteens>
GEMMD_AVX512 void Decode4BitBlocks512(__m512 table, const Codes16& codes, const Blocks& blocks,
                                      float* out) {
  const std::int64_t elements = 16 * codes.count;
  std::int64_t begin = 0;
  for (std::int64_t block = 0; begin < elements; begin += blocks.length, ++block) {
    __m512 shift{};
    if constexpr (kShift != Shift::kNone) shift = _mm512_set1_ps(ShiftsOf<kShift>(blocks)[block]);
    const __m512 scaled = Scaled<kShift>(table, _mm512_set1_ps(blocks.factors[block]), shift);
    if (kSixteens != 0 && begin + blocks.length <= elements) {
#pragma GCC unroll 8
      for (std::int64_t j = 0; j < kSixteens; ++j) {
        _mm512_storeu_ps(out + begin + 16 * j, Look512(scaled, codes.data + begin / 2 + 8 * j));
      }
      continue;
    }
    const std::int64_t end = std::min(elements, begin + blocks.length);
    for (std::int64_t i = begin; i < end; i += 16) {
      _mm512_storeu_ps(out + i, Look512(scaled, codes.data + i / 2));
    }
  }
}

template <Shift kShift>
__attribute__((target("avx512f,avx2,fma,f16c"))) void Decode4Bits512(const float* values,
                                                                     const Codes16& codes,
                                                                     const Blocks& blocks,
                                                                     float* out) {
  const __m512 table = _mm512_loadu_ps(values);
  if (blocks.length == 32) return Decode4BitBlocks512<kShift, 2>(table, codes, blocks, out);
  if (blocks.length == 128) return Decode4BitBlocks512<kShift, 8>(table, codes, blocks, out);
  if (blocks.length != 1) return Decode4BitBlocks512<kShift, 0>(table, codes, blocks, out);
  for (std::int64_t i = 0; i < 16 * codes.count; i += 16) {
    __m512 shift{};
    if constexpr (kShift != Shift::kNone) shift = _mm512_loadu_ps(ShiftsOf<kShift>(blocks) + i);
    const __m512 x = Look512(table, codes.data + i / 2);
    _mm512_storeu_ps(out + i, Scaled<kShift>(x, _mm512_loadu_ps(blocks.factors + i), shift));
  }
}

// ------------------------------------------------------------- the largest

__attribute__((target("avx2,fma,f16c"))) float LargestFinite256(const float* values,
                                                                std::int64_t count) {
  __m256i largest = _mm256_setzero_si256();
  for (std::int64_t i = 0; i < 2 * count; ++i) {
    const __m256i magnitude =
        _mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(values + 8 * i)),
                         _mm256_set1_epi32(0x7fffffff));
    const __m256i is_finite = _mm256_cmpgt_epi32(_mm256_set1_epi32(0x7f800000), magnitude);
    largest = _mm256_max_epi32(largest, _mm256_and_si256(magnitude, is_finite));
  }
  std::uint32_t lanes[8];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), largest);
  return FloatOf(*std::max_element(std::begin(lanes), std::end(lanes)));
}

__attribute__((target("avx512f"))) float LargestFinite512(const float* values, std::int64_t count) {
  __m512i largest = _mm512_setzero_si512();
  for (std::int64_t i = 0; i < count; ++i) {
    const __m512i magnitude =
        _mm512_and_si512(_mm512_loadu_si512(values + 16 * i), _mm512_set1_epi32(0x7fffffff));
    const auto is_finite = _mm512_cmplt_epi32_mask(magnitude, _mm512_set1_epi32(0x7f800000));
    largest = _mm512_mask_max_epi32(largest, is_finite, largest, magnitude);
  }
  return FloatOf(static_cast<std::uint32_t>(_mm512_reduce_max_epi32(largest)));
}

// ------------------------------------------------------------- by type

bool Decode256(DataType type, const Codes16& codes, const Blocks& blocks, float* out) {
  return WithShift(blocks, [&](auto shift) {
    if (SizeBits(type) == 4) {
      Decode4Bits256<shift()>(ValuesOf4Bits(type), codes, blocks, out);
      return true;
    }
    return WithType(type, [&](auto of_type) {
      DecodeAs256<decltype(of_type), shift()>(codes, blocks, out);
      return true;
    });
  });
}

bool Decode512(DataType type, const Codes16& codes, const Blocks& blocks, float* out) {
  return WithShift(blocks, [&](auto shift) {
    if (SizeBits(type) == 4) {
      Decode4Bits512<shift()>(ValuesOf4Bits(type), codes, blocks, out);
      return true;
    }
    return WithType(type, [&](auto of_type) {
      DecodeAs512<decltype(of_type), shift()>(codes, blocks, out);
      return true;
    });
  });
}

}  // namespace
}  // namespace x86

// F16C is older than AVX2: what has the one has the other.
const CodeForm* Avx2CodeForm() {
  static constexpr CodeForm kForm = {x86::Decode256, x86::LargestFinite256, x86::AddDots256,
                                     x86::AddLines256};
  return &kForm;
}

const CodeForm* Avx512CodeForm() {
  static constexpr CodeForm kForm = {x86::Decode512, x86::LargestFinite512, x86::AddDots512,
                                     x86::AddLines512};
  return &kForm;
}

}  // namespace gemmd

#else

namespace gemmd {

const CodeForm* Avx2CodeForm() { return nullptr; }
const CodeForm* Avx512CodeForm() { return nullptr; }

}  // namespace gemmd

#endif
