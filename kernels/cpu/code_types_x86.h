// Codes in registers of x86-64, as values of f32. Functions name the instructions that they need,
// which the program looks for when it runs.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/numbers/types.h"
#include "kernels/cpu/code_run.h"
#include "kernels/cpu/intrinsics.h"

#define GEMMD_AVX2 __attribute__((target("avx2,fma,f16c"), always_inline)) inline
#define GEMMD_AVX512 __attribute__((target("avx512f,avx2,fma,f16c"), always_inline)) inline

namespace gemmd::x86 {

// 16 elements in registers of 32 bytes.
struct Pair {
  __m256 low;
  __m256 high;
};

GEMMD_AVX2 __m128i LoadBytes(const std::uint8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
GEMMD_AVX2 __m256i LoadWords(const std::uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

// ------------------------------------------------------------- types

// Each has the bits of an element, and the values of the 16 elements from `p` on in either form.

struct OfF32 {
  static constexpr int kBits = 32;
  GEMMD_AVX2 static Pair Load256(const std::uint8_t* p) {
    const auto* values = reinterpret_cast<const float*>(p);
    return {_mm256_loadu_ps(values), _mm256_loadu_ps(values + 8)};
  }
  GEMMD_AVX512 static __m512 Load512(const std::uint8_t* p) { return _mm512_loadu_ps(p); }
};

struct OfBf16 {
  static constexpr int kBits = 16;
  GEMMD_AVX2 static Pair Load256(const std::uint8_t* p) {
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(LoadBytes(p)), 16)),
            _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(LoadBytes(p + 16)), 16))};
  }
  GEMMD_AVX512 static __m512 Load512(const std::uint8_t* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(LoadWords(p)), 16));
  }
};

struct OfInt8 {
  static constexpr int kBits = 8;
  GEMMD_AVX2 static Pair Load256(const std::uint8_t* p) {
    const __m128i codes = LoadBytes(p);
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(codes)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(codes, 8)))};
  }
  GEMMD_AVX512 static __m512 Load512(const std::uint8_t* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(LoadBytes(p)));
  }
};

struct OfUInt8 {
  static constexpr int kBits = 8;
  GEMMD_AVX2 static Pair Load256(const std::uint8_t* p) {
    const __m128i codes = LoadBytes(p);
    return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(codes)),
            _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(codes, 8)))};
  }
  GEMMD_AVX512 static __m512 Load512(const std::uint8_t* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(LoadBytes(p)));
  }
};

// A power of two in binary32's exponent; code 0 is 2^-127, which is subnormal, and 255 is NaN.
struct OfE8M0 {
  static constexpr int kBits = 8;
  GEMMD_AVX2 static __m256 Power(__m256i code) {
    const __m256i is_first = _mm256_cmpeq_epi32(code, _mm256_setzero_si256());
    const __m256i is_last = _mm256_cmpeq_epi32(code, _mm256_set1_epi32(255));
    const __m256i fraction =
        _mm256_and_si256(_mm256_or_si256(is_first, is_last), _mm256_set1_epi32(0x00400000));
    return _mm256_castsi256_ps(_mm256_or_si256(_mm256_slli_epi32(code, 23), fraction));
  }
  GEMMD_AVX2 static Pair Load256(const std::uint8_t* p) {
    const __m128i codes = LoadBytes(p);
    return {Power(_mm256_cvtepu8_epi32(codes)),
            Power(_mm256_cvtepu8_epi32(_mm_srli_si128(codes, 8)))};
  }
  GEMMD_AVX512 static __m512 Load512(const std::uint8_t* p) {
    const __m512i code = _mm512_cvtepu8_epi32(LoadBytes(p));
    const auto is_first = _mm512_cmpeq_epi32_mask(code, _mm512_setzero_si512());
    const auto is_last = _mm512_cmpeq_epi32_mask(code, _mm512_set1_epi32(255));
    const __m512i power = _mm512_slli_epi32(code, 23);
    return _mm512_castsi512_ps(_mm512_mask_or_epi32(
        power, static_cast<__mmask16>(is_first | is_last), power, _mm512_set1_epi32(0x00400000)));
  }
};

