#include "kernels/emulator/instructions/wgmma.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/arithmetic/byte_product.h"
#include "kernels/emulator/arithmetic/product_block.h"
#include "kernels/emulator/instructions/matrix_operand.h"
#include "kernels/emulator/instructions/wgmma_bytes.h"
#include "kernels/emulator/machine/collectives.h"
#include "kernels/emulator/machine/failure.h"
#include "kernels/emulator/machine/machine.h"
#include "kernels/emulator/memory/async_engine.h"
#include "kernels/emulator/memory/happens_before.h"

namespace gemmd::emulator {

// 64 x columns accumulators out of their registers: floats, or the bits of integers.
struct AccumulatorTile {
  std::uint32_t columns;
  std::vector<float> sums;

  std::uint32_t words() const { return columns / 2; }  // per thread
};

namespace {

constexpr std::uint32_t kRows = 64;
constexpr std::uint32_t kPoison = 0x7fff7fffu;  // NaN

// Register i of thread t. PTX ISA, "Register Fragments" of wgmma.m64nNk16, the figure of D.
float& SumOf(AccumulatorTile& tile, std::uint32_t t, std::uint32_t i) {
  const std::uint32_t row = t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8;
  const std::uint32_t column = i / 4 * 8 + t % 4 * 2 + i % 2;
  return tile.sums[std::size_t{row} * tile.columns + column];
}

struct Call {
  WgmmaProduct product;
  float* registers;  // of integers too, and then only moved
  const std::uint32_t* fragments;
};

const Call& CallOf(const Warpgroup& group, std::uint32_t i) {
  return *static_cast<const Call*>(group.operand[i]);
}

void CheckSameOperands(const Warpgroup& group, const CallSite& site) {
  const WgmmaProduct& first = CallOf(group, 0).product;
  for (std::uint32_t t = 1; t < kWarpgroupSize; ++t) {
    const WgmmaProduct& other = CallOf(group, t).product;
    if (other.a == first.a && other.b == first.b && other.accumulate == first.accumulate) continue;
    Fail(Violation::kBadOperand, site, "wgmma: operands differ between threads");
  }
}

void CheckFenced(const char* what, const CallSite& site) {
  for (std::uint32_t t = 0; t < kWarpgroupSize; ++t) {
    if (WarpgroupThread(t).wgmma_fenced) continue;
    Fail(Violation::kMissingFence, site,
         absl::StrCat("wgmma: ", what, " without a wgmma.fence since they were last touched"));
  }
}

// Takes the accumulators out of the threads' registers.
FlyingAccumulator& TakeOff(Warpgroup& group, std::uint32_t columns, const CallSite& site) {
  const auto found = group.flying.find(CallOf(group, 0).registers);
  if (found != group.flying.end()) return found->second;
  CheckFenced("accumulator registers", site);
  FlyingAccumulator flying;
  flying.tile = std::make_shared<AccumulatorTile>();
  AccumulatorTile& tile = *flying.tile;
  tile.columns = columns;
  tile.sums.resize(std::size_t{kRows} * columns);
  for (std::uint32_t t = 0; t < kWarpgroupSize; ++t) {
    float* registers = CallOf(group, t).registers;
    flying.thread_array.push_back(registers);
    for (std::uint32_t i = 0; i < tile.words(); ++i) {
      std::memcpy(&SumOf(tile, t, i), &registers[i], sizeof kPoison);
      std::memcpy(&registers[i], &kPoison, sizeof kPoison);
    }
  }
  return group.flying.emplace(CallOf(group, 0).registers, std::move(flying)).first->second;
}

void Deliver(const FlyingAccumulator& flying) {
  for (std::uint32_t t = 0; t < kWarpgroupSize; ++t) {
    for (std::uint32_t i = 0; i < flying.tile->words(); ++i) {
      std::memcpy(&flying.thread_array[t][i], &SumOf(*flying.tile, t, i), sizeof(float));
    }
  }
}

// Rows of A out of the threads' fragments: PTX ISA, "Register Fragments" of
// wgmma.m64nNk16, the figure of A; 16 rows a warp, laid out as mma_sync.cc has them.
std::vector<HalfLine> TakeFragments(Warpgroup& group, const CallSite& site) {
  CheckFenced("registers of A", site);
  FlyingFragments flying;
  flying.group = group.open_group;
  flying.site = site;
  std::vector<HalfLine> lines(kRows);
  for (std::uint32_t t = 0; t < kWarpgroupSize; ++t) {
    const std::uint32_t* words = CallOf(group, t).fragments;
    flying.thread_array[t] = words;
    for (std::uint32_t i = 0; i < 4; ++i) {
      flying.words[t][i] = words[i];
      const std::uint32_t row = t / 32 * 16 + t % 32 / 4 + i % 2 * 8;
      const std::uint32_t k = t % 4 * 2 + i / 2 * 8;
      std::memcpy(&lines[row][k], &words[i], sizeof words[i]);
    }
  }
  group.flying_fragments.push_back(flying);
  return lines;
}

void CheckFragmentsUnchanged(const FlyingFragments& flying) {
  for (std::uint32_t t = 0; t < kWarpgroupSize; ++t) {
    if (std::memcmp(flying.thread_array[t], flying.words[t].data(), sizeof flying.words[t]) == 0) {
      continue;
    }
    Fail(Violation::kRace, flying.site,
         absl::StrCat("wgmma: thread ", t, " of the warpgroup wrote registers of A before the ",
                      "wait for the product that reads them"));
  }
}

void Clear(AccumulatorTile* tile) { std::fill(tile->sums.begin(), tile->sums.end(), 0.0f); }

// A product of halves, once its operands are known.
void Multiply(const WgmmaProduct& product, const std::vector<HalfLine>& a,
              const std::vector<HalfLine>& b, AccumulatorTile* tile) {
  if (!product.accumulate) Clear(tile);
  const HalfFormat format =
      product.format == FactorFormat::kF16 ? HalfFormat::kF16 : HalfFormat::kBf16;
  std::vector<RowFactors> rows;
  rows.reserve(a.size());
  for (const HalfLine& line : a) rows.push_back(PrepareRow(format, line));
  ColumnFactors columns;
  for (std::uint32_t column = 0; column < product.columns; column += kBlockColumns) {
    ColumnBits bits;
    for (int k = 0; k < kBlockProducts; ++k) {
      for (int i = 0; i < kBlockColumns; ++i) bits[k][i] = b[column + i][k];
    }
    PrepareColumns(format, bits, &columns);
    for (std::uint32_t row = 0; row < kRows; ++row) {
      MultiplyAddF32(format, rows[row], columns,
                     &tile->sums[std::size_t{row} * product.columns + column]);
    }
  }
}

// Products of tf32 operands, by the definition in tensor_core.h.
using WordLine = OperandLine<std::uint32_t>;

std::vector<Factors> FactorsOf(const std::vector<WordLine>& lines) {
  std::vector<Factors> factors(lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    factors[i].count = static_cast<int>(lines[i].size());
    for (int k = 0; k < factors[i].count; ++k) {
      factors[i].Set(FactorFormat::kTf32, k, lines[i][static_cast<std::size_t>(k)]);
    }
  }
  return factors;
}

void MultiplyTf32(const WgmmaProduct& product, const std::vector<WordLine>& a,
                  const std::vector<WordLine>& b, AccumulatorTile* tile) {
  if (!product.accumulate) Clear(tile);
  const std::vector<Factors> rows = FactorsOf(a);
  const std::vector<Factors> columns = FactorsOf(b);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (std::size_t column = 0; column < columns.size(); ++column) {
      float& sum = tile->sums[row * columns.size() + column];
      sum = RoundToF32(AlignedSum(sum, rows[row], columns[column]));
    }
  }
}

// Products of 8-bit operands, by the definition in byte_product.h.
void MultiplyIntegers(const WgmmaByteProduct& product, const std::vector<ByteLine>& a,
                      const std::vector<ByteLine>& b, AccumulatorTile* tile) {
  if (!product.accumulate) Clear(tile);
  const bool a_is_signed = product.a_format == ByteFormat::kS8;
  const bool b_is_signed = product.b_format == ByteFormat::kS8;
  for (std::size_t row = 0; row < a.size(); ++row) {
    for (std::size_t column = 0; column < b.size(); ++column) {
      float* const place = &tile->sums[row * b.size() + column];
      std::int32_t sum;
      std::memcpy(&sum, place, sizeof sum);
      sum = AddIntegerProducts(sum, a[row], a_is_signed, b[column], b_is_signed);
      std::memcpy(place, &sum, sizeof sum);
    }
  }
}

FactorFormat FactorFormatOf(ByteFormat format) {
  return format == ByteFormat::kE4m3 ? FactorFormat::kE4m3 : FactorFormat::kE5m2;
}

std::vector<FloatLine> PrepareFloatLines(FactorFormat format, const std::vector<ByteLine>& lines) {
  std::vector<FloatLine> prepared;
  prepared.reserve(lines.size());
  for (const ByteLine& line : lines) prepared.push_back(PrepareFloatLine(format, line));
  return prepared;
}

void MultiplyFloats(const WgmmaByteProduct& product, const std::vector<ByteLine>& a,
                    const std::vector<ByteLine>& b, AccumulatorTile* tile) {
  if (!product.accumulate) Clear(tile);
  const FactorFormat a_format = FactorFormatOf(product.a_format);
  const FactorFormat b_format = FactorFormatOf(product.b_format);
  const std::vector<FloatLine> rows = PrepareFloatLines(a_format, a);
  const std::vector<FloatLine> columns = PrepareFloatLines(b_format, b);
  const int fraction_bits = FractionBits(a_format) + FractionBits(b_format);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (std::size_t column = 0; column < columns.size(); ++column) {
      float& sum = tile->sums[row * columns.size() + column];
      sum = AddFloatProducts(sum, rows[row], columns[column], fraction_bits);
    }
  }
}

