// JSON files beside safetensors, and the layers of several tensors that they speak of. Texts and
// values; no files.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/weights/layers/layer.h"

namespace gemmd::client {

inline constexpr std::uint64_t kMostConfigBytes = 1 << 20;
inline constexpr int kMostConfigDepth = 8;  // what is deeper is not looked at

// A file that may say so: its name, the key under which it does ("": it is nothing else), and whose
// it is where it does not say that.
struct ConfigFile {
  absl::string_view name;
  absl::string_view section;
  absl::string_view method;
  bool is_for_packed;
};

// The first of these that says something counts. Those for packed codes are of AutoGPTQ and AutoAWQ
// before they wrote config.json, and are for files with their tensors alone.
inline constexpr std::array<ConfigFile, 6> kConfigFiles = {{
    {"config.json", "quantization_config", "", false},
    {"hf_quant_config.json", "quantization", "modelopt", false},
    {"quantize_config.json", "", "gptq", true},
    {"quant_config.json", "", "awq", true},
    {"quantization_config.json", "", "sdnq", false},
    {"config.json", "quantization", "mlx", false},
}};

enum class Packing : std::uint8_t { kGptq, kGptqV2, kGptqPlanar, kAwq, kAwqGemv, kAwqGemvFast };

// The packing of all layers of a file of GPTQ or AWQ (packed_layers.h).
struct PackingConfig {
  Packing packing = Packing::kGptq;
  std::uint64_t bits = 4;
  std::uint64_t group_size = 0;  // 0: all of K
  std::string why;               // no layer packed so has a form; else empty
};

// Texts that a safetensors file has of itself, by their keys.
using FileMetadata = std::map<std::string, std::string>;

struct LayerConfig {
  std::optional<PackingConfig> packing;
  // The blocks that layers of others may have: each fits some, by its planes' shapes.
  std::vector<BlockShape> blocks;
  std::vector<int> bits;    // that packed codes may have
  bool is_rotated = false;  // SDNQ's `use_hadamard`: decoders turn K back
  FileMetadata metadata;
};

// Absent where nothing in the text says that there are layers. INVALID_ARGUMENT names the field
// that is wrong. Keys that say the same must not differ.
absl::StatusOr<std::optional<LayerConfig>> ParseLayerConfig(absl::string_view text,
                                                            const ConfigFile& file);

}  // namespace gemmd::client