// Elements that are found as f16 and multiplied by a power of two: where exponents differ in their
// bias alone, fields need no more than a shift. Subnormals come out right, too.
template <typename Words>
struct ByF16 {
  static constexpr int kBits = Words::kBits;
  GEMMD_AVX2 static Pair Load256(const std::uint8_t* p) {
    const __m256i words = Words::Load(p);
    const __m256 power = _mm256_set1_ps(Words::kPower);
    return {_mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(words)), power),
            _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(words, 1)), power)};
  }
  GEMMD_AVX512 static __m512 Load512(const std::uint8_t* p) {
    return _mm512_mul_ps(_mm512_cvtph_ps(Words::Load(p)), _mm512_set1_ps(Words::kPower));
  }
};

struct F16Words {
  static constexpr int kBits = 16;
  static constexpr float kPower = 1;
  GEMMD_AVX2 static __m256i Load(const std::uint8_t* p) { return LoadWords(p); }
};

// The upper half of an f16.
struct E5M2Words {
  static constexpr int kBits = 8;
  static constexpr float kPower = 1;
  GEMMD_AVX2 static __m256i Load(const std::uint8_t* p) {
    return _mm256_slli_epi16(_mm256_cvtepu8_epi16(LoadBytes(p)), 8);
  }
};

// S.1111.111 is NaN: its exponent is filled up.
struct E4M3Words {
  static constexpr int kBits = 8;
  static constexpr float kPower = 0x1p8F;  // biases of 15 and 7
  GEMMD_AVX2 static __m256i Load(const std::uint8_t* p) {
    const __m256i code = _mm256_cvtepu8_epi16(LoadBytes(p));
    const __m256i magnitude = _mm256_and_si256(code, _mm256_set1_epi16(0x7f));
    const __m256i sign = _mm256_slli_epi16(_mm256_xor_si256(code, magnitude), 8);
    const __m256i is_nan = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x7f));
    const __m256i filled = _mm256_and_si256(is_nan, _mm256_set1_epi16(0x7c00));
    return _mm256_or_si256(_mm256_or_si256(sign, _mm256_slli_epi16(magnitude, 7)), filled);
  }
};

// 16 codes of 6 bits, each at the top of 16 bits.
GEMMD_AVX2 __m256i LoadSixBits(const std::uint8_t* p) {
  std::uint64_t first;
  std::uint32_t last;
  std::memcpy(&first, p, sizeof first);
  std::memcpy(&last, p + 8, sizeof last);
  const __m128i bytes = _mm_set_epi64x(last, static_cast<std::int64_t>(first));
  // The two bytes that hold a code, whose shift is 0, 6, 4 and 2 in turns.
  const __m256i pairs =
      _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes),
                          _mm256_setr_epi8(0, 1, 0, 1, 1, 2, 2, 3, 3, 4, 3, 4, 4, 5, 5, 6, 6, 7, 6,
                                           7, 7, 8, 8, 9, 9, 10, 9, 10, 10, 11, 11, 12));
  const __m256i left = _mm256_set1_epi64x(0x0100004000100400);  // 2^(10 - shift)
  return _mm256_and_si256(_mm256_mullo_epi16(pairs, left),
                          _mm256_set1_epi16(static_cast<short>(0xfc00)));
}

// Sign, then a magnitude that goes `kShift` places down into f16's fields.
template <int kShift>
GEMMD_AVX2 __m256i SixBitWords(const std::uint8_t* p) {
  const __m256i codes = LoadSixBits(p);
  const __m256i magnitude = _mm256_and_si256(codes, _mm256_set1_epi16(0x7c00));
  return _mm256_or_si256(_mm256_xor_si256(codes, magnitude), _mm256_srli_epi16(magnitude, kShift));
}

struct E3M2Words {
  static constexpr int kBits = 6;
  static constexpr float kPower = 0x1p12F;  // biases of 15 and 3
  GEMMD_AVX2 static __m256i Load(const std::uint8_t* p) { return SixBitWords<2>(p); }
};

struct E2M3Words {
  static constexpr int kBits = 6;
  static constexpr float kPower = 0x1p14F;  // biases of 15 and 1
  GEMMD_AVX2 static __m256i Load(const std::uint8_t* p) { return SixBitWords<3>(p); }
};

// Where element i begins, a multiple of 16.
template <typename Type>
constexpr std::int64_t BytesOf(std::int64_t i) {
  return i / 16 * (2 * Type::kBits);
}

// ------------------------------------------------------------- numbers of blocks

