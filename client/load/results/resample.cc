#include "client/load/results/resample.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/time/units.h"
#include "client/load/random.h"
#include "client/load/results/figures.h"
#include "client/load/results/turns.h"

namespace gemmd::load {
namespace {

constexpr std::size_t kMostBlocks = 20;
constexpr std::uint64_t kSeed = 20260101;

// Sums over one block of the measured time.
struct Block {
  double seconds = 0;
  double due = 0;
  double ok = 0;  // of those
  double answered = 0;
  double bytes = 0;
  double flops = 0;
  double latency_us = 0;
  double latencies = 0;
};

// Latencies that differ by a thousandth at most, and how many each block has of them.
struct Bin {
  double us = 0;
  std::vector<std::uint32_t> counts;
};

struct Latency {
  TimeNs ns = 0;
  std::size_t block = 0;
};

struct Blocks {
  std::vector<Block> sums;
  std::vector<Bin> bins;  // ascending
};

std::vector<Turn> BlockTimes(const LoadRun& run) {
  const std::vector<Turn> turns = TurnsOf(run);
  if (turns.size() > 1) return turns;
  std::size_t due = 0;
  for (const Sample& sample : run.samples) {
    if (sample.intended_ns >= turns[0].begin_ns && sample.intended_ns < turns[0].end_ns) ++due;
  }
  const std::size_t count = std::clamp<std::size_t>(due / 4, 1, kMostBlocks);
  std::vector<Turn> blocks;
  const TimeNs length_ns = turns[0].end_ns - turns[0].begin_ns;
  for (std::size_t i = 0; i < count; ++i) {
    const auto edge = [&](std::size_t number) {
      return turns[0].begin_ns +
             length_ns / static_cast<TimeNs>(count) * static_cast<TimeNs>(number);
    };
    blocks.push_back({edge(i), i + 1 == count ? turns[0].end_ns : edge(i + 1)});
  }
  return blocks;
}

std::vector<Bin> BinsOf(std::vector<Latency> latencies, std::size_t blocks) {
  std::sort(latencies.begin(), latencies.end(),
            [](const Latency& a, const Latency& b) { return a.ns < b.ns; });
  std::vector<Bin> bins;
  double begin_us = -1;
  for (const Latency& latency : latencies) {
    const double us = static_cast<double>(latency.ns) / 1e3;
    if (bins.empty() || us > begin_us * 1.001) {
      bins.push_back({us, std::vector<std::uint32_t>(blocks)});
      begin_us = us;
    }
    bins.back().us = us;
    ++bins.back().counts[latency.block];
  }
  return bins;
}

Blocks BlocksOf(const LoadRun& run, const std::vector<EntryCost>& costs) {
  const std::vector<Turn> times = BlockTimes(run);
  Blocks blocks;
  blocks.sums.resize(times.size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    blocks.sums[i].seconds = static_cast<double>(times[i].end_ns - times[i].begin_ns) / kSecond;
  }
  std::vector<Latency> latencies;
  for (const Sample& sample : run.samples) {
    const std::size_t completed = FindTurn(times, sample.completed_ns);
    if (sample.ok() && completed < times.size()) {
      const EntryCost& cost = costs[sample.entry];
      Block& block = blocks.sums[completed];
      ++block.answered;
      block.bytes += static_cast<double>(cost.bytes_in + cost.bytes_out);
      block.flops += cost.flops;
    }
    const std::size_t due = FindTurn(times, sample.intended_ns);
    if (due == times.size()) continue;
    Block& block = blocks.sums[due];
    ++block.due;
    if (sample.ok()) ++block.ok;
    if (!sample.ok() && sample.code != kNotSent) continue;
    block.latency_us += static_cast<double>(sample.latency_ns()) / 1e3;
    ++block.latencies;
    latencies.push_back({sample.latency_ns(), due});
  }
  blocks.bins = BinsOf(std::move(latencies), times.size());
  return blocks;
}

// The percentiles by nearest rank, as percentile.h has them, of blocks that count `drawn` times.
void AddPercentiles(const Blocks& blocks, const std::vector<std::uint32_t>& drawn, double total,
                    Resamples& resamples) {
  auto bin = blocks.bins.begin();
  double passed = 0;  // up to and with `bin`
  const auto count = [&drawn](const Bin& each) {
    double sum = 0;
    for (std::size_t i = 0; i < drawn.size(); ++i)
      sum += static_cast<double>(drawn[i]) * each.counts[i];
    return sum;
  };
  if (bin != blocks.bins.end()) passed = count(*bin);
  for (const Figure& figure : Figures()) {
    if (figure.percentile < 0 || figure.is_one_request()) continue;
    const double rank = std::max(1.0, std::ceil(figure.percentile / 100 * total - 1e-9));
    while (bin != blocks.bins.end() && passed < rank && std::next(bin) != blocks.bins.end()) {
      passed += count(*++bin);
    }
    resamples.figures[std::string(figure.name)].push_back(
        bin == blocks.bins.end() || total == 0 ? 0 : bin->us);
  }
}

void AddResample(const Blocks& blocks, Random& random, Resamples& resamples) {
  const std::size_t count = blocks.sums.size();
  std::vector<std::uint32_t> drawn(count);
  for (std::size_t i = 0; i < count; ++i) ++drawn[random.Next() % count];
  Block sum;
  for (std::size_t i = 0; i < count; ++i) {
    const Block& block = blocks.sums[i];
    const double times = drawn[i];
    sum.seconds += times * block.seconds;
    sum.due += times * block.due;
    sum.ok += times * block.ok;
    sum.answered += times * block.answered;
    sum.bytes += times * block.bytes;
    sum.flops += times * block.flops;
    sum.latency_us += times * block.latency_us;
    sum.latencies += times * block.latencies;
  }
  const auto add = [&resamples](const char* figure, double value, double of) {
    resamples.figures[figure].push_back(of > 0 ? value / of : 0);
  };
  add("throughput", sum.answered, sum.seconds);
  add("gb/s", sum.bytes / 1e9, sum.seconds);
  add("tflop/s", sum.flops / 1e12, sum.seconds);
  add("mean", sum.latency_us, sum.latencies);
  add("failed", sum.due - sum.ok, sum.due);
  AddPercentiles(blocks, drawn, sum.latencies, resamples);
}

}  // namespace

Resamples Resample(const LoadRun& run, const std::vector<EntryCost>& costs) {
  Resamples resamples;
  const Blocks blocks = BlocksOf(run, costs);
  if (blocks.sums.size() < kLeastBlocks) return resamples;
  resamples.blocks = blocks.sums.size();
  Random random(kSeed);
  for (std::size_t i = 0; i < kResamples; ++i) AddResample(blocks, random, resamples);
  return resamples;
}

}  // namespace gemmd::load
