// The sets of vectors that are recorded on a GPU and replayed in the emulator.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "tests/kernels/conformance/target_memory.h"
#include "tests/kernels/conformance/vector_params.h"

namespace gemmd::conformance {

// One kind of instruction. Its blocks are numbered; block b has operands of class
// b % kOperandClasses (conversions: of kind b % 4).
struct VectorSet {
  std::string name;
  std::uint32_t number = 0;  // part of every key: never given to another set
  std::uint32_t blocks = 0;  // a multiple of kGroups
  std::uint32_t threads = 0;
  std::uint32_t instructions = 0;  // of a block
  std::uint32_t words = 0;         // of a thread and instruction
  // Runs blocks from params.first_block on; hashes and words are in `memory` and
  // have room for `blocks` of them. Queued, or complete.
  absl::Status (*run)(const VectorSet& set, const VectorParams& params, std::uint32_t blocks,
                      TargetMemory* memory) = nullptr;

  std::uint64_t words_per_block() const { return std::uint64_t{threads} * instructions * words; }
};

// Hashes of a recording: of each of the first blocks, and of groups of equal length over all.
inline constexpr std::uint32_t kFirstBlocks = 8;
inline constexpr std::uint32_t kGroups = 16;

// The cards that have sets of their own; a set that several have is the same one.
enum class Card : std::uint8_t { kSm90, kSm100, kSm120 };
inline constexpr Card kCards[] = {Card::kSm90, Card::kSm100, Card::kSm120};

// "sm_90" and so on, as TargetMemory::machine() has it.
const char* Name(Card card);
// The card that the head of a recording names.
absl::optional<Card> CardOf(absl::string_view head);

// The sets, alike for either backend. A program with device code has CudaVectorSets(), of the card
// that it was built for.
std::vector<VectorSet> CudaVectorSets();
std::vector<VectorSet> EmulatedVectorSets(Card card);

// A block's hash from those of its threads.
std::uint64_t BlockHash(const std::uint64_t* threads, std::uint32_t count);

// Describes result `word` of a block in words: the operand and the instruction that it is of.
std::string Describe(const VectorSet& set, std::uint32_t block, std::uint64_t word);

}  // namespace gemmd::conformance