// A zero point is taken from a value before it is scaled, an offset is added afterwards.
enum class Shift : std::uint8_t { kNone, kZeroPoint, kOffset };

// Returns use(std::integral_constant<Shift, ...>()) of what the blocks have.
template <typename Use>
auto WithShift(const Blocks& blocks, const Use& use) {
  if (blocks.offsets != nullptr) return use(std::integral_constant<Shift, Shift::kOffset>());
  if (blocks.zero_points != nullptr) {
    return use(std::integral_constant<Shift, Shift::kZeroPoint>());
  }
  return use(std::integral_constant<Shift, Shift::kNone>());
}

template <Shift kShift>
const float* ShiftsOf(const Blocks& blocks) {
  return kShift == Shift::kOffset ? blocks.offsets : blocks.zero_points;
}

// Value `x` with its block's numbers, rounded once; `shift` means nothing of Shift::kNone.
template <Shift kShift>
GEMMD_AVX2 __m256 Scaled(__m256 x, __m256 factor, __m256 shift) {
  if constexpr (kShift == Shift::kOffset) return _mm256_fmadd_ps(x, factor, shift);
  if constexpr (kShift == Shift::kZeroPoint) x = _mm256_sub_ps(x, shift);
  return _mm256_mul_ps(x, factor);
}
template <Shift kShift>
GEMMD_AVX512 __m512 Scaled(__m512 x, __m512 factor, __m512 shift) {
  if constexpr (kShift == Shift::kOffset) return _mm512_fmadd_ps(x, factor, shift);
  if constexpr (kShift == Shift::kZeroPoint) x = _mm512_sub_ps(x, shift);
  return _mm512_mul_ps(x, factor);
}

// ------------------------------------------------------------- 4 bits

// Codes are places in a table of 16 values, to which a block's numbers are applied once.

GEMMD_AVX2 __m256 Look256(__m256 low, __m256 high, const std::uint8_t* p) {
  std::int32_t eight;
  std::memcpy(&eight, p, sizeof eight);
  const __m256i places =
      _mm256_srlv_epi32(_mm256_set1_epi32(eight), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
  const __m256 is_high = _mm256_castsi256_ps(_mm256_slli_epi32(places, 28));
  return _mm256_blendv_ps(_mm256_permutevar8x32_ps(low, places),
                          _mm256_permutevar8x32_ps(high, places), is_high);
}

GEMMD_AVX512 __m512 Look512(__m512 table, const std::uint8_t* p) {
  const __m512i codes =
      _mm512_castsi128_si512(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  const __m512i halves = _mm512_permutexvar_epi32(
      _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1), codes);
  const __m512i places = _mm512_srlv_epi32(
      halves, _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28));
  return _mm512_permutexvar_ps(places, table);
}

// As Look512(), but elements i and 8 + i lie side by side.
GEMMD_AVX512 __m512 LookInTurns512(__m512 table, const std::uint8_t* p) {
  std::int64_t sixteen;
  std::memcpy(&sixteen, p, sizeof sixteen);
  const __m512i places = _mm512_srlv_epi32(
      _mm512_set1_epi64(sixteen),
      _mm512_setr_epi32(0, 0, 4, 4, 8, 8, 12, 12, 16, 16, 20, 20, 24, 24, 28, 28));
  return _mm512_permutexvar_ps(places, table);
}

// ------------------------------------------------------------- by type

// Returns use(Type()), or false for types without registers of their own.
template <typename Use>
bool WithType(DataType type, const Use& use) {
  switch (type) {
    case DataType::kF32:
      return use(OfF32());
    case DataType::kF16:
      return use(ByF16<F16Words>());
    case DataType::kBf16:
      return use(OfBf16());
    case DataType::kInt8:
      return use(OfInt8());
    case DataType::kUint8:
      return use(OfUInt8());
    case DataType::kFp8E4M3:
      return use(ByF16<E4M3Words>());
    case DataType::kFp8E5M2:
      return use(ByF16<E5M2Words>());
    case DataType::kFp6E3M2:
      return use(ByF16<E3M2Words>());
    case DataType::kFp6E2M3:
      return use(ByF16<E2M3Words>());
    case DataType::kE8M0:
      return use(OfE8M0());
    default:
      return false;
  }
}

}  // namespace gemmd::x86
