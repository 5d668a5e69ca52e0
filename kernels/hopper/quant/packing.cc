#include "kernels/hopper/quant/packing.h"

#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/hopper/quant/packed.h"
#include "kernels/hopper/quant/packed_places.h"
#include "kernels/hopper/quant/packing_entries.h"

namespace gemmd {
namespace {

using hopper::quant::PackedPlaces;

static_assert(kPackedLines == std::int64_t{2} * hopper::quant::kChunkLines);

bool IsHalf(DataType type) { return type == DataType::kF16 || type == DataType::kBf16; }

// The lines and groups of a piece.
struct Piece {
  std::int64_t first_line = 0;
  std::int64_t group = 0;
};

Piece PieceOf(const PackedPlaces& places, std::int64_t index) {
  const std::int64_t chunk_group = index / hopper::quant::kChunkStrips;
  const std::int64_t strip = index % hopper::quant::kChunkStrips;
  return {
      chunk_group / places.groups * hopper::quant::kChunkLines + strip * hopper::quant::kStripLines,
      chunk_group % places.groups};
}

void SetCode(std::uint8_t* codes, std::int64_t index, std::uint32_t code) {
  const auto shift = static_cast<std::uint32_t>(index % 2 * 4);
  std::uint8_t& byte = codes[index / 2];
  byte = static_cast<std::uint8_t>((byte & ~(15U << shift)) | code << shift);
}

void UnpackCodes(const PackedPlaces& places, const Piece& piece, const std::uint8_t* from,
                 std::uint8_t* to) {
  for (std::int64_t at = 0; at < hopper::quant::kCodeBytes; at += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, from + at, sizeof word);
    const std::int64_t lane = at % 512 / 16;
    const std::int64_t step = at / 512 * 4 + at % 16 / 4;
    for (std::int64_t code = 0; code < 8; ++code) {
      const std::int64_t j = code % 4;
      const std::int64_t line = piece.first_line + lane / 4 + j % 2 * 8;
      const std::int64_t k = piece.group * hopper::quant::kGroupK + step * hopper::quant::kStepK +
                             lane % 4 * 2 + j / 2 * 8 + code / 4;
      if (line >= places.n || k >= places.k) continue;
      SetCode(to, line * places.line_stride + k * places.k_stride,
              (word >> (4 * code) & 15) ^ places.bias);
    }
  }
}

void UnpackVector(const PackedPlaces& places, const Piece& piece, WeightPlane plane,
                  const std::uint8_t* from, std::uint8_t* to) {
  for (std::int64_t nth = 0; nth < hopper::quant::kStripLines; ++nth) {
    const std::int64_t line = piece.first_line + nth / 2 + nth % 2 * 8;
    if (line >= places.n) continue;
    const std::int64_t place =
        line * places.scale_line_stride + piece.group * places.scale_group_stride;
    if (plane == WeightPlane::kScales) {
      std::memcpy(to + place * 2, from + nth * 2, 2);
    } else {
      to[place] = static_cast<std::uint8_t>(from[nth] - places.bias);
    }
  }
}

}  // namespace

std::string PackingRejection(const Problem& problem) {
  const Scaling& scaling = problem.b_scaling;
  if (!IsHalf(problem.a.type)) {
    return absl::StrCat("takes A of f16 or bf16, not ", Name(problem.a.type));
  }
  if (problem.b.type != DataType::kInt4 && problem.b.type != DataType::kUint4) {
    return absl::StrCat("takes B of int4 or uint4, not ", Name(problem.b.type));
  }
  if (!scaling.has_scales || scaling.type != DataType::kF16 || scaling.block_lines != 1 ||
      scaling.block_k != hopper::quant::kGroupK || scaling.has_tensor_scale ||
      scaling.order == ScaleOrder::kTiles128x4) {
    return absl::StrCat("takes f16 scales of 1 x 128 for B, not ", Name(scaling));
  }
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

std::uint64_t PackedPieceBytes(WeightPlane plane) {
  switch (plane) {
    case WeightPlane::kCodes:
      return hopper::quant::kCodeBytes;
    case WeightPlane::kScales:
      return hopper::quant::kScaleBytes;
    case WeightPlane::kZeroPoints:
      break;
  }
  return hopper::quant::kZeroBytes;
}

std::uint64_t PackedBytes(const Problem& problem, WeightPlane plane) {
  return static_cast<std::uint64_t>(hopper::quant::UnitsOf(problem.n, problem.k)) *
         PackedPieceBytes(plane);
}

std::uint64_t PackedOffset(const Problem& problem, WeightPlane plane, std::int64_t line) {
  return static_cast<std::uint64_t>(hopper::quant::UnitsOf(line, problem.k)) *
         PackedPieceBytes(plane);
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
  for (std::int64_t index = first; index < first + count; ++index) {
    const Piece piece = PieceOf(places, index);
    if (plane == WeightPlane::kCodes) {
      UnpackCodes(places, piece, from, to);
    } else {
      UnpackVector(places, piece, plane, from, to);
    }
    from += PackedPieceBytes(plane);
  }
}

}  // namespace gemmd
