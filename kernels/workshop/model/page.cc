#include "kernels/workshop/model/page.h"

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "kernels/workshop/model/rank_correlation.h"
#include "kernels/workshop/model/wave_breaking.h"

namespace gemmd::model {
namespace {

std::string Row(const std::vector<std::string>& cells) {
  return absl::StrCat("| ", absl::StrJoin(cells, " | "), " |\n");
}

std::string Head(const std::vector<std::string>& cells) {
  std::string rule = "|";
  for (std::size_t at = 0; at < cells.size(); ++at) rule += "---|";
  return Row(cells) + rule + "\n";
}

std::vector<std::string> WithSides(std::vector<std::string> cells) {
  for (const int side : kSides) cells.push_back(absl::StrCat(side));
  return cells;
}

double PublishedOf(int step, int shape) {
  return kPublishedTeraflops[static_cast<std::size_t>(step)][static_cast<std::size_t>(shape)];
}

int SideOf(int shape) { return kSides[static_cast<std::size_t>(shape)]; }

const Result& ResultOf(const Evaluation& evaluation, int step, int shape) {
  return evaluation.results[static_cast<std::size_t>(step)][static_cast<std::size_t>(shape)];
}

std::string StepsTable(const Evaluation& evaluation) {
  std::string table = Head(WithSides({"step", "idea"}));
  for (int step = 0; step < kSteps; ++step) {
    std::vector<std::string> cells = {absl::StrCat(step), StepOf(step).idea};
    for (int shape = 0; shape < kShapes; ++shape) {
      const std::string published =
          step < kPublishedSteps ? absl::StrFormat("%.0f", PublishedOf(step, shape)) : "none";
      const std::string simulated =
          IsModelled(step, SideOf(shape))
              ? absl::StrFormat("**%.0f**", evaluation.Teraflops(step, shape))
              : "not modelled";
      cells.push_back(absl::StrCat(published, ", ", simulated));
    }
    table += Row(cells);
  }
  return table;
}

// The tensor core's share of all pairs' clocks, and the two largest of what it waited for.
std::string Binds(const Evaluation& evaluation, int step, int shape) {
  const Result& result = ResultOf(evaluation, step, shape);
  const Spent& spent = result.spent;
  const double all = result.clocks * evaluation.machine.Pairs() / 100;
  std::vector<std::pair<double, std::string>> losses = {
      {spent.shared + spent.port, "ports and banks"},
      {spent.memory, "memory"},
      {spent.accumulator, "accumulators"},
      {spent.fill, "fill"},
      {spent.waves, "waves"},
      {spent.drain, "drain"}};
  std::stable_sort(losses.begin(), losses.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  return absl::StrFormat("%.0f: %s %.1f, %s %.1f", spent.tensor / all, losses[0].second,
                         losses[0].first / all, losses[1].second, losses[1].first / all);
}

std::string BindsTable(const Evaluation& evaluation) {
  std::string table = Head(WithSides({"step"}));
  for (int step = 0; step < kSteps; ++step) {
    if (!StepOf(step).is_modelled) continue;
    std::vector<std::string> cells = {absl::StrCat(step)};
    for (int shape = 0; shape < kShapes; ++shape) {
      cells.push_back(IsModelled(step, SideOf(shape)) ? Binds(evaluation, step, shape)
                                                      : "not modelled");
    }
    table += Row(cells);
  }
  return table;
}

double PublishedGain(int step, int shape) {
  return PublishedOf(step, shape) / PublishedOf(step - 1, shape);
}

double SimulatedGain(const Evaluation& evaluation, int step, int shape) {
  return evaluation.Teraflops(step, shape) / evaluation.Teraflops(step - 1, shape);
}

std::string GainsTable(const Evaluation& evaluation) {
  std::string table = Head(WithSides({"step", "idea"}));
  for (int step = 1; step < kPublishedSteps; ++step) {
    std::vector<std::string> cells = {absl::StrCat(step), StepOf(step).idea};
    for (int shape = 0; shape < kShapes; ++shape) {
      const std::string published = absl::StrFormat("%.3f", PublishedGain(step, shape));
      cells.push_back(
          absl::StrCat(published, ", ",
                       IsModelled(step, SideOf(shape))
                           ? absl::StrFormat("**%.3f**", SimulatedGain(evaluation, step, shape))
                           : "not modelled"));
    }
    table += Row(cells);
  }
  return table;
}

// The rates and gains of steps at one shape, or at several.
struct Compared {
  std::vector<double> published;
  std::vector<double> simulated;
  std::vector<double> published_gains;
  std::vector<double> simulated_gains;

  void AddModelled(const Evaluation& evaluation, int shape) {
    for (int step = 0; step < kPublishedSteps; ++step) {
      if (IsModelled(step, SideOf(shape))) Add(evaluation, step, shape);
    }
  }

  // Those that no figure was fitted to.
  void AddPredicted(const Evaluation& evaluation, int shape) {
    for (int step = 2; step < kPublishedSteps; ++step) Add(evaluation, step, shape);
  }

  void Add(const Evaluation& evaluation, int step, int shape) {
    published.push_back(PublishedOf(step, shape));
    simulated.push_back(evaluation.Teraflops(step, shape));
    if (step == 0) return;
    published_gains.push_back(PublishedGain(step, shape));
    simulated_gains.push_back(SimulatedGain(evaluation, step, shape));
  }

  std::string Ratios() const {
    double least = simulated[0] / published[0];
    double most = least;
    for (std::size_t at = 0; at < published.size(); ++at) {
      least = std::min(least, simulated[at] / published[at]);
      most = std::max(most, simulated[at] / published[at]);
    }
    return absl::StrFormat("%.2f to %.2f", least, most);
  }
};

// Three rows: one column a shape, and one of all.
std::string Ranks(const Evaluation& evaluation,
                  void (Compared::*add)(const Evaluation& evaluation, int shape),
                  const std::string& which) {
  std::vector<Compared> columns(kShapes + 1);
  for (int shape = 0; shape < kShapes; ++shape) {
    (columns[static_cast<std::size_t>(shape)].*add)(evaluation, shape);
    (columns.back().*add)(evaluation, shape);
  }
  std::vector<std::string> rates = {"rank correlation of rates" + which};
  std::vector<std::string> gains = {"rank correlation of gains over the step before" + which};
  std::vector<std::string> ratios = {"simulated over published rate" + which};
  for (const Compared& column : columns) {
    rates.push_back(absl::StrFormat("%.2f", RankCorrelation(column.published, column.simulated)));
    gains.push_back(
        absl::StrFormat("%.2f", RankCorrelation(column.published_gains, column.simulated_gains)));
    ratios.push_back(column.Ratios());
  }
  return Row(rates) + Row(gains) + Row(ratios);
}

std::string RanksHead(const std::string& of) {
  std::vector<std::string> head = WithSides({of});
  head.push_back("all shapes");
  return Head(head);
}

std::string RanksTable(const Evaluation& evaluation) {
  return RanksHead("of the modelled steps") + Ranks(evaluation, &Compared::AddModelled, "");
}

std::string InstructionsTable(const Evaluation& with) {
  std::string table = Head(WithSides({"step", "instructions a stage"}));
  for (int step = 0; step < kSteps; ++step) {
    const KernelShape shape = ShapeOf(step, kSides[0]);
    std::vector<std::string> cells = {
        absl::StrCat(step), absl::StrCat(shape.stage_instructions, " for ", shape.depth, " of K")};
    for (int side = 0; side < kShapes; ++side) {
      const double rate = with.Teraflops(step, side);
      cells.push_back(step < kPublishedSteps
                          ? absl::StrFormat("%.0f, **%.0f**", PublishedOf(step, side), rate)
                          : absl::StrFormat("none, **%.0f**", rate));
    }
    table += Row(cells);
  }
  return table;
}

std::string InstructionRanksTable(const Evaluation& without, const Evaluation& with) {
  return RanksHead("of steps 2 to 11") + Ranks(without, &Compared::AddPredicted, ", without it") +
         Ranks(with, &Compared::AddPredicted, ", with it");
}

std::string TrafficTable(const Evaluation& evaluation) {
  constexpr int kSide = 8192;
  constexpr int kShape = 2;
  constexpr double kOperations = 2.0 * kSide * kSide * kSide;
  std::string table = Head(
      {"order", "figures", "L2 hits, %", "DRAM, MB", "read, MB", "TB/s over the published time"});
  for (const bool is_hilbert : {false, true}) {
    const int step = is_hilbert ? 6 : 5;
    const PublishedTraffic& profiled = is_hilbert ? kPublishedHilbert : kPublishedLinear;
    const double seconds = kOperations / (PublishedOf(step, kShape) * 1e12);
    const std::string order = is_hilbert ? "Hilbert" : "linear";
    table += Row({order, "published", absl::StrFormat("%.1f", profiled.l2_hit_percent),
                  absl::StrFormat("%.0f", profiled.memory_terabytes_per_second * seconds * 1e6),
                  "none", absl::StrFormat("%.2f", profiled.memory_terabytes_per_second)});
    for (const auto& [name, dies, gpcs] : std::vector<std::tuple<std::string, int, int>>{
             {"simulated, two halves", 2, 8},
             {"the same, clusters dealt to ten GPCs", 2, 10},
             {"the same, to the dies in turn", 2, 2},
             {"simulated, one L2 of 126 MB", 1, 8}}) {
      Machine machine = evaluation.machine;
      machine.dies = dies;
      machine.gpcs = gpcs;
      const Traffic traffic = Simulate(machine, ShapeOf(step, kSide), {kSide, kSide, kSide},
                                       ScheduleOf(step, kSide, machine))
                                  .traffic;
      table += Row({order, name, absl::StrFormat("**%.1f**", 100 * traffic.HitRate()),
                    absl::StrFormat("**%.0f**", traffic.MemoryBytes() / 1e6),
                    absl::StrFormat("**%.0f**", traffic.from_memory / 1e6),
                    absl::StrFormat("**%.2f**", traffic.MemoryBytes() / seconds / 1e12)});
    }
  }
  return table;
}

std::string StoresTable(const Evaluation& evaluation) {
  std::string table = Head(WithSides({"buffers of D", "stages", "shared bytes"}));
  std::vector<std::vector<std::string>> rows;
  for (const int side : kSides) {
    const Problem problem = {side, side, side};
    const std::vector<StoreForm> forms = StoreForms(side);
    rows.resize(forms.size());
    for (std::size_t at = 0; at < forms.size(); ++at) {
      const KernelShape& shape = forms[at].shape;
      if (rows[at].empty()) {
        rows[at] = {forms[at].name, absl::StrCat(shape.stages, " of ", shape.depth),
                    absl::StrCat(forms[at].shared_bytes)};
      }
      const Machine& machine = evaluation.machine;
      const Schedule schedule = Persistent(OrderedTiles(shape, problem), machine.Pairs());
      rows[at].push_back(absl::StrFormat(
          "**%.0f**", Simulate(machine, shape, problem, schedule).Teraflops(machine, problem)));
    }
  }
  for (const std::vector<std::string>& row : rows) table += Row(row);
  return table;
}

double GainOf(const std::vector<Variant>& variants, std::size_t at) {
  return variants[0].result.clocks / variants[at].result.clocks;
}

std::string VariantsTable(const Evaluation& evaluation) {
  constexpr int kSide = 4096;
  constexpr int kShape = 1;
  Machine wide = evaluation.machine;
  wide.port_bytes_per_clock *= 2;
  wide.shared_bytes_per_clock *= 2;
  const std::vector<Variant> variants = Variants(evaluation.machine, kSide);
  const std::vector<Variant> on_wide = Variants(wide, kSide);
  std::string table =
      Head({"variant", "batch-invariant", "bits of d0 to d11", "waves, tensor core alone",
            "waves, ports and banks too", "simulated TFLOP/s", "gain",
            "gain, ports and banks twice as fast", "published step 10 times the gain"});
  for (std::size_t at = 0; at < variants.size(); ++at) {
    const Variant& variant = variants[at];
    table +=
        Row({variant.name, variant.is_batch_invariant ? "yes" : "no",
             variant.has_ladder_bits ? "yes" : "no", absl::StrFormat("%.2f", variant.tensor_waves),
             absl::StrFormat("%.2f", variant.waves),
             absl::StrFormat("**%.0f**",
                             variant.result.Teraflops(evaluation.machine, {kSide, kSide, kSide})),
             absl::StrFormat("**%.3f**", GainOf(variants, at)),
             absl::StrFormat("%.3f", GainOf(on_wide, at)),
             absl::StrFormat("%.0f", PublishedOf(10, kShape) * GainOf(variants, at))});
  }
  return table;
}

std::string ShapesTable(const Evaluation& evaluation) {
  std::vector<std::vector<std::string>> rows;
  for (int shape = 0; shape < kShapes; ++shape) {
    const std::vector<Variant> variants = Variants(evaluation.machine, SideOf(shape));
    rows.resize(variants.size());
    for (std::size_t at = 0; at < variants.size(); ++at) {
      if (shape == 0) rows[at].push_back(variants[at].name);
      rows[at].push_back(absl::StrFormat("%.3f", GainOf(variants, at)));
    }
  }
  std::string table = Head(WithSides({"variant"}));
  for (const std::vector<std::string>& row : rows) table += Row(row);
  return table;
}

}  // namespace

std::map<std::string, std::string> Tables(const Evaluation& evaluation) {
  const Evaluation with_instructions = EvaluateInstructions();
  return {{"instructions", InstructionsTable(with_instructions)},
          {"instruction-ranks", InstructionRanksTable(evaluation, with_instructions)},
          {"steps", StepsTable(evaluation)},
          {"binds", BindsTable(evaluation)},
          {"stores", StoresTable(evaluation)},
          {"gains", GainsTable(evaluation)},
          {"ranks", RanksTable(evaluation)},
          {"traffic", TrafficTable(evaluation)},
          {"variants", VariantsTable(evaluation)},
          {"shapes", ShapesTable(evaluation)}};
}

}  // namespace gemmd::model