void IssueBytes(Warpgroup& group, const WgmmaByteProduct& product, const CallSite& site) {
  CheckSameOperands(group, site);
  Block& block = *CurrentThread().block;
  Cluster& cluster = *block.cluster;
  const MatrixOperand a = DecodeWgmmaMatrix(product.a, {1, false}, block.rank, site);
  CheckMatrixRead(a, kRows, group.agent, group.open_group, "wgmma", site);
  const MatrixOperand b = DecodeWgmmaMatrix(product.b, {1, false}, block.rank, site);
  CheckMatrixRead(b, product.columns, group.agent, group.open_group, "wgmma", site);
  FlyingAccumulator& flying = TakeOff(group, product.columns, site);
  flying.group = group.open_group;
  const bool is_integer =
      product.a_format == ByteFormat::kS8 || product.a_format == ByteFormat::kU8;
  const OperationId id = Post(
      cluster,
      [&cluster, product, a, b, is_integer, tile = flying.tile] {
        (is_integer ? MultiplyIntegers : MultiplyFloats)(
            product, LoadLines<std::uint8_t>(cluster, a, kRows),
            LoadLines<std::uint8_t>(cluster, b, product.columns), tile.get());
      },
      1 + group.agent);
  group.operations.emplace_back(group.open_group, id);
}

