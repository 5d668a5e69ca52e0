#include "kernels/hopper/quant/packing.h"

#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/numbers/quant/packed_codes.h"
#include "kernels/hopper/quant/packed.h"
#include "kernels/hopper/quant/packed_places.h"
#include "kernels/hopper/quant/packing_entries.h"

namespace gemmd {
namespace {

using hopper::quant::Code;
using hopper::quant::CodeFormat;
using hopper::quant::CodeFormatOf;
using hopper::quant::PackedPlaces;

static_assert(kPackedLines == std::int64_t{2} * hopper::quant::kChunkLines);

bool IsHalf(DataType type) { return type == DataType::kF16 || type == DataType::kBf16; }

// The lines and groups of a piece.
struct Piece {
  std::int64_t first_line = 0;
  std::int64_t group = 0;
};

// A piece of a plane that has so many groups.
Piece PieceOf(std::int64_t groups, std::int64_t index) {
  const std::int64_t chunk_group = index / hopper::quant::kChunkStrips;
  const std::int64_t strip = index % hopper::quant::kChunkStrips;
  return {chunk_group / groups * hopper::quant::kChunkLines + strip * hopper::quant::kStripLines,
          chunk_group % groups};
}

// The code of register j, half `half`, of step 0 or 1, in the words of both.
std::uint32_t CodeIn(const std::uint32_t* words, Code type, int step, int j, int half) {
  std::uint32_t value = 0;
  for (int bit = 0; bit < hopper::quant::CodeBits(type); ++bit) {
    const int place = hopper::quant::CodePlace(type, step, j, half, bit);
    value |= (words[place / 32] >> (place % 32) & 1) << bit;
  }
  return value;
}

// The codes of a lane's two steps.
void UnpackPair(const PackedPlaces& places, const Piece& piece, std::int64_t lane,
                std::int64_t pair, const std::uint32_t* words, std::uint8_t* to) {
  const Code type = hopper::quant::CodeOf(places.format);
  for (int nth = 0; nth < 16; ++nth) {
    const int step = nth / 8;
    const int j = nth / 2 % 4;
    const int half = nth % 2;
    const std::int64_t side = j % 2;
    const std::int64_t k_half = j / 2;
    const std::int64_t line = piece.first_line + lane / 4 + side * 8;
    const std::int64_t k = piece.group * hopper::quant::kGroupK +
                           (pair * 2 + step) * hopper::quant::kStepK + lane % 4 * 2 + k_half * 8 +
                           half;
    if (line >= places.n || k >= places.k) continue;
    StoreCode(to, hopper::quant::CodeBits(type), line * places.line_stride + k * places.k_stride,
              CodeIn(words, type, step, j, half) ^ places.bias);
  }
}

void UnpackCodes(const PackedPlaces& places, const Piece& piece, const std::uint8_t* from,
                 std::uint8_t* to) {
  const std::int64_t count = hopper::quant::PairWords(hopper::quant::CodeOf(places.format));
  for (std::int64_t lane = 0; lane < 32; ++lane) {
    for (std::int64_t pair = 0; pair < hopper::quant::kSteps / 2; ++pair) {
      std::uint32_t words[4] = {};
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t nth = pair * count + i;
        std::memcpy(&words[i], from + nth / 4 * 512 + lane * 16 + nth % 4 * 4, sizeof words[i]);
      }
      UnpackPair(places, piece, lane, pair, words, to);
    }
  }
}

void UnpackVector(const PackedPlaces& places, const Piece& piece,
                  const hopper::quant::VectorElements& elements, const std::uint8_t* from,
                  std::uint8_t* to) {
  const std::int64_t size = elements.size;
  for (std::int64_t at = 0; at < hopper::quant::kStripLines * elements.count; ++at) {
    const std::int64_t nth = at / elements.count;
    const std::int64_t line = piece.first_line + nth / 2 + nth % 2 * 8;
    const std::int64_t block = piece.group * elements.count + at % elements.count;
    if (line >= places.n || block >= places.scale_blocks) continue;
    std::uint8_t* const place = to + (line / places.scale_lines * places.scale_line_stride +
                                      block * places.scale_block_stride) *
                                         size;
    std::memcpy(place, from + at * size, static_cast<std::size_t>(size));
    *place = static_cast<std::uint8_t>(*place - elements.bias);
  }
}

// Returns whether kernels take the scales of B, whose format is that.
bool TakesScales(CodeFormat format, const Scaling& scaling) {
  if (!scaling.has_scales || scaling.has_offsets != HasOffsets(format)) return false;
  if (scaling.order == ScaleOrder::kTiles128x4) return false;
  if (scaling.has_tensor_scale && format != CodeFormat::kNvfp4) return false;
  const bool are_of_group =
      scaling.block_lines == 1 && scaling.block_k == hopper::quant::ScaleK(format);
  const bool are_f32 = scaling.type == DataType::kF32;
  switch (format) {
    case CodeFormat::kInt4:
    case CodeFormat::kInt4G64:
    case CodeFormat::kInt4G32:
    case CodeFormat::kUint4Offset:
    case CodeFormat::kUint4G64Offset:
    case CodeFormat::kUint4G32Offset:
    case CodeFormat::kIq4NlG32:
      return are_of_group && IsHalf(scaling.type);
    case CodeFormat::kMxfp4:
    case CodeFormat::kMxE4m3:
    case CodeFormat::kMxE5m2:
    case CodeFormat::kMxE3m2:
    case CodeFormat::kMxE2m3:
      return are_of_group && scaling.type == DataType::kE8M0;
    case CodeFormat::kNvfp4:
      return are_of_group && scaling.type == DataType::kFp8E4M3;
    case CodeFormat::kInt8G64:
    case CodeFormat::kInt8G32:
    case CodeFormat::kUint8G32Offset:
    case CodeFormat::kUint4G32FloatOffset:
    case CodeFormat::kTableG64Float:
    case CodeFormat::kIq4NlG32Float:
      return are_of_group && are_f32;
    case CodeFormat::kInt8:
    case CodeFormat::kE4m3:
    case CodeFormat::kE5m2:
      break;
  }
  const bool are_of_block = scaling.block_lines == 128 && scaling.block_k == hopper::quant::kGroupK;
  return are_f32 && (are_of_group || are_of_block || scaling.block_k == kWhole);
}

const char* ScalesTaken(CodeFormat format) {
  const Code type = hopper::quant::CodeOf(format);
  if (HasOffsets(format)) {
    return type == Code::kInt8 ? "f32 scales and offsets of 1 x 32"
                               : "f16 or bf16 scales and offsets of 1 x 32, 1 x 64 or 1 x 128, or "
                                 "f32 ones of 1 x 32,";
  }
  switch (type) {
    case Code::kInt4:
      return "f16 or bf16 scales of 1 x 32, 1 x 64 or 1 x 128";
    case Code::kTable:
      return format == CodeFormat::kTableG64Float ? "f32 scales of 1 x 64"
                                                  : "f16, bf16 or f32 scales of 1 x 32";
    case Code::kE2m1:
      return "e8m0 scales of 1 x 32, or fp8_e4m3 ones of 1 x 16 with one of the tensor,";
    case Code::kInt8:
      return "f32 scales of 1 x 32, 1 x 64, 1 x 128, of 128 x 128 or of all of K";
    case Code::kE3m2:
    case Code::kE2m3:
      return "e8m0 scales of 1 x 32";
    case Code::kE4m3:
    case Code::kE5m2:
      break;
  }
  return "f32 scales of 1 x 128, of 128 x 128 or of all of K, or e8m0 ones of 1 x 32,";
}

// The rejection by the types of A and B, whatever their shapes.
std::string FormatRejection(const Problem& problem) {
  if (!IsHalf(problem.a.type) && problem.a.type != DataType::kF32) {
    return absl::StrCat("takes A of f16, bf16 or f32, not ", Name(problem.a.type));
  }
  const DataType b = problem.b.type;
  if (!IsQuantizedType(b)) return absl::StrCat("takes B of quantized weights, not ", Name(b));
  const CodeFormat format = CodeFormatOf(problem);
  if (problem.b_scaling.has_offsets && b != DataType::kUint4 && b != DataType::kUint8) {
    return absl::StrCat("takes offsets beside uint4 and uint8, not ", Name(b));
  }
  if (!TakesScales(format, problem.b_scaling)) {
    return absl::StrCat("takes ", ScalesTaken(format), " for B of ", Name(b), ", not ",
                        Name(problem.b_scaling));
  }
  if (IsChain(format) && problem.a.type == DataType::kF16) {
    return absl::StrCat("takes A of bf16 or f32 by B of fp4_e2m1, not ", Name(problem.a.type));
  }
  return "";
}

}  // namespace

