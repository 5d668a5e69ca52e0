// Turns: the parts of a run that are measured. A run has one; where several servers take turns,
// what each got is joined to one run of several.
#pragma once

#include <cstddef>
#include <vector>

#include "client/load/load_generator.h"

namespace gemmd::load {

// In their order; at least one.
std::vector<Turn> TurnsOf(const LoadRun& run);

// The number of the turn that a time is in; turns.size() where it is in none.
std::size_t FindTurn(const std::vector<Turn>& turns, TimeNs time);

// One run after another, each with its warm-up and what was answered late. REQUIRES: at least one.
LoadRun Join(std::vector<LoadRun> runs);

}  // namespace gemmd::load
