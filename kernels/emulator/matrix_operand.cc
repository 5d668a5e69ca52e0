#include "kernels/emulator/matrix_operand.h"

#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/failure.h"
#include "kernels/emulator/happens_before.h"
#include "kernels/emulator/swizzle.h"

namespace gemmd::emulator {
namespace {

constexpr std::uint32_t kDepth = 16;
constexpr std::uint32_t kChunk = 16;  // bytes
constexpr std::uint32_t kChunkElements = 8;
constexpr std::uint32_t kGroup = 8;

// Calls f(index, chunk) for every chunk of the matrix.
template <typename F>
void ForEachChunk(const MatrixOperand& operand, std::uint32_t lines, F f) {
  const std::uint32_t indices = operand.is_mn_major ? kDepth : lines;
  const std::uint32_t chunks = (operand.is_mn_major ? lines : kDepth) / kChunkElements;
  for (std::uint32_t index = 0; index < indices; ++index) {
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) f(index, chunk);
  }
}

}  // namespace

// PTX ISA, "Shared Memory Matrix Layout" of wgmma, "Strides": the canonical layouts. Eight
// indices (rows, or MN-major lines of k) form a group, in which they lie one span apart.
std::uint32_t MatrixOperand::ChunkAddress(std::uint32_t index, std::uint32_t chunk) const {
  const std::uint32_t group = index / kGroup;
  const std::uint32_t in_group = index % kGroup;
  if (swizzle == Swizzle::kNone) {
    // Groups of eight chunks of 16 bytes, one an index; which of the two offsets leads to the
    // next group of indices and which to the next chunk, the major-ness turns round.
    const std::uint32_t group_bytes = is_mn_major ? leading : stride;
    const std::uint32_t chunk_bytes = is_mn_major ? stride : leading;
    return start + group * group_bytes + in_group * kChunk + chunk * chunk_bytes;
  }
  const auto span = static_cast<std::uint32_t>(swizzle);
  // K-major, both chunks lie inside a span. MN-major, lines beyond it are `leading` away.
  const std::uint32_t span_chunks = span / kChunk;
  const std::uint32_t along =
      is_mn_major ? chunk / span_chunks * leading + chunk % span_chunks * kChunk : chunk * kChunk;
  return SwizzleAddress(start + group * stride + in_group * span + along, swizzle);
}

// PTX ISA, "Matrix Descriptor Format" of wgmma: 16-byte units in bits 0-13 (start), 16-29
// (leading offset), 32-45 (stride offset); base offset in 49-51; layout in 62-63.
MatrixOperand DecodeMatrix(std::uint64_t descriptor, bool is_mn_major, std::uint32_t rank,
                           const CallSite& site) {
  const auto field = [descriptor](int bit) {
    return static_cast<std::uint32_t>((descriptor >> bit) & 0x3fff) << 4;
  };
  static constexpr Swizzle kLayouts[4] = {Swizzle::kNone, Swizzle::k128B, Swizzle::k64B,
                                          Swizzle::k32B};
  MatrixOperand operand{field(0) | (rank << kRankShift), field(16), field(32),
                        kLayouts[descriptor >> 62], is_mn_major};
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

void CheckMatrixRead(const MatrixOperand& operand, std::uint32_t lines, Agent agent, Step step,
                     const CallSite& site) {
  ForEachChunk(operand, lines, [&](std::uint32_t index, std::uint32_t chunk) {
    const std::uint32_t address = operand.ChunkAddress(index, chunk);
    SharedBytes(address, kChunk, kChunk, "wgmma", site);
    CheckAsyncRead(address, kChunk, agent, step, "wgmma", site);
  });
}

std::vector<HalfLine> LoadLines(Cluster& cluster, const MatrixOperand& operand,
                                std::uint32_t lines) {
  std::vector<HalfLine> loaded(lines);
  ForEachChunk(operand, lines, [&](std::uint32_t index, std::uint32_t chunk) {
    std::array<std::uint16_t, kChunkElements> elements;
    std::memcpy(elements.data(), LandedBytes(cluster, operand.ChunkAddress(index, chunk)), kChunk);
    for (std::uint32_t i = 0; i < kChunkElements; ++i) {
      const std::uint32_t along = chunk * kChunkElements + i;
      loaded[operand.is_mn_major ? along : index][operand.is_mn_major ? index : along] =
          elements[i];
    }
  });
  return loaded;
}

}  // namespace gemmd::emulator