void CallBytes(const WgmmaByteProduct& product, float* registers, const CallSite& site) {
  // For CheckSameOperands().
  WgmmaProduct same = {};
  same.columns = product.columns;
  same.accumulate = product.accumulate;
  same.a = product.a;
  same.b = product.b;
  Call call{same, registers, nullptr};
  WarpgroupCollective("wgmma.mma_async", &call, site,
                      [&](Warpgroup& group) { IssueBytes(group, product, site); });
}

void Issue(Warpgroup& group, const CallSite& site) {
  CheckSameOperands(group, site);
  const Call& call = CallOf(group, CurrentThread().index % kWarpgroupSize);
  const WgmmaProduct product = call.product;
  Block& block = *CurrentThread().block;
  Cluster& cluster = *block.cluster;
  const bool has_fragments = call.fragments != nullptr;
  const bool is_tf32 = product.format == FactorFormat::kTf32;
  const std::uint32_t bytes = FactorBytes(product.format);
  MatrixOperand a = {};
  std::vector<HalfLine> fragments;
  if (has_fragments) {
    fragments = TakeFragments(group, site);
  } else {
    a = DecodeWgmmaMatrix(product.a, {bytes, product.transpose_a}, block.rank, site);
    CheckMatrixRead(a, kRows, group.agent, group.open_group, "wgmma", site);
  }
  const MatrixOperand b =
      DecodeWgmmaMatrix(product.b, {bytes, product.transpose_b}, block.rank, site);
  CheckMatrixRead(b, product.columns, group.agent, group.open_group, "wgmma", site);
  FlyingAccumulator& flying = TakeOff(group, product.columns, site);
  flying.group = group.open_group;
  const OperationId id = Post(
      cluster,
      [&cluster, product, a, b, has_fragments, is_tf32, fragments = std::move(fragments),
       tile = flying.tile] {
        if (is_tf32) {
          MultiplyTf32(product, LoadLines<std::uint32_t>(cluster, a, kRows),
                       LoadLines<std::uint32_t>(cluster, b, product.columns), tile.get());
          return;
        }
        Multiply(product, has_fragments ? fragments : LoadLines<std::uint16_t>(cluster, a, kRows),
                 LoadLines<std::uint16_t>(cluster, b, product.columns), tile.get());
      },
      1 + group.agent);
  group.operations.emplace_back(group.open_group, id);
}

}  // namespace