std::string PackingRejection(const Problem& problem) {
  if (std::string rejection = FormatRejection(problem); !rejection.empty()) return rejection;
  if (problem.k % hopper::quant::kSlabK != 0) {
    return absl::StrCat("takes K that is a multiple of ", hopper::quant::kSlabK, ", not ",
                        problem.k);
  }
  constexpr double kMostPadding = 4;
  const double padded = static_cast<double>(hopper::quant::UnitsOf(problem.n, problem.k)) *
                        (hopper::quant::kStripLines * hopper::quant::kGroupK);
  if (padded > kMostPadding * static_cast<double>(problem.n) * static_cast<double>(problem.k)) {
    return absl::StrCat("takes N x K that padding to 128 makes at most ", kMostPadding,
                        " times as large, not ", problem.n, " x ", problem.k);
  }
  if (problem.accumulate != DataType::kF32) {
    return absl::StrCat("does not accumulate in ", Name(problem.accumulate));
  }
  if (!IsHalf(problem.d.type) && problem.d.type != DataType::kF32) {
    return absl::StrCat("does not write ", Name(problem.d.type));
  }
  return "";
}

std::uint64_t PackedPieceBytes(const Problem& problem, WeightPlane plane) {
  return static_cast<std::uint64_t>(hopper::quant::PieceBytes(CodeFormatOf(problem), plane));
}

