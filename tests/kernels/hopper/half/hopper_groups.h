// Groups of rows with a B of its own each, in one arena for each operand, which may be copied to a
// GPU as it is.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "tests/kernels/hopper/half/hopper_batch.h"

namespace gemmd::testing {

struct HopperGroups {
  // `c.m` is that of all rows: the last end.
  HopperGroups(const HopperCase& c, std::vector<std::int64_t> ends)
      : problem(MakeHopperProblem(c)),
        row_ends(std::move(ends)),
        count(static_cast<int>(row_ends.size())),
        a(MakeArena(problem.a.size_bytes(), 1, Spacing::kEqual)),
        b(MakeArena(problem.b.size_bytes(), count, Spacing::kEqual)),
        c_plane(MakeArena(problem.c.size_bytes(), 1, Spacing::kEqual)),
        bias(MakeArena(BiasBytes(), count, Spacing::kEqual)),
        d(MakeArena(problem.d.size_bytes(), 1, Spacing::kEqual)) {
    std::mt19937 random(7);
    HopperBatch::Fill(&a, problem.a.type, problem.a.size_bytes(), &random);
    HopperBatch::Fill(&b, problem.b.type, problem.b.size_bytes(), &random);
    HopperBatch::Fill(&c_plane, problem.d.type, problem.c.size_bytes(), &random);
    HopperBatch::Fill(&bias, problem.d.type, BiasBytes(), &random);
  }

  std::uint64_t BiasBytes() const {
    return static_cast<std::uint64_t>(problem.n * SizeBits(problem.d.type) / 8);
  }

  RowGroups groups() const { return {row_ends, Step(b), Step(bias)}; }

  // The problem and the arguments of a group, for arguments of all rows.
  Problem ProblemOf(std::size_t group) const {
    Problem alone = problem;
    alone.m = row_ends[group] - Begin(group);
    alone.a.rows = alone.c.rows = alone.d.rows = alone.m;
    return alone;
  }
  Arguments ArgumentsOf(std::size_t group, const Arguments& all) const {
    const auto lines = [&](const MatrixLayout& layout) {
      return Begin(group) * layout.leading_dimension * SizeBits(layout.type) / 8;
    };
    Arguments alone = all;
    alone.a = static_cast<const char*>(all.a) + lines(problem.a);
    alone.b = static_cast<const char*>(all.b) + b.offsets[group];
    alone.c = static_cast<const char*>(all.c) + lines(problem.c);
    alone.bias = static_cast<const char*>(all.bias) + bias.offsets[group];
    alone.d = static_cast<char*>(all.d) + lines(problem.d);
    return alone;
  }

  Problem problem;
  std::vector<std::int64_t> row_ends;
  int count;
  Arena a;
  Arena b;
  Arena c_plane;
  Arena bias;
  Arena d;

 private:
  static std::int64_t Step(const Arena& arena) {
    return arena.offsets.size() < 2 ? static_cast<std::int64_t>(arena.size())
                                    : static_cast<std::int64_t>(arena.offsets[1]);
  }
  std::int64_t Begin(std::size_t group) const { return group == 0 ? 0 : row_ends[group - 1]; }
};

// `count` groups that have `rows` together, drawn so that some are empty and some are long.
inline std::vector<std::int64_t> DrawEnds(std::int64_t rows, int count, std::mt19937* random) {
  std::vector<std::int64_t> ends;
  for (int i = 1; i < count; ++i) {
    const bool is_empty = !ends.empty() && (*random)() % 4 == 0;
    ends.push_back(is_empty ? ends.back() : static_cast<std::int64_t>((*random)()) % (rows + 1));
  }
  ends.push_back(rows);
  std::sort(ends.begin(), ends.end());
  return ends;
}

// The entries that take groups.
inline std::vector<const char*> GroupEntries() {
  std::vector<const char*> names;
  for (const hopper::half::Tiling& tiling : hopper::half::kTilings) {
    if (tiling.takes_groups) names.push_back(tiling.name);
  }
  return names;
}

}  // namespace gemmd::testing
