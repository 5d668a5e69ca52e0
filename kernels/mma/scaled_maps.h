// Host code: tensor maps of a block-scaled product's operands and of their scales.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/kernel.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/tensor_map.h"

namespace gemmd::mma {
inline namespace GEMMD_BACKEND {

// Maps lines of K elements of 8 bits, or of an even number of 4 bits, in boxes of `lines` lines of
// 128 bytes.
inline absl::StatusOr<ptx::TensorMap> MakeOperandMap(const void* data, const MatrixLayout& matrix,
                                                     std::uint32_t lines) {
  const std::int64_t per_byte = 8 / SizeBits(matrix.type);
  ptx::TensorMapSpec spec;
  spec.base = data;
  spec.element = ptx::TensorElement::kU8;
  spec.size[0] = static_cast<std::uint64_t>(matrix.inner() / per_byte);
  spec.size[1] = static_cast<std::uint64_t>(matrix.outer());
  spec.stride_bytes[1] = static_cast<std::uint64_t>(matrix.leading_dimension / per_byte);
  spec.box[0] = 128;
  spec.box[1] = lines;
  spec.swizzle = ptx::Swizzle::k128B;
  return ptx::MakeTensorMap(spec);
}

// Tiles of 512 bytes: those along K, each of four blocks, follow each other, then those along
// lines. A box has `along_k` by `along_lines` of them, each by lines of `line_bytes`, which lie in
// shared memory one after another, so that bytes lie alike whatever their length.
inline absl::StatusOr<ptx::TensorMap> MakeScaleMap(const void* data, const Scaling& scaling,
                                                   std::int64_t lines, std::int64_t k, int along_k,
                                                   int along_lines, int line_bytes = 16) {
  constexpr std::uint64_t kTileBytes = 512;
  const auto line = static_cast<std::uint32_t>(line_bytes);
  const auto tiles_k = static_cast<std::uint64_t>((scaling.k_blocks(k) + 3) / 4);
  const auto tiles = static_cast<std::uint64_t>((lines + 127) / 128);
  ptx::TensorMapSpec spec;
  spec.base = data;
  spec.element = ptx::TensorElement::kU8;
  spec.rank = 4;
  spec.size[0] = line;
  spec.size[1] = kTileBytes / line;
  spec.size[2] = tiles_k;
  spec.size[3] = tiles;
  spec.stride_bytes[1] = line;
  spec.stride_bytes[2] = kTileBytes;
  spec.stride_bytes[3] = kTileBytes * tiles_k;
  spec.box[0] = line;
  spec.box[1] = static_cast<std::uint32_t>(kTileBytes) / line;
  spec.box[2] = static_cast<std::uint32_t>(along_k);
  spec.box[3] = static_cast<std::uint32_t>(along_lines);
  return ptx::MakeTensorMap(spec);
}

inline std::uint64_t ScaleBytes(const Scaling& scaling, std::int64_t lines, std::int64_t k) {
  return static_cast<std::uint64_t>(scaling.count(lines, k));
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::mma
