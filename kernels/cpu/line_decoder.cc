#include "kernels/cpu/line_decoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <vector>

#include "base/numbers/float_bits.h"
#include "base/numbers/quant/elements.h"
#include "base/numbers/quant/packed_codes.h"

namespace gemmd {
namespace {

using Table = std::array<double, 256>;

// The values of every code of a type of at most 8 bits.
const Table& TableOf(DataType type) {
  static const auto& tables = *[] {
    auto* all = new std::array<Table, std::size(kDataTypes)>();
    for (const DataTypeTraits& each : kDataTypes) {
      if (each.role != DataTypeRole::kCodes) continue;
      for (std::uint32_t code = 0; code < 256; ++code) {
        (*all)[static_cast<std::size_t>(each.type)][code] = DecodeElement(each.type, code);
      }
    }
    return all;
  }();
  return tables[static_cast<std::size_t>(type)];
}

template <typename T>
T Load(const void* data, std::int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * static_cast<std::int64_t>(sizeof(T)),
              sizeof value);
  return value;
}

// Calls visit(value_at), where value_at(index) is the value of the element there.
template <typename Visit>
void WithElements(DataType type, const void* data, const Visit& visit) {
  switch (type) {
    case DataType::kF32:
      return visit([data](std::int64_t i) -> double { return Load<float>(data, i); });
    case DataType::kF16:
      return visit(
          [data](std::int64_t i) -> double { return FromF16(Load<std::uint16_t>(data, i)); });
    case DataType::kBf16:
      return visit(
          [data](std::int64_t i) -> double { return FromBf16(Load<std::uint16_t>(data, i)); });
    default:
      break;
  }
  const Table& table = TableOf(type);
  switch (SizeBits(type)) {
    case 8:
      return visit([data, &table](std::int64_t i) { return table[Load<std::uint8_t>(data, i)]; });
    case 6:
      return visit([data, &table](std::int64_t i) { return table[LoadCode(data, 6, i)]; });
    default:
      return visit([data, &table](std::int64_t i) {
        const std::uint8_t pair = Load<std::uint8_t>(data, i / 2);
        return table[i % 2 == 0 ? pair & 0xfu : pair >> 4];
      });
  }
}

// out[i * K + k] = (value - zero[i]) * factor[i] for k in [begin, end).
template <typename Real>
void DecodeRun(const QuantizedView& view, std::int64_t first, std::int64_t lines,
               std::int64_t begin, std::int64_t end, const double* zeros, const double* factors,
               Real* out) {
  WithElements(view.format.element, view.codes, [&](const auto& value_at) {
    const auto decode = [&](std::int64_t i, std::int64_t k) {
      const std::int64_t at = (first + i) * view.line_stride + k * view.k_stride;
      out[i * view.k + k] = static_cast<Real>((value_at(at) - zeros[i]) * factors[i]);
    };
    // Elements are read as they lie in memory.
    if (view.k_stride == 1) {
      for (std::int64_t i = 0; i < lines; ++i) {
        for (std::int64_t k = begin; k < end; ++k) decode(i, k);
      }
    } else {
      for (std::int64_t k = begin; k < end; ++k) {
        for (std::int64_t i = 0; i < lines; ++i) decode(i, k);
      }
    }
  });
}

}  // namespace

LineDecoder::LineDecoder(const QuantizedView& view)
    : view_(view),
      has_blocks_(view.format.scaling.has_scales && view.format.scaling.k_blocks(view.k) > 1) {}

double LineDecoder::LineScale(std::int64_t line) const {
  if (!has_blocks_) return view_.block_scale(line, 0);
  double largest = 0;
  for (std::int64_t k = 0; k < view_.k; k += view_.format.scaling.block_k) {
    const double scale = std::abs(view_.block_scale(line, k));
    if (std::isfinite(scale)) largest = std::max(largest, scale);
  }
  return largest == 0 ? 1 : std::ldexp(1.0, std::ilogb(largest));
}

double LineDecoder::BlockFactor(std::int64_t line, std::int64_t k, double line_scale) const {
  return has_blocks_ ? view_.block_scale(line, k) / line_scale : 1;
}

std::int64_t LineDecoder::EndOfBlock(std::int64_t k) const {
  if (!has_blocks_) return view_.k;
  const std::int64_t block = view_.format.scaling.block_k;
  return std::min((k / block + 1) * block, view_.k);
}

template <typename Real>
void LineDecoder::Values(std::int64_t first, std::int64_t lines, const double* line_scales,
                         Real* out) const {
  std::vector<double> zeros(static_cast<std::size_t>(lines));
  std::vector<double> factors(static_cast<std::size_t>(lines));
  for (std::int64_t begin = 0; begin < view_.k;) {
    const std::int64_t end = EndOfBlock(begin);
    for (std::int64_t i = 0; i < lines; ++i) {
      zeros[static_cast<std::size_t>(i)] = view_.zero_point(first + i, begin);
      factors[static_cast<std::size_t>(i)] = BlockFactor(first + i, begin, line_scales[i]);
    }
    DecodeRun(view_, first, lines, begin, end, zeros.data(), factors.data(), out);
    begin = end;
  }
}

template void LineDecoder::Values<float>(std::int64_t, std::int64_t, const double*, float*) const;
template void LineDecoder::Values<double>(std::int64_t, std::int64_t, const double*, double*) const;

void LineDecoder::Integers(std::int64_t first, std::int64_t lines, float* out) const {
  std::vector<double> zeros(static_cast<std::size_t>(lines));
  const std::vector<double> ones(static_cast<std::size_t>(lines), 1);
  for (std::int64_t begin = 0; begin < view_.k;) {
    const std::int64_t end = EndOfBlock(begin);
    for (std::int64_t i = 0; i < lines; ++i) {
      zeros[static_cast<std::size_t>(i)] = view_.zero_point(first + i, begin);
    }
    DecodeRun(view_, first, lines, begin, end, zeros.data(), ones.data(), out);
    begin = end;
  }
}

}  // namespace gemmd
