// Block-scaled mma.sync: where elements and scales lie, by the PTX ISA's tables element by element,
// and its sums, by the rule for one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/numbers/float_bits.h"
#include "base/numbers/quant/small_float.h"
#include "kernels/emulator/arithmetic/tensor_core.h"
#include "kernels/emulator/launch.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/mma_sync_scaled.h"

namespace gemmd::testing {
namespace {

using emulator::FactorFormat;
using ptx::MmaMxType;

constexpr int kRows = 16;
constexpr int kColumns = 8;
constexpr int kDepth = 32;
constexpr std::uint8_t kNanScale = 0xff;

const FloatFormat& DecoderOf(MmaMxType type) { return type == MmaMxType::kE4m3 ? kE4M3 : kE5M2; }

FactorFormat FactorOf(MmaMxType type) {
  return type == MmaMxType::kE4m3 ? FactorFormat::kE4m3 : FactorFormat::kE5m2;
}

struct Line {
  MmaMxType type;
  std::vector<std::uint8_t> codes;
  std::uint8_t scale;
};

Line RandomLine(MmaMxType type, std::mt19937* random) {
  Line line = {type, std::vector<std::uint8_t>(kDepth), 0};
  for (std::uint8_t& code : line.codes) {
    do code = static_cast<std::uint8_t>((*random)());
    while (!std::isfinite(DecodeFloat(DecoderOf(type), code)));
  }
  line.scale = static_cast<std::uint8_t>(120 + (*random)() % 15);
  return line;
}

emulator::Factors FactorsOf(const Line& line) {
  emulator::Factors factors = {};
  factors.count = kDepth;
  for (int k = 0; k < kDepth; ++k) {
    factors.Set(FactorOf(line.type), k, line.codes[static_cast<std::size_t>(k)]);
  }
  factors.Scale(line.scale);
  return factors;
}

struct Selectors {
  int a_byte = 0;
  int a_thread = 0;
  int b_byte = 0;
  int b_thread = 0;
};

struct Product {
  Product(MmaMxType a, MmaMxType b, std::uint32_t seed) {
    std::mt19937 random(seed);
    for (int row = 0; row < kRows; ++row) rows.push_back(RandomLine(a, &random));
    for (int column = 0; column < kColumns; ++column) columns.push_back(RandomLine(b, &random));
    for (int i = 0; i < kRows * kColumns; ++i) {
      sums.push_back(std::ldexp(static_cast<float>(static_cast<std::int32_t>(random())), -25));
    }
  }
  std::vector<Line> rows;
  std::vector<Line> columns;
  std::vector<float> sums;  // row * kColumns + column
};

// A word of a register: its byte is element i of the table's sequence a0, a1, ...
template <typename F>
std::uint32_t Pack(int first, const F& element) {
  std::uint32_t word = 0;
  for (int j = 0; j < 4; ++j) word |= std::uint32_t{element(first + j)} << (8 * j);
  return word;
}

// The word of a lane that no selector names is of NaNs, and so is each byte beside the one named.
std::uint32_t ScaleWord(bool is_selected, int byte, std::uint8_t scale) {
  const std::uint32_t others = ~(0xffu << (8 * byte));
  return is_selected ? others | std::uint32_t{scale} << (8 * byte) : ~0u;
}

template <MmaMxType kA, MmaMxType kB>
emulator::Report RunProduct(Product* product, const Selectors& selectors) {
  emulator::LaunchRequest request;
  request.kernel = "mma_scaled";
  return emulator::Launch(request, {}, [&] {
    const auto lane = static_cast<int>(ptx::ThreadIndex());
    const int group = lane / 4;
    const int in_group = lane % 4;
    // "row = groupID for ai where 0 <= i < 4 || 8 <= i < 12, groupID + 8 otherwise;
    //  col = threadID_in_group * 4 + (i & 3) for ai where i < 8, ... + 16 for ai where i >= 8"
    const auto element_of_a = [&](int i) {
      const int row = i < 4 || (i >= 8 && i < 12) ? group : group + 8;
      const int k = in_group * 4 + (i & 3) + (i < 8 ? 0 : 16);
      return product->rows[static_cast<std::size_t>(row)].codes[static_cast<std::size_t>(k)];
    };
    // "row = threadID_in_group * 4 + (i & 3) for bi where i < 4, ... + 16 for bi where i >= 4;
    //  col = groupID"
    const auto element_of_b = [&](int i) {
      const int k = in_group * 4 + (i & 3) + (i < 4 ? 0 : 16);
      return product->columns[static_cast<std::size_t>(group)].codes[static_cast<std::size_t>(k)];
    };
    const std::uint32_t a[4] = {Pack(0, element_of_a), Pack(4, element_of_a), Pack(8, element_of_a),
                                Pack(12, element_of_a)};
    const std::uint32_t b[2] = {Pack(0, element_of_b), Pack(4, element_of_b)};
    // "thread-pair satisfying %laneid % 4 == 0 or 1", "== 2 or 3"; "%laneid % 4 == thread-id-b".
    const int scaled_row = group + 8 * (in_group % 2);
    const std::uint32_t a_word =
        ScaleWord(in_group / 2 == selectors.a_thread, selectors.a_byte,
                  product->rows[static_cast<std::size_t>(scaled_row)].scale);
    const std::uint32_t b_word = ScaleWord(in_group == selectors.b_thread, selectors.b_byte,
                                           product->columns[static_cast<std::size_t>(group)].scale);
    // "row = groupID for ci where i < 2, groupID + 8 for ci where i >= 2;
    //  col = threadID_in_group * 2 + (i & 1)"
    const auto place = [&](int i) {
      const int row = i < 2 ? group : group + 8;
      return static_cast<std::size_t>(row * kColumns + in_group * 2 + (i & 1));
    };
    float d[4];
    for (int i = 0; i < 4; ++i) d[i] = product->sums[place(i)];
    ptx::MmaMx<kA, kB>(d, a, b, {a_word, selectors.a_byte, selectors.a_thread},
                       {b_word, selectors.b_byte, selectors.b_thread});
    for (int i = 0; i < 4; ++i) product->sums[place(i)] = d[i];
  });
}

template <MmaMxType kA, MmaMxType kB>
void ExpectRight(const Selectors& selectors, std::uint32_t seed) {
  const Product before(kA, kB, seed);
  Product product = before;
  const emulator::Report report = RunProduct<kA, kB>(&product, selectors);
  ASSERT_TRUE(report.ok()) << report.message;
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t column = 0; column < kColumns; ++column) {
      const std::size_t at = row * kColumns + column;
      const float right = emulator::RoundToF32(emulator::AlignedSum(
          before.sums[at], FactorsOf(before.rows[row]), FactorsOf(before.columns[column])));
      ASSERT_EQ(BitsOf(product.sums[at]), BitsOf(right))
          << row << ", " << column << ", bytes " << selectors.a_byte << selectors.b_byte
          << ", threads " << selectors.a_thread << selectors.b_thread;
      // By quant's decoders: each of 33 terms loses less than 2^-25 of the largest of them rounded
      // up to a power of two and doubled, the sum less than 2^-23 of itself.
      const Line& a = before.rows[row];
      const Line& b = before.columns[column];
      const double scale = DecodeE8M0(a.scale) * DecodeE8M0(b.scale);
      double exact = before.sums[at];
      double largest = std::fabs(exact);
      for (std::size_t k = 0; k < kDepth; ++k) {
        const double term =
            DecodeFloat(DecoderOf(kA), a.codes[k]) * DecodeFloat(DecoderOf(kB), b.codes[k]) * scale;
        exact += term;
        largest = std::max(largest, std::fabs(term));
      }
      ASSERT_LE(std::fabs(product.sums[at] - exact),
                33 * 0x1p-25 * 2 * largest + 0x1p-23 * std::fabs(exact));
    }
  }
}