void WgmmaFence(const CallSite& site) {
  if (IsSkipped(site)) return;
  CurrentThread().wgmma_fenced = true;
  WarpgroupCollective("wgmma.fence", nullptr, site, [](Warpgroup&) {});
}

void WgmmaMultiply(const WgmmaProduct& product, float* registers, const std::uint32_t* fragments,
                   const CallSite& site) {
  Call call{product, registers, fragments};
  WarpgroupCollective("wgmma.mma_async", &call, site,
                      [&](Warpgroup& group) { Issue(group, site); });
}

void WgmmaBytes(const WgmmaByteProduct& product, float* registers, const CallSite& site) {
  CallBytes(product, registers, site);
}

void WgmmaBytes(const WgmmaByteProduct& product, std::int32_t* registers, const CallSite& site) {
  CallBytes(product, reinterpret_cast<float*>(registers), site);
}

void WgmmaCommit(const CallSite& site) {
  if (IsSkipped(site)) return;
  WarpgroupCollective("wgmma.commit_group", nullptr, site,
                      [](Warpgroup& group) { ++group.open_group; });
}

void WgmmaWait(std::uint32_t pending, const CallSite& site) {
  if (IsSkipped(site)) return;
  WarpgroupCollective("wgmma.wait_group", nullptr, site, [pending](Warpgroup& group) {
    const Step committed = group.open_group - 1;
    const Step done = committed - std::min(pending, committed);
    const auto is_done = [done](const auto& each) { return each.group <= done; };
    for (const auto& [step, id] : group.operations) {
      if (step <= done) LandNow(id);
    }
    group.operations.erase(std::remove_if(group.operations.begin(), group.operations.end(),
                                          [done](const auto& each) { return each.first <= done; }),
                           group.operations.end());
    for (const FlyingFragments& flying : group.flying_fragments) {
      if (is_done(flying)) CheckFragmentsUnchanged(flying);
    }
    group.flying_fragments.erase(
        std::remove_if(group.flying_fragments.begin(), group.flying_fragments.end(), is_done),
        group.flying_fragments.end());
    for (auto it = group.flying.begin(); it != group.flying.end();) {
      if (!is_done(it->second)) {
        ++it;
        continue;
      }
      Deliver(it->second);
      it = group.flying.erase(it);
    }
    for (std::uint32_t t = 0; t < kWarpgroupSize; ++t) {
      WarpgroupThread(t).knows.generic.Raise(group.agent, done);
      WarpgroupThread(t).wgmma_fenced = false;
    }
  });
}

}  // namespace gemmd::emulator
