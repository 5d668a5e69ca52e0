#include "kernels/cpu/code_run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>

#include "base/numbers/float_bits.h"
#include "base/numbers/quant/elements.h"
#include "base/numbers/quant/packed_codes.h"
#include "kernels/cpu/code_dots.h"
#include "kernels/cpu/code_form.h"

namespace gemmd {
namespace {

using Table = std::array<float, 256>;

// The values of every code of a type of at most 8 bits.
const Table& TableOf(DataType type) {
  static const auto& tables = *[] {
    auto* all = new std::array<Table, std::size(kDataTypes)>();
    for (const DataTypeTraits& each : kDataTypes) {
      if (each.role != DataTypeRole::kCodes && each.role != DataTypeRole::kScales) continue;
      for (std::uint32_t code = 0; code < 256; ++code) {
        (*all)[static_cast<std::size_t>(each.type)][code] =
            static_cast<float>(DecodeElement(each.type, code));
      }
    }
    return all;
  }();
  return tables[static_cast<std::size_t>(type)];
}

float ValueOf(const CodeRun& run, std::int64_t i) {
  const std::uint32_t code = LoadCode(run.plane, SizeBits(run.type), run.first + i);
  switch (run.type) {
    case DataType::kF32:
      return FloatOf(code);
    case DataType::kF16:
      return FromF16(static_cast<std::uint16_t>(code));
    case DataType::kBf16:
      return FromBf16(static_cast<std::uint16_t>(code));
    default:
      return TableOf(run.type)[code];
  }
}

void DecodePlain(const CodeRun& run, const Blocks& blocks, float* out) {
  for (std::int64_t begin = 0, block = 0; begin < run.count; begin += blocks.length, ++block) {
    const float zero = blocks.zero_points == nullptr ? 0 : blocks.zero_points[block];
    const float factor = blocks.factors[block];
    const std::int64_t end = std::min(run.count, begin + blocks.length);
    if (blocks.offsets != nullptr) {
      for (std::int64_t i = begin; i < end; ++i) {
        out[i] = std::fma(ValueOf(run, i), factor, blocks.offsets[block]);
      }
      continue;
    }
    for (std::int64_t i = begin; i < end; ++i) {
      out[i] = (ValueOf(run, i) - zero) * factor;
    }
  }
}

float LargestFinitePlain(const float* values, std::int64_t count) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t magnitude = BitsOf(values[i]) & 0x7fffffffU;
    if (magnitude < 0x7f800000U) largest = std::max(largest, magnitude);
  }
  return FloatOf(largest);
}

constexpr std::int64_t kSixteen = 16;

// Decodes the elements from `begin` on, fewer than 16. Their codes are copied first, so that no
// load reaches past the plane.
void DecodeRest(const CodeForm& form, const CodeRun& run, const Blocks& blocks, std::int64_t begin,
                float* out) {
  const int bits = SizeBits(run.type);
  const std::int64_t count = run.count - begin;
  std::uint8_t codes[kSixteen * sizeof(float)] = {};
  std::memcpy(codes, static_cast<const std::uint8_t*>(run.plane) + (run.first + begin) * bits / 8,
              static_cast<std::size_t>((count * bits + 7) / 8));
  const std::int64_t block = begin / blocks.length;
  const std::int64_t numbers = blocks.length == 1 ? count : 1;
  float copies[3][kSixteen] = {};
  const auto copy = [block, numbers](const float* from, float* to) -> const float* {
    if (from == nullptr) return nullptr;
    std::copy_n(from + block, numbers, to);
    return to;
  };
  float values[kSixteen];
  form.decode(run.type, {codes, 1},
              {blocks.length, copy(blocks.factors, copies[0]), copy(blocks.zero_points, copies[1]),
               copy(blocks.offsets, copies[2])},
              values);
  std::copy_n(values, count, out + begin);
}

const CodeForm* FormFor(RowGemmForm form) {
  switch (form) {
    case RowGemmForm::kPlain:
      break;
    case RowGemmForm::kAvx2:
      return Avx2CodeForm();
    case RowGemmForm::kAvx512:
      return Avx512CodeForm();
  }
  return nullptr;
}

}  // namespace

const float* ValuesOf4Bits(DataType type) { return TableOf(type).data(); }

void DecodeRun(const CodeRun& run, const Blocks& blocks, float* out, RowGemmForm form) {
  const CodeForm* const of_form = FormFor(form);
  const int bits = SizeBits(run.type);
  // Registers begin with a byte.
  if (of_form == nullptr || run.first * bits % 8 != 0) return DecodePlain(run, blocks, out);
  const std::uint8_t* const data =
      static_cast<const std::uint8_t*>(run.plane) + run.first * bits / 8;
  const std::int64_t whole = run.count / kSixteen;
  if (!of_form->decode(run.type, {data, whole}, blocks, out)) return DecodePlain(run, blocks, out);
  if (whole * kSixteen < run.count) DecodeRest(*of_form, run, blocks, whole * kSixteen, out);
}

bool AddCodeDots(const CodeLines& lines, const DotRows& rows, std::int64_t steps, float* chains,
                 RowGemmForm form) {
  const CodeForm* const of_form = FormFor(form);
  return of_form != nullptr && of_form->add_dots(lines, rows, steps, chains);
}

bool AddCodeLines(const CodeRows& lines, std::int64_t columns, const DotRows& rows,
                  std::int64_t steps, float* sums, std::int64_t pitch, RowGemmForm form) {
  const CodeForm* const of_form = FormFor(form);
  return of_form != nullptr && of_form->add_lines(lines, columns, rows, steps, sums, pitch);
}

float LargestFinite(const float* values, std::int64_t count, RowGemmForm form) {
  const CodeForm* const of_form = FormFor(form);
  const std::int64_t whole = of_form == nullptr ? 0 : count / kSixteen;
  const float rest = LargestFinitePlain(values + whole * kSixteen, count - whole * kSixteen);
  return whole == 0 ? rest : std::max(rest, of_form->largest_finite(values, whole));
}

}  // namespace gemmd
