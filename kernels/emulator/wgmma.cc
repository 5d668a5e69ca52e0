#include "kernels/emulator/wgmma.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/async_engine.h"
#include "kernels/emulator/collectives.h"
#include "kernels/emulator/failure.h"
#include "kernels/emulator/happens_before.h"
#include "kernels/emulator/machine.h"
#include "kernels/emulator/swizzle.h"

namespace gemmd::emulator {
namespace {

constexpr std::uint32_t kRows = 64;
constexpr std::uint32_t kDepth = 16;
constexpr std::uint32_t kChunk = 16;  // bytes

// A decoded matrix descriptor. PTX ISA, "Shared Memory Matrix Layout: Matrix Descriptor
// Format" of wgmma: 16-byte units in bits 0-13 (start), 16-29 (leading offset), 32-45
// (stride offset); base offset in 49-51; layout in 62-63.
struct Operand {
  std::uint32_t start;
  std::uint32_t leading;
  std::uint32_t stride;
  Swizzle swizzle;

  // The address of byte `byte` of row `row`, K-major: eight rows make a group, rows of
  // a group lie one swizzle span apart, groups `stride` apart; without swizzling, rows
  // are 16 bytes long and the next 16 bytes of K lie `leading` away.
  std::uint32_t Address(std::uint32_t row, std::uint32_t byte) const {
    if (swizzle == Swizzle::kNone) {
      return start + row / 8 * stride + row % 8 * kChunk + byte / kChunk * leading + byte % kChunk;
    }
    const std::uint32_t span = static_cast<std::uint32_t>(swizzle);
    return SwizzleAddress(start + row / 8 * stride + row % 8 * span + byte, swizzle);
  }
};

Operand Decode(std::uint64_t descriptor, std::uint32_t rank, const CallSite& site) {
  const auto field = [descriptor](int bit) {
    return static_cast<std::uint32_t>((descriptor >> bit) & 0x3fff) << 4;
  };
  static constexpr Swizzle kLayouts[4] = {Swizzle::kNone, Swizzle::k128B, Swizzle::k64B,
                                          Swizzle::k32B};
  Operand operand{field(0) | (rank << kRankShift), field(16), field(32),
                  kLayouts[descriptor >> 62]};
  const std::uint32_t period = SwizzlePeriod(operand.swizzle);
  const auto span = static_cast<std::uint32_t>(operand.swizzle);
  const bool has_base_offset = ((descriptor >> 49) & 7) != 0;
  if (operand.swizzle != Swizzle::kNone && !has_base_offset &&
      (operand.start & (period - 1) & ~(span - 1)) != 0) {
    Fail(Violation::kMisaligned, site,
         absl::StrCat("wgmma: an operand starts at ", DescribeShared(operand.start),
                      ", inside the swizzle's period of ", period, " bytes"));
  }
  return operand;
}

void CheckOperand(const Operand& operand, std::uint32_t rows, Agent agent, Step group,
                  const CallSite& site) {
  for (std::uint32_t row = 0; row < rows; ++row) {
    for (std::uint32_t byte = 0; byte < kDepth * 2; byte += kChunk) {
      const std::uint32_t address = operand.Address(row, byte);
      SharedBytes(address, kChunk, kChunk, "wgmma", site);
      CheckAsyncRead(address, kChunk, agent, group, "wgmma", site);
    }
  }
}

std::vector<Factors> Load(Cluster& cluster, HalfFormat format, const Operand& operand,
                          std::uint32_t rows) {
  std::vector<Factors> lines(rows);
  for (std::uint32_t row = 0; row < rows; ++row) {
    for (std::uint32_t k = 0; k < kDepth; ++k) {
      std::uint16_t bits;
      std::memcpy(&bits, LandedBytes(cluster, operand.Address(row, 2 * k)), sizeof bits);
      lines[row].Set(format, static_cast<int>(k), bits);
    }
  }
  return lines;
}

// Register i of thread t holds this row and column. PTX ISA, "Register Fragments" of
// wgmma.m64nNk16, the figure of D.
std::uint32_t RowOf(std::uint32_t thread, std::uint32_t i) {
  return thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
}
std::uint32_t ColumnOf(std::uint32_t thread, std::uint32_t i) {
  return i / 4 * 8 + thread % 4 * 2 + i % 2;
}

struct Call {
  float* registers;
  std::uint64_t a;
  std::uint64_t b;
  bool accumulate;
};

const Call& CallOf(const Warpgroup& group, std::uint32_t i) {
  return *static_cast<const Call*>(group.operand[i]);
}

// Takes the accumulators out of the threads' registers.
FlyingAccumulator& TakeOff(Warpgroup& group, std::uint32_t columns, const CallSite& site) {
  const auto found = group.flying.find(CallOf(group, 0).registers);
  if (found != group.flying.end()) return found->second;
  FlyingAccumulator flying;
  flying.registers = columns / 2;
  flying.values = std::make_shared<std::vector<float>>(kRows * columns);
  for (std::uint32_t t = 0; t < kWarpgroupSize; ++t) {
    if (!WarpgroupThread(t).wgmma_fenced) {
      Fail(Violation::kMissingFence, site,
           "wgmma: accumulator registers without a wgmma.fence since they were last touched");
    }
    float* registers = CallOf(group, t).registers;
    flying.thread_array.push_back(registers);
    for (std::uint32_t i = 0; i < flying.registers; ++i) {
      (*flying.values)[RowOf(t, i) * columns + ColumnOf(t, i)] = registers[i];
      registers[i] = std::numeric_limits<float>::quiet_NaN();
    }
  }
  return group.flying.emplace(CallOf(group, 0).registers, std::move(flying)).first->second;
}

void Deliver(const FlyingAccumulator& flying) {
  const std::uint32_t columns = flying.registers * 2;
  for (std::uint32_t t = 0; t < kWarpgroupSize; ++t) {
    for (std::uint32_t i = 0; i < flying.registers; ++i) {
      flying.thread_array[t][i] = (*flying.values)[RowOf(t, i) * columns + ColumnOf(t, i)];
    }
  }
}

}  // namespace

void WgmmaFence(const CallSite& site) {
  CurrentThread().wgmma_fenced = true;
  WarpgroupCollective("wgmma.fence", nullptr, site, [](Warpgroup&) {});
}

void WgmmaMultiply(HalfFormat format, float* registers, std::uint32_t columns,
                   std::uint64_t a_descriptor, std::uint64_t b_descriptor, bool accumulate,
                   const CallSite& site) {
  Call call{registers, a_descriptor, b_descriptor, accumulate};
  WarpgroupCollective("wgmma.mma_async", &call, site, [&](Warpgroup& group) {
    for (std::uint32_t t = 1; t < kWarpgroupSize; ++t) {
      const Call& other = CallOf(group, t);
      if (other.a == a_descriptor && other.b == b_descriptor && other.accumulate == accumulate) {
        continue;
      }
      Fail(Violation::kBadOperand, site, "wgmma: operands differ between threads");
    }
    Thread& thread = CurrentThread();
    Cluster& cluster = *thread.block->cluster;
    const Operand a = Decode(a_descriptor, thread.block->rank, site);
    const Operand b = Decode(b_descriptor, thread.block->rank, site);
    CheckOperand(a, kRows, group.agent, group.open_group, site);
    CheckOperand(b, columns, group.agent, group.open_group, site);
    FlyingAccumulator& flying = TakeOff(group, columns, site);
    flying.group = group.open_group;
    auto values = flying.values;
    const OperationId id = Post(
        cluster,
        [&cluster, format, a, b, columns, accumulate, values] {
          const std::vector<Factors> rows = Load(cluster, format, a, kRows);
          const std::vector<Factors> lines = Load(cluster, format, b, columns);
          for (std::uint32_t row = 0; row < kRows; ++row) {
            for (std::uint32_t column = 0; column < columns; ++column) {
              float& sum = (*values)[row * columns + column];
              sum = RoundToF32(AlignedSum(accumulate ? sum : 0.0, rows[row], lines[column]));
            }
          }
        },
        1 + group.agent);
    group.operations.emplace_back(group.open_group, id);
  });
}

void WgmmaCommit(const CallSite& site) {
  WarpgroupCollective("wgmma.commit_group", nullptr, site,
                      [](Warpgroup& group) { ++group.open_group; });
}

void WgmmaWait(std::uint32_t pending, const CallSite& site) {
  WarpgroupCollective("wgmma.wait_group", nullptr, site, [pending](Warpgroup& group) {
    const Step committed = group.open_group - 1;
    const Step done = committed - std::min(pending, committed);
    for (const auto& [step, id] : group.operations) {
      if (step <= done) LandNow(id);
    }
    group.operations.erase(std::remove_if(group.operations.begin(), group.operations.end(),
                                          [done](const auto& each) { return each.first <= done; }),
                           group.operations.end());
    for (auto it = group.flying.begin(); it != group.flying.end();) {
      if (it->second.group > done) {
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
