#include "kernels/workshop/bench/session.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kernels/shipped_plans.h"

namespace gemmd::bench {
namespace {

constexpr int kRivalsTimed = 3;  // of the quickest in the search
// Below this the search, as bare programs do it, times the CPU that launches: all are timed.
constexpr double kSearchTellsMs = 0.025;

// A subset of a machine's contenders, numbered anew from 0.
class Subset final : public Stage {
 public:
  Subset(Machine* machine, std::vector<int> contenders)
      : machine_(machine), contenders_(std::move(contenders)) {}

  absl::StatusOr<double> Time(int contender, int launches) override {
    return machine_->Time(contenders_[static_cast<std::size_t>(contender)], launches);
  }
  absl::StatusOr<double> TimeOneByOne(int contender, int launches) override {
    return machine_->TimeOneByOne(contenders_[static_cast<std::size_t>(contender)], launches);
  }
  void Idle(double milliseconds) override { machine_->Idle(milliseconds); }
  std::optional<Telemetry> LastTelemetry() const override { return machine_->LastTelemetry(); }
  int count() const { return static_cast<int>(contenders_.size()); }

 private:
  Machine* const machine_;
  const std::vector<int> contenders_;
};

std::string WhyNot(const Kernel& kernel, const Problem& problem, const DeviceTraits& device) {
  std::string reason = kernel.UnavailableReason(device);
  if (reason.empty()) reason = kernel.Rejection(problem);
  if (reason.empty()) reason = kernel.DeviceRejection(problem, device);
  return reason;
}

// Why a result is wrong; empty where it is right.
std::string WhyWrong(const absl::StatusOr<Checked>& checked) {
  if (!checked.ok()) return std::string(checked.status().message());
  if (!(checked->error_over_bound <= 1)) {
    return absl::StrCat("a sampled element is off by ", checked->error_over_bound,
                        " times its bound");
  }
  if (checked->different > 0) {
    return absl::StrCat(checked->different, " elements differ from cuBLASLt's, by up to ",
                        checked->largest_difference);
  }
  return "";
}

// Adds the vendor's algorithms with launches on `streams` as contenders, and returns their number.
// If the first one's result is right, searches them and adds the quickest to *timed. `first` is the
// number of contenders before them; where it is 0, the search is reported.
int SearchRivals(const Case& c, int streams, int first, Machine* machine, CaseReport* report,
                 std::vector<int>* timed) {
  const absl::StatusOr<int> count = machine->AddRivals(c.types.rival, streams);
  if (!count.ok() || *count == 0) {
    report->rival.error =
        count.ok() ? "has no algorithm for it" : std::string(count.status().message());
    return 0;
  }
  const absl::StatusOr<Checked> checked = machine->Check(first, -1);
  report->rival.error = WhyWrong(checked);
  if (!report->rival.error.empty()) return *count;
  std::vector<int> contenders(static_cast<std::size_t>(*count));
  std::iota(contenders.begin(), contenders.end(), first);
  Subset subset(machine, contenders);
  const std::vector<SearchResult> results = Search(*count, report->flops, &subset);
  std::vector<int> quickest = Quickest(results, kRivalsTimed);
  if (quickest.empty()) {
    report->rival.error = results.front().error;
    return *count;
  }
  const double search_ms = results[static_cast<std::size_t>(quickest.front())].median_ms;
  if (search_ms < kSearchTellsMs) quickest = Quickest(results, *count);
  for (const int index : quickest) timed->push_back(first + index);
  if (first == 0) {
    report->algorithms = *count;
    report->rival_checked = *checked;
    report->best_algorithm = quickest.front() + 1;
    report->search_ms = search_ms;
    report->first_ms = results.front().median_ms;
  }
  return *count;
}

void SearchRivals(const Case& c, const std::vector<int>& streams, Machine* machine,
                  CaseReport* report, std::vector<int>* timed) {
  report->rival_streams = streams;
  int contenders = 0;
  for (const int each : streams) {
    contenders += SearchRivals(c, each, contenders, machine, report, timed);
    if (!report->rival.error.empty()) timed->clear();
    if (timed->empty()) return;
  }
}

// Returns the best of several timings, in the sustained and in the burst figure by itself.
Timing Best(const std::vector<Timing>& timings) {
  Timing best = timings.front();
  for (const Timing& each : timings) {
    if (!each.error.empty()) continue;
    if (!best.error.empty()) best = each;
    if (each.sustained_ms.median < best.sustained_ms.median) {
      best.sustained_ms = each.sustained_ms;
      best.sm_mhz = each.sm_mhz;
      best.watts = each.watts;
    }
    if (each.burst_ms.median < best.burst_ms.median) best.burst_ms = each.burst_ms;
  }
  return best;
}

// A row to fill, and the configs of which the quickest fills it; no configs where the row has an
// error.
struct Entry {
  const Kernel* kernel;
  std::vector<Config> configs;
  Row row;
  Settled settled = Settled::kBoth;
};

// A kernel's name and the words in which a config differs from the planned one.
std::string NameOf(const Kernel& kernel, const Config& config, const Config& planned) {
  const std::vector<std::string> ours = absl::StrSplit(ToString(config), ' ');
  const std::vector<std::string> known = absl::StrSplit(ToString(planned), ' ');
  const auto lacks = [](const std::vector<std::string>& words, const std::string& word) {
    return std::find(words.begin(), words.end(), word) == words.end();
  };
  std::string name = kernel.traits().name;
  for (const std::string& word : ours) {
    if (lacks(known, word)) absl::StrAppend(&name, " ", word);
  }
  for (const std::string& word : known) {
    if (lacks(ours, word)) absl::StrAppend(&name, " not ", word);
  }
  return name;
}

std::vector<Entry> EntriesOf(const Kernel& kernel, const Problem& problem, ConfigChoice choice,
                             const DeviceTraits& device) {
  Row row;
  row.kernel = kernel.traits().name;
  row.error = WhyNot(kernel, problem, device);
  if (!row.error.empty()) return {{&kernel, {}, row}};
  if (choice == ConfigChoice::kShipped) {
    Problem served = problem;
    served.determinism = Determinism::kBatchInvariant;
    const std::optional<MeasuredPlan> shipped = ShippedPlans().Find(served, device);
    if (!shipped.has_value() || shipped->kernel != row.kernel) {
      row.error = "is not the shipped plan's kernel";
      return {{&kernel, {}, row}};
    }
    return {{&kernel, {shipped->config}, row}};
  }
  const Config planned = kernel.Configure(problem, device);
  if (choice == ConfigChoice::kPlanned) return {{&kernel, {planned}, row}};
  const std::vector<Config> all = kernel.Alternatives(problem, device);
  if (choice == ConfigChoice::kQuickest) return {{&kernel, all, row}};
  std::vector<Entry> entries;
  for (const Config& config : all) {
    row.kernel = NameOf(kernel, config, planned);
    entries.push_back({&kernel, {config}, row});
  }
  return entries;
}

// Adds each entry once for each of the promises.
void AddEntries(const std::vector<Entry>& entries, const std::vector<Settled>& promises,
                std::vector<Entry>* to) {
  for (const Entry& entry : entries) {
    for (const Settled settled : promises) {
      Entry& added = to->emplace_back(entry);
      added.settled = settled;
      if (settled == Settled::kBoth) continue;
      absl::StrAppend(&added.row.kernel, settled == Settled::kB ? ", B settled" : ", none settled");
    }
  }
}

// Checks the kernel with each of the entry's configs, and returns the contender of the quickest
// one; -1 where there is none, and the row says why.
int AddKernel(const Entry& entry, const Problem& problem, int reference, Machine* machine,
              Row* row) {
  if (!row->error.empty()) return -1;
  std::vector<int> contenders;
  for (const Config& config : entry.configs) {
    const absl::StatusOr<int> contender = machine->Add(*entry.kernel, config, entry.settled);
    const absl::StatusOr<Checked> checked =
        contender.ok() ? machine->Check(*contender, reference) : contender.status();
    const std::string wrong = WhyWrong(checked);
    if (!wrong.empty()) {
      row->error = absl::StrCat(ToString(config), ": ", wrong);
      row->is_wrong = true;
      return -1;
    }
    row->checked.error_over_bound =
        std::max(row->checked.error_over_bound, checked->error_over_bound);
    row->checked.largest_difference =
        std::max(row->checked.largest_difference, checked->largest_difference);
    contenders.push_back(*contender);
  }
  int best = 0;
  if (contenders.size() > 1) {
    Subset subset(machine, contenders);
    const std::vector<SearchResult> results = Search(subset.count(), problem.flops(), &subset);
    const std::vector<int> quickest = Quickest(results, 1);
    if (quickest.empty()) {
      row->error = results.front().error;
      row->is_wrong = true;
      return -1;
    }
    best = quickest.front();
  }
  row->config = ToString(entry.configs[static_cast<std::size_t>(best)]);
  return contenders[static_cast<std::size_t>(best)];
}

void TimeTogether(const std::vector<int>& rivals, const std::vector<std::pair<int, Row*>>& rows,
                  const Options& options, std::mt19937_64* order, Machine* machine,
                  CaseReport* report) {
  std::vector<int> contenders = rivals;
  for (const auto& [contender, row] : rows) contenders.push_back(contender);
  if (contenders.empty()) return;
  Subset subset(machine, contenders);
  const std::vector<Timing> timings = TimeAll(subset.count(), options.protocol, order, &subset);
  if (!rivals.empty()) {
    const auto end = timings.begin() + static_cast<std::ptrdiff_t>(rivals.size());
    report->rival = Best({timings.begin(), end});
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Row& row = *rows[i].second;
    row.timing = timings[rivals.size() + i];
    row.error = row.timing.error;
    row.is_wrong = !row.error.empty();
  }
}

}  // namespace

absl::StatusOr<std::vector<const Kernel*>> MatchingKernels(const Registry& registry,
                                                           const std::vector<std::string>& globs) {
  std::vector<const Kernel*> kernels;
  for (const std::string& glob : globs) {
    bool matches = false;
    for (const auto& kernel : registry.kernels()) {
      if (!MatchesAny({glob}, kernel->traits().name)) continue;
      matches = true;
      if (std::find(kernels.begin(), kernels.end(), kernel.get()) == kernels.end()) {
        kernels.push_back(kernel.get());
      }
    }
    if (!matches) {
      return absl::NotFoundError(
          absl::StrCat("kernels: \"", glob, "\" is no kernel of this build"));
    }
  }
  return kernels;
}

CaseReport RunCase(const Case& c, const std::vector<const Kernel*>& kernels, const Options& options,
                   std::mt19937_64* order, Machine* machine) {
  const Problem problem = MakeProblem(c);
  CaseReport report;
  report.c = c;
  report.problem = ToString(problem);
  report.flops = problem.flops();
  report.bytes =
      static_cast<double>(problem.a.size_bytes() + problem.b.size_bytes() + problem.d.size_bytes() +
                          ScaleBytes(problem.a_scaling, problem.m, problem.k) +
                          ScaleBytes(problem.b_scaling, problem.n, problem.k));
  std::vector<Entry> entries;
  for (const Kernel* kernel : kernels) {
    AddEntries(EntriesOf(*kernel, problem, options.configs, machine->info().traits),
               options.settled, &entries);
  }
  for (const Entry& entry : entries) report.rows.push_back(entry.row);
  if (const absl::Status status = machine->Load(problem); !status.ok()) {
    report.rival.error = std::string(status.message());
    for (Row& row : report.rows) row.error = report.rival.error;
    return report;
  }
  std::vector<int> rivals;
  SearchRivals(c, options.rival_streams, machine, &report, &rivals);
  std::vector<std::pair<int, Row*>> rows;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const int contender =
        AddKernel(entries[i], problem, rivals.empty() ? -1 : 0, machine, &report.rows[i]);
    if (contender >= 0) rows.emplace_back(contender, &report.rows[i]);
  }
  TimeTogether(rivals, rows, options, order, machine, &report);
  return report;
}

std::map<std::string, Peaks> MeasurePeaks(const std::vector<Case>& cases, const Protocol& protocol,
                                          Machine* machine) {
  std::map<std::string, Peaks> peaks;
  for (const Case& c : cases) {
    const std::string type(Name(c.types.a));
    const bool is_half = c.types.a == DataType::kF16 || c.types.a == DataType::kBf16;
    if (!is_half || peaks.count(type) != 0) continue;
    const absl::StatusOr<Peaks> measured =
        machine->MeasurePeaks(c.types.a == DataType::kBf16, protocol);
    if (measured.ok()) peaks[type] = *measured;
  }
  return peaks;
}

}  // namespace gemmd::bench
