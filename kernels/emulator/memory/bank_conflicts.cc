#include "kernels/emulator/memory/bank_conflicts.h"

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"

namespace gemmd::emulator {
namespace {

constexpr std::uint32_t kBanks = 32;

std::string Key(const char* instruction, const char* file_name, int line) {
  const std::string file = file_name;
  return absl::StrCat(file.substr(file.rfind('/') + 1), ":", line, " ", instruction);
}

// Wavefronts that one pass takes: the most different words in one bank.
int Ways(const std::vector<std::uint32_t>& words) {
  std::vector<std::uint32_t> different = words;
  std::sort(different.begin(), different.end());
  different.erase(std::unique(different.begin(), different.end()), different.end());
  std::array<int, kBanks> count{};
  int worst = 0;
  for (const std::uint32_t word : different) worst = std::max(worst, ++count[word % kBanks]);
  return worst;
}

void AddPass(BankUse* use, const std::vector<std::uint32_t>& words) {
  const int ways = Ways(words);
  ++use->accesses;
  use->extra_wavefronts += static_cast<std::uint64_t>(std::max(ways - 1, 0));
  use->worst_ways = std::max(use->worst_ways, ways);
}

void Count(const std::string& key, const WarpAccess& access, Grid& grid) {
  BankUse* use = &grid.report.statistics.banks[key];
  const std::uint32_t words_each = std::max(access.bytes / 4, 1u);
  const std::uint32_t lanes_a_pass = kWarpSize / words_each;
  for (std::uint32_t first = 0; first < kWarpSize; first += lanes_a_pass) {
    std::vector<std::uint32_t> words;
    for (std::uint32_t lane = first; lane < first + lanes_a_pass; ++lane) {
      if (((access.lanes >> lane) & 1) == 0) continue;
      for (std::uint32_t i = 0; i < words_each; ++i) words.push_back(access.address[lane] / 4 + i);
    }
    if (!words.empty()) AddPass(use, words);
  }
}

}  // namespace

void NoteSharedAccess(const char* instruction, std::uint32_t address, std::uint32_t bytes,
                      const CallSite& site) {
  Grid& grid = CurrentGrid();
  if (!grid.options.count_bank_conflicts) return;
  Thread& thread = CurrentThread();
  const std::uint64_t pass = grid.passes[{&thread, site.file, site.line}]++;
  const auto key =
      std::make_tuple(static_cast<const Warp*>(thread.warp), site.file, site.line, pass);
  WarpAccess& access = grid.open_accesses[key];
  access.bytes = bytes;
  access.lanes |= 1u << thread.lane;
  access.address[thread.lane] = address;
  if (access.lanes != 0xffffffffu) return;
  Count(Key(instruction, site.file, site.line), access, grid);
  grid.open_accesses.erase(key);
}

void NoteMatrixAccess(const char* instruction, const std::uint32_t (&row)[8],
                      const CallSite& site) {
  Grid& grid = CurrentGrid();
  if (!grid.options.count_bank_conflicts) return;
  std::vector<std::uint32_t> words;
  for (const std::uint32_t address : row) {
    for (std::uint32_t i = 0; i < 4; ++i) words.push_back(address / 4 + i);
  }
  AddPass(&grid.report.statistics.banks[Key(instruction, site.file, site.line)], words);
}

void CountUnfinishedAccesses(Grid& grid, const Cluster& cluster) {
  for (auto it = grid.open_accesses.begin(); it != grid.open_accesses.end();) {
    const auto& [warp, file, line, pass] = it->first;
    if (warp->block->cluster != &cluster) {
      ++it;
      continue;
    }
    Count(Key("access", file, line), it->second, grid);
    it = grid.open_accesses.erase(it);
  }
  for (auto it = grid.passes.begin(); it != grid.passes.end();) {
    const bool is_mine = std::get<0>(it->first)->block->cluster == &cluster;
    it = is_mine ? grid.passes.erase(it) : std::next(it);
  }
}

}  // namespace gemmd::emulator
