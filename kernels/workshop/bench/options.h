// The command line's options, checked. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/workshop/bench/bench_case.h"
#include "kernels/workshop/bench/protocol.h"

namespace gemmd::bench {

// The configs of a kernel that are timed.
enum class ConfigChoice : std::uint8_t {
  kPlanned,
  kQuickest,  // of all, by a search ahead
  kEach,      // all, a row for each
  kShipped,   // that of the plan which comes with the build; no row for other kernels
};

// The operands that a kernel is promised to be settled (Arguments).
enum class Settled : std::uint8_t { kNone, kB, kBoth };

struct Options {
  std::vector<std::string> kernels = {"sm*"};  // names or globs, in which * matches / too
  std::string ladder;                          // empty: none
  std::vector<Shape> shapes;
  std::vector<Types> types;
  std::vector<Layout> layouts;
  bool is_padded = true;
  std::vector<Settled> settled = {Settled::kBoth};  // a row for each
  std::vector<int> rival_streams = {1};             // that cuBLASLt's launches take turns on
  ConfigChoice configs = ConfigChoice::kPlanned;
  Protocol protocol;
  std::uint64_t seed = 1;  // of the order
  std::string json;        // files; empty: none
  std::string markdown;
  bool is_list = false;
  bool is_help = false;
};

// INVALID_ARGUMENT names the flag, its value and what it may be.
absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& arguments);

// Every case, shapes varying slowest.
std::vector<Case> Cases(const Options& options);

std::string UsageText();

// Returns whether a name matches one of the globs.
bool MatchesAny(const std::vector<std::string>& globs, const std::string& name);

}  // namespace gemmd::bench
