#include "tests/kernels/conformance/recording.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/kernels/conformance/random_bits.h"

namespace gemmd::conformance {
namespace {

// A group's hash depends on the order of its blocks.
std::uint64_t GroupHash(const std::vector<std::uint64_t>& blocks, std::size_t first,
                        std::size_t count) {
  std::uint64_t hash = 0;
  for (std::size_t i = first; i < first + count; ++i) hash = Mix(hash ^ blocks[i]);
  return hash;
}

// The blocks of each set that a rehearsal's head has; 0 where it has none.
std::uint32_t BlocksOf(absl::string_view head) {
  for (absl::string_view part : absl::StrSplit(head, absl::ByAnyChar(",;"))) {
    part = absl::StripAsciiWhitespace(part);
    std::uint32_t blocks;
    if (!absl::ConsumeSuffix(&part, " blocks a set") || !absl::SimpleAtoi(part, &blocks)) continue;
    if (blocks >= kGroups && blocks % kGroups == 0) return blocks;
  }
  return 0;
}

std::uint32_t GroupLength(const VectorSet& set) { return set.blocks / kGroups; }

std::string DescribeBlock(const VectorSet& set, std::uint32_t block) {
  return Describe(set, block, 0);
}

}  // namespace

absl::StatusOr<Recording> ParseRecording(absl::string_view text) {
  Recording recording;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    if (line[0] == '#') {
      if (recording.head.empty()) recording.head = std::string(absl::StripPrefix(line, "# "));
      recording.blocks = BlocksOf(recording.head);
      continue;
    }
    const std::vector<absl::string_view> parts = absl::StrSplit(line, ' ', absl::SkipEmpty());
    std::vector<std::uint64_t> hashes;
    bool is_right = parts.size() > 2 && (parts[1] == "first" || parts[1] == "groups");
    for (std::size_t i = 2; is_right && i < parts.size(); ++i) {
      is_right = absl::SimpleHexAtoi(parts[i], &hashes.emplace_back());
    }
    is_right = is_right && hashes.size() == (parts[1] == "first" ? kFirstBlocks : kGroups);
    if (!is_right) return absl::InvalidArgumentError(absl::StrCat("not a recording: ", line));
    SetHashes& set = recording.sets[std::string(parts[0])];
    (parts[1] == "first" ? set.first : set.groups) = std::move(hashes);
  }
  return recording;
}

std::string ToText(const std::string& name, const SetHashes& hashes) {
  std::string text;
  for (const auto& [word, values] :
       {std::pair<const char*, const std::vector<std::uint64_t>&>{"first", hashes.first},
        {"groups", hashes.groups}}) {
    absl::StrAppend(&text, name, " ", word);
    for (const std::uint64_t value : values) absl::StrAppendFormat(&text, " %016x", value);
    text += "\n";
  }
  return text;
}

absl::StatusOr<std::vector<std::uint64_t>> RunBlocks(const VectorSet& set, std::uint32_t first,
                                                     std::uint32_t blocks, TargetMemory* memory) {
  std::vector<std::uint64_t> threads(std::size_t{blocks} * set.threads);
  VectorParams params;
  params.set = set.number;
  params.first_block = first;
  params.hashes = static_cast<std::uint64_t*>(memory->Allocate(threads.size() * 8));
  absl::Status status = set.run(set, params, blocks, memory);
  if (status.ok()) status = memory->Wait();
  if (status.ok()) status = memory->Get(threads.data(), params.hashes, threads.size() * 8);
  if (!status.ok()) return status;
  std::vector<std::uint64_t> hashes;
  for (std::uint32_t i = 0; i < blocks; ++i) {
    hashes.push_back(BlockHash(&threads[std::size_t{i} * set.threads], set.threads));
  }
  return hashes;
}

absl::StatusOr<SetHashes> RecordSet(const VectorSet& set, TargetMemory* memory) {
  const absl::StatusOr<std::vector<std::uint64_t>> blocks = RunBlocks(set, 0, set.blocks, memory);
  if (!blocks.ok()) return blocks.status();
  SetHashes hashes;
  hashes.first.assign(blocks->begin(), blocks->begin() + kFirstBlocks);
  for (std::uint32_t group = 0; group < kGroups; ++group) {
    hashes.groups.push_back(GroupHash(*blocks, group * GroupLength(set), GroupLength(set)));
  }
  return hashes;
}

std::string ReplaySet(const VectorSet& whole, const Recording& recording, Extent extent,
                      TargetMemory* memory) {
  VectorSet set = whole;
  if (recording.blocks != 0) set.blocks = std::min(set.blocks, recording.blocks);
  const auto found = recording.sets.find(set.name);
  if (found == recording.sets.end()) return absl::StrCat(set.name, " is not in the recording");
  const SetHashes& recorded = found->second;
  const std::uint32_t count = extent == Extent::kFirstBlocks ? kFirstBlocks
                              : extent == Extent::kFirstGroup
                                  ? std::max(GroupLength(set), kFirstBlocks)
                                  : set.blocks;
  const absl::StatusOr<std::vector<std::uint64_t>> blocks = RunBlocks(set, 0, count, memory);
  if (!blocks.ok()) return absl::StrCat(set.name, ": ", blocks.status().message());
  for (std::uint32_t i = 0; i < kFirstBlocks; ++i) {
    if ((*blocks)[i] != recorded.first[i]) return absl::StrCat(DescribeBlock(set, i), ": differs");
  }
  for (std::uint32_t group = 0; (group + 1) * GroupLength(set) <= count; ++group) {
    if (GroupHash(*blocks, group * GroupLength(set), GroupLength(set)) == recorded.groups[group]) {
      continue;
    }
    return absl::StrCat(set.name, ": some of blocks ", group * GroupLength(set), " to ",
                        (group + 1) * GroupLength(set) - 1, " differ");
  }
  return "";
}

absl::StatusOr<std::vector<std::uint32_t>> RunInFull(const VectorSet& set, std::uint32_t block,
                                                     TargetMemory* memory) {
  std::vector<std::uint32_t> words(set.words_per_block());
  VectorParams params;
  params.set = set.number;
  params.first_block = block;
  params.hashes = static_cast<std::uint64_t*>(memory->Allocate(std::uint64_t{set.threads} * 8));
  params.words = static_cast<std::uint32_t*>(memory->Allocate(words.size() * 4));
  absl::Status status = set.run(set, params, 1, memory);
  if (status.ok()) status = memory->Wait();
  if (status.ok()) status = memory->Get(words.data(), params.words, words.size() * 4);
  if (!status.ok()) return status;
  return words;
}

std::string FirstDifference(const VectorSet& set, std::uint32_t block,
                            const std::vector<std::uint32_t>& recorded,
                            const std::vector<std::uint32_t>& computed) {
  if (recorded.size() != computed.size()) {
    return absl::StrCat(set.name, ": ", recorded.size(), " words recorded, ", computed.size(),
                        " computed");
  }
  std::size_t different = 0;
  std::size_t first = 0;
  for (std::size_t i = recorded.size(); i-- > 0;) {
    if (recorded[i] == computed[i]) continue;
    first = i;
    ++different;
  }
  if (different == 0) return "";
  return absl::StrFormat("%s: recorded %08x, computed %08x; %d of %d words differ",
                         Describe(set, block, first), recorded[first], computed[first], different,
                         recorded.size());
}

}  // namespace gemmd::conformance