TEST(MmaScaled, TakesTheScalesThatSelectorsSay) {
  for (int a_byte = 0; a_byte < 4; ++a_byte) {
    for (int b_byte = 0; b_byte < 4; ++b_byte) {
      for (int a_thread = 0; a_thread < 2; ++a_thread) {
        for (int b_thread = 0; b_thread < 4; ++b_thread) {
          ExpectRight<MmaMxType::kE4m3, MmaMxType::kE4m3>({a_byte, a_thread, b_byte, b_thread}, 1);
        }
      }
    }
  }
}

TEST(MmaScaled, TakesEveryPairOfTypes) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    ExpectRight<MmaMxType::kE4m3, MmaMxType::kE4m3>({}, seed);
    ExpectRight<MmaMxType::kE4m3, MmaMxType::kE5m2>({}, seed);
    ExpectRight<MmaMxType::kE5m2, MmaMxType::kE4m3>({}, seed);
    ExpectRight<MmaMxType::kE5m2, MmaMxType::kE5m2>({}, seed);
  }
}

TEST(MmaScaled, NanScalesMakeNan) {
  Product product(MmaMxType::kE4m3, MmaMxType::kE4m3, 1);
  product.rows[3].scale = kNanScale;
  const emulator::Report report = RunProduct<MmaMxType::kE4m3, MmaMxType::kE4m3>(&product, {});
  ASSERT_TRUE(report.ok()) << report.message;
  for (std::size_t i = 0; i < product.sums.size(); ++i) {
    EXPECT_EQ(std::isnan(product.sums[i]), i / kColumns == 3) << i;
  }
}

TEST(MmaScaled, RefusesSelectorsThatThereAreNot) {
  for (const Selectors& wrong :
       {Selectors{4, 0, 0, 0}, Selectors{0, 2, 0, 0}, Selectors{0, 0, 4, 0}, Selectors{0, 0, 0, 4},
        Selectors{-1, 0, 0, 0}}) {
    emulator::LaunchRequest request;
    request.kernel = "mma_scaled";
    const emulator::Report report = emulator::Launch(request, {}, [&] {
      float d[4] = {};
      const std::uint32_t a[4] = {};
      const std::uint32_t b[2] = {};
      ptx::MmaMx<MmaMxType::kE4m3, MmaMxType::kE4m3>(d, a, b, {0, wrong.a_byte, wrong.a_thread},
                                                     {0, wrong.b_byte, wrong.b_thread});
    });
    EXPECT_NE(report.message.find("are the highest"), std::string::npos) << report.message;
  }
}

TEST(MmaScaled, RefusesSelectorsThatDiffer) {
  emulator::LaunchRequest request;
  request.kernel = "mma_scaled";
  const emulator::Report report = emulator::Launch(request, {}, [&] {
    float d[4] = {};
    const std::uint32_t a[4] = {};
    const std::uint32_t b[2] = {};
    const int byte = ptx::ThreadIndex() == 5 ? 1 : 0;
    ptx::MmaMx<MmaMxType::kE4m3, MmaMxType::kE4m3>(d, a, b, {0, byte, 0}, {0, 0, 0});
  });
  EXPECT_NE(report.message.find("selectors of lanes 0 and 5 differ"), std::string::npos)
      << report.message;
}

}  // namespace
}  // namespace gemmd::testing
