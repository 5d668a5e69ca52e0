// The forms of x86-64, which are chosen when the program runs.
#include "kernels/cpu/code_form.h"

#if defined(__x86_64__)

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/numbers/float_bits.h"
#include "kernels/cpu/intrinsics.h"

namespace gemmd {
namespace {

#define GEMMD_AVX2 __attribute__((target("avx2,fma,f16c"), always_inline)) inline
#define GEMMD_AVX512 __attribute__((target("avx512f,avx2,fma,f16c"), always_inline)) inline

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
    const Pair pair = Load256(p);
    return _mm512_castpd_ps(_mm512_insertf64x4(_mm512_castps_pd(_mm512_castps256_ps512(pair.low)),
                                               _mm256_castps_pd(pair.high), 1));
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

// ------------------------------------------------------------- loops

// Where element i begins, a multiple of 16.
template <typename Type>
constexpr std::int64_t BytesOf(std::int64_t i) {
  return i / 16 * (2 * Type::kBits);
}

// A factor and a zero point for each block, in registers while its elements pass.

template <typename Type, bool kHasZeros>
GEMMD_AVX2 void DecodeBlocks256(const Codes16& codes, const Blocks& blocks, float* out) {
  const std::int64_t elements = 16 * codes.count;
  for (std::int64_t begin = 0, block = 0; begin < elements; begin += blocks.length, ++block) {
    const __m256 factor = _mm256_set1_ps(blocks.factors[block]);
    const __m256 zero = _mm256_set1_ps(kHasZeros ? blocks.zero_points[block] : 0);
    const std::int64_t end = std::min(elements, begin + blocks.length);
    for (std::int64_t i = begin; i < end; i += 16) {
      Pair x = Type::Load256(codes.data + BytesOf<Type>(i));
      if constexpr (kHasZeros) x = {_mm256_sub_ps(x.low, zero), _mm256_sub_ps(x.high, zero)};
      _mm256_storeu_ps(out + i, _mm256_mul_ps(x.low, factor));
      _mm256_storeu_ps(out + i + 8, _mm256_mul_ps(x.high, factor));
    }
  }
}

// Blocks of `kSixteens` registers, where there are as many, are unrolled: one of 32 elements is
// over too soon for a loop.
template <typename Type, bool kHasZeros, int kSixteens>
GEMMD_AVX512 void DecodeBlocks512(const Codes16& codes, const Blocks& blocks, float* out) {
  const std::int64_t elements = 16 * codes.count;
  std::int64_t begin = 0;
  for (std::int64_t block = 0; begin < elements; begin += blocks.length, ++block) {
    const __m512 factor = _mm512_set1_ps(blocks.factors[block]);
    const __m512 zero = _mm512_set1_ps(kHasZeros ? blocks.zero_points[block] : 0);
    const auto decode = [&](std::int64_t i)
        __attribute__((target("avx512f,avx2,fma,f16c"), always_inline)) {
      __m512 x = Type::Load512(codes.data + BytesOf<Type>(i));
      if constexpr (kHasZeros) x = _mm512_sub_ps(x, zero);
      _mm512_storeu_ps(out + i, _mm512_mul_ps(x, factor));
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

// A factor and a zero point for each element.
template <typename Type>
GEMMD_AVX2 void DecodeEach256(const Codes16& codes, const Blocks& blocks, float* out) {
  for (std::int64_t i = 0; i < 16 * codes.count; i += 16) {
    Pair x = Type::Load256(codes.data + BytesOf<Type>(i));
    if (blocks.zero_points != nullptr) {
      x.low = _mm256_sub_ps(x.low, _mm256_loadu_ps(blocks.zero_points + i));
      x.high = _mm256_sub_ps(x.high, _mm256_loadu_ps(blocks.zero_points + i + 8));
    }
    _mm256_storeu_ps(out + i, _mm256_mul_ps(x.low, _mm256_loadu_ps(blocks.factors + i)));
    _mm256_storeu_ps(out + i + 8, _mm256_mul_ps(x.high, _mm256_loadu_ps(blocks.factors + i + 8)));
  }
}

template <typename Type>
GEMMD_AVX512 void DecodeEach512(const Codes16& codes, const Blocks& blocks, float* out) {
  for (std::int64_t i = 0; i < 16 * codes.count; i += 16) {
    __m512 x = Type::Load512(codes.data + BytesOf<Type>(i));
    if (blocks.zero_points != nullptr) {
      x = _mm512_sub_ps(x, _mm512_loadu_ps(blocks.zero_points + i));
    }
    _mm512_storeu_ps(out + i, _mm512_mul_ps(x, _mm512_loadu_ps(blocks.factors + i)));
  }
}

template <typename Type>
__attribute__((target("avx2,fma,f16c"))) void DecodeAs256(const Codes16& codes,
                                                          const Blocks& blocks, float* out) {
  if (blocks.length == 1) return DecodeEach256<Type>(codes, blocks, out);
  if (blocks.zero_points != nullptr) return DecodeBlocks256<Type, true>(codes, blocks, out);
  DecodeBlocks256<Type, false>(codes, blocks, out);
}

template <typename Type, bool kHasZeros>
GEMMD_AVX512 void DecodeBlocksAs512(const Codes16& codes, const Blocks& blocks, float* out) {
  if (blocks.length == 32) return DecodeBlocks512<Type, kHasZeros, 2>(codes, blocks, out);
  if (blocks.length == 128) return DecodeBlocks512<Type, kHasZeros, 8>(codes, blocks, out);
  DecodeBlocks512<Type, kHasZeros, 0>(codes, blocks, out);
}

template <typename Type>
__attribute__((target("avx512f,avx2,fma,f16c"))) void DecodeAs512(const Codes16& codes,
                                                                  const Blocks& blocks,
                                                                  float* out) {
  if (blocks.length == 1) return DecodeEach512<Type>(codes, blocks, out);
  if (blocks.zero_points != nullptr) return DecodeBlocksAs512<Type, true>(codes, blocks, out);
  DecodeBlocksAs512<Type, false>(codes, blocks, out);
}

// ------------------------------------------------------------- 4 bits

// Codes are places in a table of 16 values, to which a block's zero point and factor are applied
// once.

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

__attribute__((target("avx2,fma,f16c"))) void Decode4Bits256(const float* values,
                                                             const Codes16& codes,
                                                             const Blocks& blocks, float* out) {
  const std::int64_t elements = 16 * codes.count;
  const bool has_zeros = blocks.zero_points != nullptr;
  const __m256 low = _mm256_loadu_ps(values);
  const __m256 high = _mm256_loadu_ps(values + 8);
  if (blocks.length == 1) {
    for (std::int64_t i = 0; i < elements; i += 8) {
      __m256 x = Look256(low, high, codes.data + i / 2);
      if (has_zeros) x = _mm256_sub_ps(x, _mm256_loadu_ps(blocks.zero_points + i));
      _mm256_storeu_ps(out + i, _mm256_mul_ps(x, _mm256_loadu_ps(blocks.factors + i)));
    }
    return;
  }
  for (std::int64_t begin = 0, block = 0; begin < elements; begin += blocks.length, ++block) {
    const __m256 factor = _mm256_set1_ps(blocks.factors[block]);
    const __m256 zero = _mm256_set1_ps(has_zeros ? blocks.zero_points[block] : 0);
    const __m256 scaled_low = _mm256_mul_ps(_mm256_sub_ps(low, zero), factor);
    const __m256 scaled_high = _mm256_mul_ps(_mm256_sub_ps(high, zero), factor);
    const std::int64_t end = std::min(elements, begin + blocks.length);
    for (std::int64_t i = begin; i < end; i += 8) {
      _mm256_storeu_ps(out + i, Look256(scaled_low, scaled_high, codes.data + i / 2));
    }
  }
}

template <int kSixteens>
GEMMD_AVX512 void Decode4BitBlocks512(__m512 table, const Codes16& codes, const Blocks& blocks,
                                      float* out) {
  const std::int64_t elements = 16 * codes.count;
  std::int64_t begin = 0;
  for (std::int64_t block = 0; begin < elements; begin += blocks.length, ++block) {
    const __m512 zero =
        _mm512_set1_ps(blocks.zero_points == nullptr ? 0 : blocks.zero_points[block]);
    const __m512 scaled =
        _mm512_mul_ps(_mm512_sub_ps(table, zero), _mm512_set1_ps(blocks.factors[block]));
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

__attribute__((target("avx512f,avx2,fma,f16c"))) void Decode4Bits512(const float* values,
                                                                     const Codes16& codes,
                                                                     const Blocks& blocks,
                                                                     float* out) {
  const __m512 table = _mm512_loadu_ps(values);
  if (blocks.length == 32) return Decode4BitBlocks512<2>(table, codes, blocks, out);
  if (blocks.length == 128) return Decode4BitBlocks512<8>(table, codes, blocks, out);
  if (blocks.length != 1) return Decode4BitBlocks512<0>(table, codes, blocks, out);
  for (std::int64_t i = 0; i < 16 * codes.count; i += 16) {
    __m512 x = Look512(table, codes.data + i / 2);
    if (blocks.zero_points != nullptr) {
      x = _mm512_sub_ps(x, _mm512_loadu_ps(blocks.zero_points + i));
    }
    _mm512_storeu_ps(out + i, _mm512_mul_ps(x, _mm512_loadu_ps(blocks.factors + i)));
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

bool Decode256(DataType type, const Codes16& codes, const Blocks& blocks, float* out) {
  if (SizeBits(type) == 4) {
    Decode4Bits256(ValuesOf4Bits(type), codes, blocks, out);
    return true;
  }
  return WithType(type, [&](auto of_type) {
    DecodeAs256<decltype(of_type)>(codes, blocks, out);
    return true;
  });
}

bool Decode512(DataType type, const Codes16& codes, const Blocks& blocks, float* out) {
  if (SizeBits(type) == 4) {
    Decode4Bits512(ValuesOf4Bits(type), codes, blocks, out);
    return true;
  }
  return WithType(type, [&](auto of_type) {
    DecodeAs512<decltype(of_type)>(codes, blocks, out);
    return true;
  });
}

}  // namespace

// F16C is older than AVX2: what has the one has the other.
const CodeForm* Avx2CodeForm() {
  static constexpr CodeForm kForm = {Decode256, LargestFinite256};
  return &kForm;
}

const CodeForm* Avx512CodeForm() {
  static constexpr CodeForm kForm = {Decode512, LargestFinite256};
  return &kForm;
}

}  // namespace gemmd

#else

namespace gemmd {

const CodeForm* Avx2CodeForm() { return nullptr; }
const CodeForm* Avx512CodeForm() { return nullptr; }

}  // namespace gemmd

#endif
