// AddCodeLines() in the registers of x86-64.
#include "kernels/cpu/code_form.h"

#if defined(__x86_64__)

#include "kernels/cpu/code_types_x86.h"

namespace gemmd::x86 {
namespace {

constexpr std::int64_t kSixteen = 16;

// Each form has a loop of its own, as in row_tile.cc.

template <class Type, int kSteps>
GEMMD_AVX512 void AddSteps512(const CodeRows& lines, std::int64_t columns, const DotRows& rows,
                              float* sums, std::int64_t pitch) {
  for (std::int64_t column = 0; column < columns; column += kSixteen) {
    __m512 b[kSteps];
#pragma GCC unroll 4
    for (int i = 0; i < kSteps; ++i) {
      b[i] = Type::Load512(lines.codes + i * lines.pitch + BytesOf<Type>(column));
    }
    for (std::int64_t row = 0; row < rows.count; ++row) {
      const float* const a = rows.data + row * rows.pitch;
      float* const to = sums + row * pitch + column;
      __m512 sum = _mm512_loadu_ps(to);
#pragma GCC unroll 4
      for (int i = 0; i < kSteps; ++i) {
        sum = _mm512_fmadd_ps(_mm512_set1_ps(a[i * kSixteen]), b[i], sum);
      }
      _mm512_storeu_ps(to, sum);
    }
  }
}

template <class Type, int kSteps>
GEMMD_AVX2 void AddSteps256(const CodeRows& lines, std::int64_t columns, const DotRows& rows,
                            float* sums, std::int64_t pitch) {
  for (std::int64_t column = 0; column < columns; column += kSixteen) {
    Pair b[kSteps];
#pragma GCC unroll 4
    for (int i = 0; i < kSteps; ++i) {
      b[i] = Type::Load256(lines.codes + i * lines.pitch + BytesOf<Type>(column));
    }
    for (std::int64_t row = 0; row < rows.count; ++row) {
      const float* const a = rows.data + row * rows.pitch;
      float* const to = sums + row * pitch + column;
      Pair sum = {_mm256_loadu_ps(to), _mm256_loadu_ps(to + 8)};
#pragma GCC unroll 4
      for (int i = 0; i < kSteps; ++i) {
        const __m256 x = _mm256_set1_ps(a[i * kSixteen]);
        sum = {_mm256_fmadd_ps(x, b[i].low, sum.low), _mm256_fmadd_ps(x, b[i].high, sum.high)};
      }
      _mm256_storeu_ps(to, sum.low);
      _mm256_storeu_ps(to + 8, sum.high);
    }
  }
}

template <class Type>
__attribute__((target("avx512f,avx2,fma,f16c"))) void AddAs512(CodeRows lines, std::int64_t columns,
                                                               DotRows rows, std::int64_t steps,
                                                               float* sums, std::int64_t pitch) {
  if (steps == kLineSteps) return AddSteps512<Type, kLineSteps>(lines, columns, rows, sums, pitch);
  for (; steps > 0; --steps, lines.codes += lines.pitch, rows.data += kSixteen) {
    AddSteps512<Type, 1>(lines, columns, rows, sums, pitch);
  }
}

template <class Type>
__attribute__((target("avx2,fma,f16c"))) void AddAs256(CodeRows lines, std::int64_t columns,
                                                       DotRows rows, std::int64_t steps,
                                                       float* sums, std::int64_t pitch) {
  if (steps == kLineSteps) return AddSteps256<Type, kLineSteps>(lines, columns, rows, sums, pitch);
  for (; steps > 0; --steps, lines.codes += lines.pitch, rows.data += kSixteen) {
    AddSteps256<Type, 1>(lines, columns, rows, sums, pitch);
  }
}

}  // namespace

bool AddLines512(const CodeRows& lines, std::int64_t columns, const DotRows& rows,
                 std::int64_t steps, float* sums, std::int64_t pitch) {
  return WithType(lines.type, [&](auto of_type) {
    AddAs512<decltype(of_type)>(lines, columns, rows, steps, sums, pitch);
    return true;
  });
}

bool AddLines256(const CodeRows& lines, std::int64_t columns, const DotRows& rows,
                 std::int64_t steps, float* sums, std::int64_t pitch) {
  return WithType(lines.type, [&](auto of_type) {
    AddAs256<decltype(of_type)>(lines, columns, rows, steps, sums, pitch);
    return true;
  });
}

}  // namespace gemmd::x86

#endif
