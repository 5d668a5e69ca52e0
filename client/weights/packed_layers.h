// Layers that GPTQ and AWQ have quantized, as several tensors of a safetensors file and a
// config.json beside it. Each becomes one tensor, PREFIX.weight, of PREFIX.qweight, .qzeros,
// .scales and perhaps .g_idx. Texts and values; no files.
//
// An element is (code - zero point) * scale of its group of K. Codes and zero points of 4 bits are
// packed in int32, the first in the lowest bits:
//
//            GPTQ                                AWQ, version "gemm"
//   qweight  [K/8, N], along K                   [K, N/8], along N
//   qzeros   [groups, N/8], along N              [groups, N/8], along N
//   scales   [groups, N], F16                    [groups, N], F16
//   g_idx    [K], the group of each k, or none   none
//
// AWQ packs eight columns in the order 0, 2, 4, 6, 1, 3, 5, 7. GPTQ of the checkpoint format "gptq"
// stores zero points less 1, "gptq_v2" as they are. Where such a zero point less 1 is 15, programs
// read it as 16 or carry it over to the next one, so that it is refused.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/quantized/quantized_array.h"
#include "client/weights/weight_tensor.h"

namespace gemmd::client {

inline constexpr std::uint64_t kMostConfigBytes = 1 << 20;

enum class Packing : std::uint8_t { kGptq, kGptqV2, kAwq };

struct PackingConfig {
  Packing packing = Packing::kGptq;
  std::uint64_t bits = 4;
  std::uint64_t group_size = 0;  // 0: all of K
  std::string why;               // no layer packed so has a form; else empty
};

// Reads the text of a config.json: absent where nothing in it says that layers are packed so.
// INVALID_ARGUMENT names the field that is wrong. Keys that say the same must not differ.
absl::StatusOr<std::optional<PackingConfig>> ParsePackingConfig(absl::string_view text);

// One layer: where its planes lie, and its form, or why it has none.
struct PackedLayer {
  PackingConfig config;
  Bytes qweight;
  Bytes qzeros;
  Bytes scales;
  Bytes g_idx;
  std::string format;  // empty: none
  std::string why;
};

// Puts a tensor in the place of those of each layer. A layer whose name is taken, or that has no
// qzeros or scales, stays as it is.
std::vector<WeightTensor> CombineLayers(std::vector<WeightTensor> tensors,
                                        const PackingConfig& config);

// INVALID_ARGUMENT, with the place and the cause: a scale is NaN or infinite, or a zero point can
// be read in two ways. A scale below zero turns codes and zero points around. REQUIRES: the layer
// has a format, and this shape.
absl::StatusOr<QuantizedArray> DecodeLayer(const PackedLayer& layer, std::uint64_t lines,
                                           std::uint64_t k);

}  // namespace gemmd::client
