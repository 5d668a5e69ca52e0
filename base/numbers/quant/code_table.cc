#include "base/numbers/quant/code_table.h"

#include <algorithm>
#include <cmath>

namespace gemmd {
namespace {

constexpr CodeTable kNf4 = {-1.0F,
                            -0.6961928009986877F,
                            -0.5250730514526367F,
                            -0.39491748809814453F,
                            -0.28444138169288635F,
                            -0.18477343022823334F,
                            -0.09105003625154495F,
                            0.0F,
                            0.07958029955625534F,
                            0.16093020141124725F,
                            0.24611230194568634F,
                            0.33791524171829224F,
                            0.44070982933044434F,
                            0.5626170039176941F,
                            0.7229568362236023F,
                            1.0F};

constexpr CodeTable kBnbFp4 = {0.0F,      1 / 192.0F, 2 / 3.0F,  1.0F,        1 / 3.0F,  0.5F,
                               1 / 6.0F,  0.25F,      0.0F,      -1 / 192.0F, -2 / 3.0F, -1.0F,
                               -1 / 3.0F, -0.5F,      -1 / 6.0F, -0.25F};

constexpr CodeTable kIq4Nl = {-127.0F, -104.0F, -83.0F, -65.0F, -49.0F, -35.0F, -22.0F, -10.0F,
                              1.0F,    13.0F,   25.0F,  38.0F,  53.0F,  69.0F,  89.0F,  113.0F};

// The code of the largest value up to `value`, or of the lowest of all, and the one after it in the
// order of values; of equal ones the first.
struct Neighbours {
  std::uint32_t below = 0;
  std::uint32_t above = 0;
};

Neighbours NeighboursOf(const CodeTable& table, double value) {
  constexpr std::uint32_t kNone = 16;
  Neighbours found = {kNone, kNone};
  for (std::uint32_t code = 0; code < table.size(); ++code) {
    const float each = table[code];
    if (each <= value && (found.below == kNone || each > table[found.below])) found.below = code;
    if (each > value && (found.above == kNone || each < table[found.above])) found.above = code;
  }
  if (found.below == kNone) found.below = found.above;
  if (found.above == kNone) found.above = found.below;
  return found;
}

}  // namespace

const CodeTable* CodeTableOf(DataType type) {
  switch (type) {
    case DataType::kNf4:
      return &kNf4;
    case DataType::kBnbFp4:
      return &kBnbFp4;
    case DataType::kIq4Nl:
      return &kIq4Nl;
    default:
      return nullptr;
  }
}

std::uint32_t EncodeInTable(const CodeTable& table, double value, const Rounding& rounding,
                            std::uint64_t index) {
  if (std::isnan(value)) {
    return static_cast<std::uint32_t>(std::max_element(table.begin(), table.end()) - table.begin());
  }
  const Neighbours codes = NeighboursOf(table, value);
  if (codes.below == codes.above) return codes.below;
  // Sums and differences of neighbours are exact.
  const double below = table[codes.below];
  const double above = table[codes.above];
  if (rounding.is_stochastic) {
    const double fraction = (value - below) / (above - below);
    return fraction * 0x1p32 > RandomBits(rounding.seed, index) ? codes.above : codes.below;
  }
  const double middle = (below + above) / 2;
  if (value == middle) return codes.below % 2 == 0 ? codes.below : codes.above;
  return value < middle ? codes.below : codes.above;
}

}  // namespace gemmd
