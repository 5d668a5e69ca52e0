// Resamples of a run: how far its figures might have been from where they came out. Requests
// that are close in time are alike, so whole blocks of the measured time are drawn, with
// replacement (a block bootstrap; Efron and Tibshirani, "An Introduction to the Bootstrap").
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "client/load/load_generator.h"
#include "client/load/results/summary.h"

namespace gemmd::load {

inline constexpr std::size_t kResamples = 300;
// Fewer blocks than this tell nothing.
inline constexpr std::size_t kLeastBlocks = 5;

struct Resamples {
  std::size_t blocks = 0;  // 0: none could be made
  // By the names of figures.h, kResamples values each, in the order in which they were drawn: runs
  // of the same number of blocks drew the same ones.
  std::map<std::string, std::vector<double>> figures;
};

// Blocks are the run's turns or, where it has one turn, equal parts of its time. A run gives equal
// resamples every time.
Resamples Resample(const LoadRun& run, const std::vector<EntryCost>& costs);

}  // namespace gemmd::load
