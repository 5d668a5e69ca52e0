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
