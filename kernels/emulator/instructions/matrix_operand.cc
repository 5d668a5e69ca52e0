#include "kernels/emulator/instructions/matrix_operand.h"

#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/machine/failure.h"
#include "kernels/emulator/memory/happens_before.h"
#include "kernels/emulator/memory/swizzle.h"

namespace gemmd::emulator {
namespace {

constexpr std::uint32_t kChunk = 16;  // bytes
constexpr std::uint32_t kGroup = 8;

// Calls f(index, chunk) for every chunk of the matrix.
template <typename F>
void ForEachChunk(const MatrixOperand& operand, std::uint32_t lines, F f) {
  const std::uint32_t depth = kBlockBytes / operand.element_bytes;
  const std::uint32_t indices = operand.is_mn_major ? depth : lines;
  const std::uint32_t along = operand.is_mn_major ? lines : depth;
  for (std::uint32_t index = 0; index < indices; ++index) {
    for (std::uint32_t chunk = 0; chunk < along * operand.element_bytes / kChunk; ++chunk) {
      f(index, chunk);
    }
  }
}

std::uint32_t Field(std::uint64_t descriptor, int bit, int bits) {
  return static_cast<std::uint32_t>(descriptor >> bit) & ((1u << bits) - 1);
}

// 16-byte units in bits 0-13 (start), 16-29 (leading offset), 32-45 (stride offset), which both
// generations have.
MatrixOperand DecodePlaces(std::uint64_t descriptor, Swizzle swizzle, const OperandForm& form,
                           std::uint32_t rank) {
  const auto place = [descriptor](int bit) { return Field(descriptor, bit, 14) * kChunk; };
  return {place(0) | (rank << kRankShift),
          place(16),
          place(32),
          swizzle,
          form.is_mn_major,
          form.element_bytes};
}

// The base offset, in bits 49-51 of both, is not needed where the pattern starts at a multiple of
// its period.
void CheckStart(const MatrixOperand& operand, std::uint64_t descriptor, const char* what,
                const CallSite& site) {
  const std::uint32_t period = SwizzlePeriod(operand.swizzle);
  const auto span = static_cast<std::uint32_t>(operand.swizzle);
  if (operand.swizzle == Swizzle::kNone || Field(descriptor, 49, 3) != 0 ||
      (operand.start & (period - 1) & ~(span - 1)) == 0) {
    return;
  }
  Fail(Violation::kMisaligned, site,
       absl::StrCat(what, ": an operand starts at ", DescribeShared(operand.start),
                    ", inside the swizzle's period of ", period, " bytes"));
}

}  // namespace

// PTX ISA, "Shared Memory Matrix Layout" of wgmma, "Strides", and "Shared Memory Layout and
// Swizzling" of tcgen05: the canonical layouts, which both generations have. Eight
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

// PTX ISA, "Matrix Descriptor Format" of wgmma: layout in bits 62-63.
MatrixOperand DecodeWgmmaMatrix(std::uint64_t descriptor, const OperandForm& form,
                                std::uint32_t rank, const CallSite& site) {
  static constexpr Swizzle kLayouts[4] = {Swizzle::kNone, Swizzle::k128B, Swizzle::k64B,
                                          Swizzle::k32B};
  const MatrixOperand operand = DecodePlaces(descriptor, kLayouts[descriptor >> 62], form, rank);
  CheckStart(operand, descriptor, "wgmma", site);
  return operand;
}

// PTX ISA, "Shared Memory Descriptor" of tcgen05, the table of its layout: 0b001 in bits 46-48,
// the leading offset's mode in 52, zeros in 53-60, the swizzle in 61-63.
MatrixOperand DecodeTcgen05Matrix(std::uint64_t descriptor, const OperandForm& form,
                                  std::uint32_t rank, const CallSite& site) {
  const auto refuse = [&](const char* why) {
    Fail(Violation::kBadOperand, site, absl::StrCat("tcgen05: a matrix descriptor ", why));
  };
  if (Field(descriptor, 14, 2) != 0 || Field(descriptor, 30, 2) != 0) {
    refuse("has reserved bits set, of 14-15 and 30-31");
  }
  if (Field(descriptor, 46, 3) != 1) refuse("has no 0b001 in bits 46-48");
  if (Field(descriptor, 52, 1) != 0) refuse("has an absolute leading offset, not emulated");
  if (Field(descriptor, 53, 8) != 0) refuse("has bits set of 53-60");
  Swizzle swizzle = Swizzle::kNone;
  switch (Field(descriptor, 61, 3)) {
    case 0:
      break;
    case 2:
      swizzle = Swizzle::k128B;
      break;
    case 4:
      swizzle = Swizzle::k64B;
      break;
    case 6:
      swizzle = Swizzle::k32B;
      break;
    case 1:
      refuse("has a swizzle with atoms of 32 bytes, not emulated");
      break;
    default:
      refuse("has a swizzle that there is not, in bits 61-63");
  }
  if (form.is_mn_major && form.element_bytes == 4) {
    refuse("is of MN-major 32-bit elements, whose swizzle has atoms of 32 bytes, not emulated");
  }
  const MatrixOperand operand = DecodePlaces(descriptor, swizzle, form, rank);
  CheckStart(operand, descriptor, "tcgen05", site);
  return operand;
}

void CheckMatrixRead(const MatrixOperand& operand, std::uint32_t lines, Agent agent, Step step,
                     const char* what, const CallSite& site) {
  ForEachChunk(operand, lines, [&](std::uint32_t index, std::uint32_t chunk) {
    const std::uint32_t address = operand.ChunkAddress(index, chunk);
    SharedBytes(address, kChunk, kChunk, what, site);
    CheckAsyncRead(address, kChunk, agent, step, what, site);
  });
}

template <typename Element>
std::vector<OperandLine<Element>> LoadLines(Cluster& cluster, const MatrixOperand& operand,
                                            std::uint32_t lines) {
  constexpr std::uint32_t kChunkElements = kChunk / sizeof(Element);
  std::vector<OperandLine<Element>> loaded(lines);
  ForEachChunk(operand, lines, [&](std::uint32_t index, std::uint32_t chunk) {
    std::array<Element, kChunkElements> elements;
    std::memcpy(elements.data(), LandedBytes(cluster, operand.ChunkAddress(index, chunk)), kChunk);
    for (std::uint32_t i = 0; i < kChunkElements; ++i) {
      const std::uint32_t along = chunk * kChunkElements + i;
      loaded[operand.is_mn_major ? along : index][operand.is_mn_major ? index : along] =
          elements[i];
    }
  });
  return loaded;
}

template std::vector<OperandLine<std::uint8_t>> LoadLines(Cluster&, const MatrixOperand&,
                                                          std::uint32_t);
template std::vector<OperandLine<std::uint16_t>> LoadLines(Cluster&, const MatrixOperand&,
                                                           std::uint32_t);
template std::vector<OperandLine<std::uint32_t>> LoadLines(Cluster&, const MatrixOperand&,
                                                           std::uint32_t);

}  // namespace gemmd::emulator
