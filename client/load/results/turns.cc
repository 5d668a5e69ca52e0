#include "client/load/results/turns.h"

#include <algorithm>
#include <utility>

namespace gemmd::load {
namespace {

void Shift(TimeNs by_ns, LoadRun& run) {
  run.begin_ns += by_ns;
  run.end_ns += by_ns;
  for (Sample& sample : run.samples) {
    sample.intended_ns += by_ns;
    sample.sent_ns += by_ns;
    sample.completed_ns += by_ns;
  }
  for (Turn& pause : run.pauses) {
    pause.begin_ns += by_ns;
    pause.end_ns += by_ns;
  }
}

TimeNs LastNs(const LoadRun& run) {
  TimeNs last_ns = run.end_ns;
  for (const Sample& sample : run.samples) last_ns = std::max(last_ns, sample.completed_ns + 1);
  return last_ns;
}

// Means over the turns, because these are of about one length.
void Average(const std::vector<LoadRun>& runs, CpuUsage& cpu) {
  const auto count = static_cast<double>(runs.size());
  cpu.process = cpu.machine = 0;
  for (const LoadRun& run : runs) {
    cpu.process += run.cpu->process / count;
    cpu.machine += run.cpu->machine / count;
  }
}

}  // namespace

std::vector<Turn> TurnsOf(const LoadRun& run) {
  return run.turns.empty() ? std::vector<Turn>{{run.begin_ns, run.end_ns}} : run.turns;
}

std::size_t FindTurn(const std::vector<Turn>& turns, TimeNs time) {
  const auto after =
      std::upper_bound(turns.begin(), turns.end(), time,
                       [](TimeNs wanted, const Turn& turn) { return wanted < turn.begin_ns; });
  if (after == turns.begin() || time >= std::prev(after)->end_ns) return turns.size();
  return static_cast<std::size_t>(after - turns.begin()) - 1;
}

LoadRun Join(std::vector<LoadRun> runs) {
  LoadRun joined;
  const bool has_cpu =
      std::all_of(runs.begin(), runs.end(), [](const LoadRun& run) { return run.cpu.has_value(); });
  if (has_cpu) {
    joined.cpu = runs[0].cpu;
    Average(runs, *joined.cpu);
  }
  TimeNs at_ns = 0;
  for (LoadRun& run : runs) {
    Shift(at_ns, run);
    at_ns = LastNs(run);
    joined.turns.push_back({run.begin_ns, run.end_ns});
    joined.samples.insert(joined.samples.end(), run.samples.begin(), run.samples.end());
    joined.pauses.insert(joined.pauses.end(), run.pauses.begin(), run.pauses.end());
    if (joined.ended_early.empty()) joined.ended_early = std::move(run.ended_early);
  }
  joined.begin_ns = joined.turns.front().begin_ns;
  joined.end_ns = joined.turns.back().end_ns;
  return joined;
}

}  // namespace gemmd::load
