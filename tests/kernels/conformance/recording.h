// Recorded hashes as a text file, and how they are made and compared.
//
//   # NVIDIA H200, sm_90, ...; 2026-11-21    a rehearsal: kernels/emulator, sm_100, 16 blocks a set
//   SET first HASH * 8        of each of the first blocks
//   SET groups HASH * 16      of groups of blocks/16 blocks each
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tests/kernels/conformance/target_memory.h"
#include "tests/kernels/conformance/vector_sets.h"

namespace gemmd::conformance {

struct SetHashes {
  std::vector<std::uint64_t> first;
  std::vector<std::uint64_t> groups;
};

struct Recording {
  std::string head;
  std::uint32_t blocks = 0;  // of each set, where the head says so; 0: as many as the set has
  std::map<std::string, SetHashes> sets;
};

// INVALID_ARGUMENT names the line.
absl::StatusOr<Recording> ParseRecording(absl::string_view text);
// One set's lines.
std::string ToText(const std::string& name, const SetHashes& hashes);

// Hashes of blocks from `first` on.
absl::StatusOr<std::vector<std::uint64_t>> RunBlocks(const VectorSet& set, std::uint32_t first,
                                                     std::uint32_t blocks, TargetMemory* memory);

// All of a set.
absl::StatusOr<SetHashes> RecordSet(const VectorSet& set, TargetMemory* memory);

// The part of a set that is compared.
enum class Extent : std::uint8_t { kFirstBlocks, kFirstGroup, kAll };

// Returns the set's differences from the recording, in one line; empty if there are none.
std::string ReplaySet(const VectorSet& set, const Recording& recording, Extent extent,
                      TargetMemory* memory);

// Every result of one block.
absl::StatusOr<std::vector<std::uint32_t>> RunInFull(const VectorSet& set, std::uint32_t block,
                                                     TargetMemory* memory);

// The first result that differs, in one line; empty where none does.
std::string FirstDifference(const VectorSet& set, std::uint32_t block,
                            const std::vector<std::uint32_t>& recorded,
                            const std::vector<std::uint32_t>& computed);

}  // namespace gemmd::conformance
