// The index of a model whose tensors are in several safetensors files, its shards:
//
//   {"metadata": ANYTHING, "weight_map": {NAME: "model-00001-of-00002.safetensors", ...}}
//
// Texts and values; no files.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gemmd::client {

inline constexpr std::uint64_t kMostIndexBytes = 100'000'000;
inline constexpr std::size_t kMostIndexDepth = 32;
inline constexpr std::size_t kMostShards = 4096;

struct ShardIndex {
  std::map<std::string, std::string> shard_of;  // by tensor
};

// INVALID_ARGUMENT: the text is not JSON of the grammar above, too deep or too long; a key comes
// twice; there are too many tensors or shards; or a shard is not a file's bare name, by which an
// index could lead anywhere.
absl::StatusOr<ShardIndex> ParseShardIndex(absl::string_view text);

}  // namespace gemmd::client