std::uint64_t PackedBytes(const Problem& problem, WeightPlane plane) {
  return PackedOffset(problem, plane, problem.n);
}

std::uint64_t PackedOffset(const Problem& problem, WeightPlane plane, std::int64_t line) {
  return static_cast<std::uint64_t>(hopper::quant::UnitsOf(problem, plane, line)) *
         PackedPieceBytes(problem, plane);
}

absl::Status PackPlane(const Problem& problem, WeightPlane plane, const void* sent, void* packed,
                       const LaunchTarget& target) {
  if (reinterpret_cast<std::uintptr_t>(packed) % 128 != 0) {
    return absl::InvalidArgumentError("packed planes must be aligned to 128 bytes");
  }
  return hopper::quant::PackingFor(target)(problem, plane, sent, packed, target);
}

void UnpackPieces(const Problem& problem, WeightPlane plane, std::int64_t first, std::int64_t count,
                  const void* pieces, void* sent) {
  const PackedPlaces places = hopper::quant::PlacesOf(problem);
  const auto* from = static_cast<const std::uint8_t*>(pieces);
  auto* const to = static_cast<std::uint8_t*>(sent);
  const std::int64_t groups = plane == WeightPlane::kCodes ? places.groups : places.scale_groups;
  for (std::int64_t index = first; index < first + count; ++index) {
    const Piece piece = PieceOf(groups, index);
    if (plane == WeightPlane::kCodes) {
      UnpackCodes(places, piece, from, to);
    } else {
      UnpackVector(places, piece, hopper::quant::ElementsOf(places, plane), from, to);
    }
    from += PackedPieceBytes(problem, plane);
  }
}

}  // namespace gemmd
