#include "client/cli/views/top_view.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/views/message_format.h"
#include "client/cli/views/table.h"

namespace gemmd::cli {
namespace {

constexpr Table::Align kRight = Table::Align::kRight;
constexpr Table::Align kLeft = Table::Align::kLeft;

// Three digits at least, and no fraction of hundreds.
std::string Rate(double per_second) {
  constexpr double kTens = 10;
  constexpr double kHundreds = 100;
  const int digits = per_second < kTens ? 2 : per_second < kHundreds ? 1 : 0;
  return absl::StrFormat("%.*f", digits, per_second);
}

std::string Gflops(double flops_per_second) {
  return absl::StrFormat("%.1f", flops_per_second * 1e-9);
}

std::string Percent(double share) { return absl::StrFormat("%.1f %%", 100 * share); }

// Differences between two looks, a second. A row that left a bounded table and came back begins at
// 0 again.
class Change {
 public:
  explicit Change(double seconds) : seconds_(seconds) {}
  template <typename T>
  double PerSecond(T before, T now) const {
    return std::max(0.0, static_cast<double>(now) - static_cast<double>(before)) / seconds_;
  }

 private:
  const double seconds_;
};

template <typename Map>
std::uint64_t CountOf(const Map& map, const std::string& key) {
  const auto found = map.find(key);
  return found == map.end() ? 0 : found->second;
}

// "OK 12.0, UNAVAILABLE 0.50", those that occurred.
template <typename Map>
std::string Rates(const Map& before, const Map& now, const Change& change) {
  std::map<std::string, double> rates;
  for (const auto& [name, count] : now) {
    if (count > CountOf(before, name)) {
      rates[name] = change.PerSecond(CountOf(before, name), count);
    }
  }
  if (rates.empty()) return "none";
  return absl::StrJoin(rates, ", ", [](std::string* out, const auto& each) {
    absl::StrAppend(out, each.first, " ", Rate(each.second));
  });
}

// One line of the tables that can be sorted.
struct Row {
  std::string name;
  double requests = 0;  // a second
  double flops = 0;
  double busy = 0;  // seconds a second
};

void Sort(TopOrder order, std::vector<Row>* rows) {
  const auto key = [order](const Row& row) {
    return order == TopOrder::kRequests ? row.requests
           : order == TopOrder::kFlops  ? row.flops
                                        : row.busy;
  };
  std::sort(rows->begin(), rows->end(), [&](const Row& x, const Row& y) {
    if (order != TopOrder::kName && key(x) != key(y)) return key(x) > key(y);
    return x.name < y.name;
  });
}

std::string RenderRows(const char* what, std::vector<Row> rows, TopOrder order) {
  Sort(order, &rows);
  Table table({{what, kLeft}, {"requests/s", kRight}, {"GFLOP/s", kRight}, {"computing", kRight}});
  for (const Row& row : rows) {
    if (row.requests == 0 && row.busy == 0) continue;
    table.AddRow({row.name, Rate(row.requests), Gflops(row.flops), Percent(row.busy)});
  }
  return table.Render();
}

std::string RenderHead(const std::string& server, const TopSample& before, const TopSample& now,
                       const Change& change) {
  const v1::StatisticsResponse& was = before.statistics;
  const v1::StatisticsResponse& is = now.statistics;
  Table head({{}, {}});
  head.AddRow({"server", absl::StrCat(server, ", gemmd ", now.info.version(), ", ",
                                      now.info.draining() ? "draining" : "serving", " for ",
                                      Human(is.uptime()))});
  head.AddRow({"requests/s", Rates(was.finished_requests(), is.finished_requests(), change)});
  head.AddRow({"refused/s", Rates(was.refused_requests(), is.refused_requests(), change)});
  head.AddRow({"now", absl::StrCat(is.in_flight_requests(), " in flight, ", is.queued_requests(),
                                   " queued")});
  const auto bytes = [&change](std::uint64_t x, std::uint64_t y) {
    return HumanBytes(static_cast<std::uint64_t>(change.PerSecond(x, y)));
  };
  head.AddRow(
      {"payload/s",
       absl::StrCat(bytes(was.payload_bytes_in(), is.payload_bytes_in()), " in, ",
                    bytes(was.payload_bytes_out(), is.payload_bytes_out()), " out; shared ",
                    bytes(was.shared_memory().bytes_in(), is.shared_memory().bytes_in()), " in, ",
                    bytes(was.shared_memory().bytes_out(), is.shared_memory().bytes_out()),
                    " out")});
  head.AddRow(
      {"work", absl::StrCat(Gflops(change.PerSecond(was.flops(), is.flops())), " GFLOP/s")});
  const v1::OperandStatistics& operands = is.operands();
  head.AddRow(
      {"resident",
       absl::StrCat(operands.residents(), " matrices of ", HumanBytes(operands.resident_bytes()),
                    "; ", Rate(change.PerSecond(was.operands().hits(), operands.hits())),
                    " hits/s, ", operands.evictions(), " evictions")});
  if (is.verification().failed() > 0) {
    head.AddRow(
        {"WRONG", absl::StrCat(is.verification().failed(), " products failed their verification")});
  }
  return head.Render();
}

std::uint64_t LaunchesOf(const v1::QueueStatistics& queue) {
  return queue.alone().launches() + queue.rows().launches() + queue.group().launches() +
         queue.slices().launches();
}

std::string RenderDevices(const TopSample& before, const TopSample& now, const Change& change) {
  Table table({{"device", kLeft},
               {"model", kLeft},
               {"memory", kRight},
               {"taken", kRight},
               {"queued", kRight},
               {"backlog ms", kRight},
               {"launches/s", kRight}});
  for (int i = 0; i < now.info.devices_size(); ++i) {
    const v1::DeviceInfo& device = now.info.devices(i);
    const v1::MemoryUsage& memory = device.memory();
    v1::QueueStatistics queue;
    std::uint64_t launches_before = 0;
    for (const v1::QueueStatistics& each : now.statistics.queues()) {
      if (each.device() == device.name()) queue = each;
    }
    for (const v1::QueueStatistics& each : before.statistics.queues()) {
      if (each.device() == device.name()) launches_before = LaunchesOf(each);
    }
    const auto limit = static_cast<double>(memory.limit_bytes());
    const double taken =
        limit == 0 ? 0 : static_cast<double>(memory.limit_bytes() - memory.free_bytes()) / limit;
    table.AddRow({device.name(), device.model(), HumanBytes(memory.limit_bytes()), Percent(taken),
                  absl::StrCat(queue.queued_requests()),
                  absl::StrFormat("%.1f", queue.backlog_us() / 1e3),
                  Rate(change.PerSecond(launches_before, LaunchesOf(queue)))});
  }
  return table.Render();
}

std::string RenderStages(const v1::StatisticsResponse& before, const v1::StatisticsResponse& now,
                         const Change& change) {
  Table table({{"stage", kLeft}, {"times/s", kRight}, {"mean us", kRight}, {"total", kRight}});
  for (const v1::StageStatistics& stage : now.stages()) {
    v1::StageStatistics was;
    for (const v1::StageStatistics& each : before.stages()) {
      if (each.name() == stage.name()) was = each;
    }
    const std::uint64_t count = stage.count() - was.count();
    if (count == 0) continue;
    const double us = stage.sum_us() - was.sum_us();
    table.AddRow(
        {Word(v1::StageName_Name(stage.name())), Rate(change.PerSecond(was.count(), stage.count())),
         Microseconds(us / static_cast<double>(count)), Percent(change.PerSecond(0.0, us) * 1e-6)});
  }
  return table.Render();
}

std::vector<Row> KernelRows(const v1::StatisticsResponse& before, const v1::StatisticsResponse& now,
                            const Change& change) {
  std::map<std::string, v1::KernelStatistics> was;
  for (const v1::KernelStatistics& each : before.kernels()) was[each.kernel()] = each;
  std::vector<Row> rows;
  for (const v1::KernelStatistics& each : now.kernels()) {
    const v1::KernelStatistics& old = was[each.kernel()];
    rows.push_back({each.kernel(), change.PerSecond(old.requests(), each.requests()),
                    change.PerSecond(old.flops(), each.flops()),
                    change.PerSecond(old.compute_us(), each.compute_us()) * 1e-6});
  }
  return rows;
}

std::vector<Row> TenantRows(const v1::StatisticsResponse& before, const v1::StatisticsResponse& now,
                            const Change& change) {
  std::map<std::string, v1::TenantStatistics> was;
  for (const v1::TenantStatistics& each : before.tenants()) was[each.tenant()] = each;
  std::vector<Row> rows;
  for (const v1::TenantStatistics& each : now.tenants()) {
    const v1::TenantStatistics& old = was[each.tenant()];
    rows.push_back({each.tenant().empty() ? "(none)" : each.tenant(),
                    change.PerSecond(old.ok_requests() + old.failed_requests(),
                                     each.ok_requests() + each.failed_requests()),
                    change.PerSecond(old.flops(), each.flops()),
                    change.PerSecond(old.compute_us(), each.compute_us()) * 1e-6});
  }
  return rows;
}

// Cut to the size of a screen.
std::string Fit(const std::string& text, std::size_t columns, std::size_t rows) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  if (rows != 0 && lines.size() > rows) lines.resize(rows);
  for (std::string& line : lines) {
    if (columns != 0 && line.size() > columns) line.resize(columns);
  }
  return absl::StrJoin(lines, "\n");
}

}  // namespace

std::string RenderTop(const std::string& server, const TopSample& before, const TopSample& now,
                      TopOrder order, std::size_t columns, std::size_t rows) {
  double seconds = Seconds(now.statistics.uptime()) - Seconds(before.statistics.uptime());
  TopSample start;
  const TopSample* first = &before;
  if (seconds <= 0) {  // it was started again
    first = &start;
    seconds = Seconds(now.statistics.uptime());
  }
  constexpr double kLeastSeconds = 1e-3;
  const Change change(std::max(seconds, kLeastSeconds));
  std::vector<std::string> parts = {
      RenderHead(server, *first, now, change), RenderDevices(*first, now, change),
      RenderStages(first->statistics, now.statistics, change),
      RenderRows("kernel", KernelRows(first->statistics, now.statistics, change), order),
      RenderRows("tenant", TenantRows(first->statistics, now.statistics, change), order)};
  return Fit(absl::StrJoin(parts, "\n"), columns, rows);
}

}  // namespace gemmd::cli
