#include "kernels/workshop/bench/options.h"

#include <fnmatch.h>

#include <functional>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "kernels/workshop/bench/ladder.h"

namespace gemmd::bench {
namespace {

absl::Status Fault(const char* flag, absl::string_view value, absl::string_view allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, " is \"", value, "\"; it must be ", allowed));
}

absl::StatusOr<std::vector<Settled>> ParseSettled(absl::string_view list) {
  std::vector<Settled> all;
  for (const absl::string_view item : absl::StrSplit(list, ',')) {
    if (item != "both" && item != "b" && item != "none") {
      return Fault("settled", item, "both, b or none");
    }
    all.push_back(item == "both" ? Settled::kBoth : item == "b" ? Settled::kB : Settled::kNone);
  }
  return all;
}

absl::Status SetNumber(const char* flag, absl::string_view value, double least, double most,
                       double* to) {
  double number;
  if (!absl::SimpleAtod(value, &number) || !(number >= least && number <= most)) {
    return Fault(flag, value, absl::StrCat("a number from ", least, " to ", most));
  }
  *to = number;
  return absl::OkStatus();
}

template <typename T>
absl::Status SetList(absl::StatusOr<std::vector<T>> list, std::vector<T>* to) {
  if (!list.ok()) return list.status();
  *to = *std::move(list);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int>> ParseStreams(absl::string_view list) {
  std::vector<int> all;
  for (const absl::string_view item : absl::StrSplit(list, ',')) {
    double streams = 0;
    const absl::Status status = SetNumber("rival-streams", item, 1, 8, &streams);
    if (!status.ok()) return status;
    all.push_back(static_cast<int>(streams));
  }
  return all;
}

struct Flag {
  const char* name;
  const char* help;  // "=VALUE  what it does"
  absl::Status (*set)(absl::string_view value, Options* options);
};

constexpr Flag kFlags[] = {
    {"kernels", "=GLOB,...   registry names; default sm* (all of ours). * matches / too",
     [](absl::string_view value, Options* o) {
       o->kernels = absl::StrSplit(value, ',');
       return absl::OkStatus();
     }},
    {"ladder",
     "=A|B|C|D    a published ladder beside its figures, with its types, layout and shapes",
     [](absl::string_view value, Options* o) {
       o->ladder = std::string(value);
       return FindLadder(value).status();
     }},
    {"shapes", "=LIST       MxNxK,... and tables: ladder, hopper, decode; default ladder",
     [](absl::string_view value, Options* o) { return SetList(ParseShapes(value), &o->shapes); }},
    {"types",
     "=LIST        f16, f16_f16, f16_f32, bf16, bf16_f32, tf32, f32, f64, int8,\n"
     "                     int8_bf16, fp8, fp8_f32, fp8_fast, fp8_blocks, fp8_1x128, mxfp8;\n"
     "                     default f16",
     [](absl::string_view value, Options* o) { return SetList(ParseTypes(value), &o->types); }},
    {"layouts", "=LIST      NN, NT, TN, TT; default NN, of ladders C and D NT",
     [](absl::string_view value, Options* o) { return SetList(ParseLayouts(value), &o->layouts); }},
    {"leading", "=WHICH     padded (lines as devices land them; default) or tight",
     [](absl::string_view value, Options* o) {
       o->is_padded = value == "padded";
       return o->is_padded || value == "tight" ? absl::OkStatus()
                                               : Fault("leading", value, "padded or tight");
     }},
    {"settled", "=LIST      which operands no launch ahead writes: both (default), b, none",
     [](absl::string_view value, Options* o) { return SetList(ParseSettled(value), &o->settled); }},
    {"rival-streams",
     "=LIST  on how many cuBLASLt's launches take turns, each 1 to 8; default 1. Ours take\n"
     "                     one, where those of settled operands overlap",
     [](absl::string_view value, Options* o) {
       return SetList(ParseStreams(value), &o->rival_streams);
     }},
    {"configs",
     "=WHICH     planned (default), all: the quickest of each kernel's, each: a row each,\n"
     "                     shipped: of the plan that comes with the build",
     [](absl::string_view value, Options* o) {
       o->configs = value == "all"       ? ConfigChoice::kQuickest
                    : value == "each"    ? ConfigChoice::kEach
                    : value == "shipped" ? ConfigChoice::kShipped
                                         : ConfigChoice::kPlanned;
       return o->configs != ConfigChoice::kPlanned || value == "planned"
                  ? absl::OkStatus()
                  : Fault("configs", value, "planned, all, each or shipped");
     }},
    {"rounds", "=N          repeats of each figure, 1 to 100; default 5",
     [](absl::string_view value, Options* o) {
       double rounds = o->protocol.rounds;
       absl::Status status = SetNumber("rounds", value, 1, 100, &rounds);
       o->protocol.rounds = static_cast<int>(rounds);
       return status;
     }},
    {"sustained-ms", "=MS    length of a sustained slice; default 100",
     [](absl::string_view value, Options* o) {
       return SetNumber("sustained-ms", value, 1, 10000, &o->protocol.sustained_ms);
     }},
    {"burst-ms", "=MS        length of a burst; default 3",
     [](absl::string_view value, Options* o) {
       return SetNumber("burst-ms", value, 0.1, 100, &o->protocol.burst_ms);
     }},
    {"idle-ms", "=MS         idleness before a burst; default 30",
     [](absl::string_view value, Options* o) {
       return SetNumber("idle-ms", value, 0, 10000, &o->protocol.idle_ms);
     }},
    {"seed", "=N            of the order; default 1",
     [](absl::string_view value, Options* o) {
       return absl::SimpleAtoi(value, &o->seed) ? absl::OkStatus()
                                                : Fault("seed", value, "a whole number");
     }},
    {"json", "=FILE         everything, for programs",
     [](absl::string_view value, Options* o) {
       o->json = std::string(value);
       return absl::OkStatus();
     }},
    {"markdown", "=FILE     a block for docs/benchmarks",
     [](absl::string_view value, Options* o) {
       o->markdown = std::string(value);
       return absl::OkStatus();
     }},
};

absl::Status SetFlag(absl::string_view argument, Options* options) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(absl::StripPrefix(argument, "--"), absl::MaxSplits('=', 1));
  for (const Flag& flag : kFlags) {
    if (parts.first != flag.name) continue;
    if (parts.second.empty()) return Fault(flag.name, "", "--flag=value");
    return flag.set(parts.second, options);
  }
  return absl::InvalidArgumentError(absl::StrCat("no flag is called ", argument));
}

// Fills in the options that were not given: the ladder's own, or the defaults.
absl::Status Complete(Options* options, bool names_kernels) {
  const char* shapes = "ladder";
  const char* types = "f16";
  const char* layouts = "NN";
  if (!options->ladder.empty()) {
    if (names_kernels) {
      return absl::InvalidArgumentError("--ladder and --kernels exclude each other");
    }
    const absl::StatusOr<Ladder> ladder = FindLadder(options->ladder);
    if (!ladder.ok()) return ladder.status();
    options->kernels.clear();
    for (const LadderStep& step : ladder->steps) options->kernels.emplace_back(step.kernel);
    shapes = ladder->shapes;
    types = ladder->types;
    layouts = ladder->layouts;
  }
  absl::Status status;
  if (options->shapes.empty()) status = SetList(ParseShapes(shapes), &options->shapes);
  if (status.ok() && options->types.empty()) status = SetList(ParseTypes(types), &options->types);
  if (status.ok() && options->layouts.empty()) {
    status = SetList(ParseLayouts(layouts), &options->layouts);
  }
  return status;
}

}  // namespace

absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& arguments) {
  Options options;
  bool names_kernels = false;
  for (const std::string& argument : arguments) {
    if (argument == "--list") {
      options.is_list = true;
      continue;
    }
    if (argument == "--help") {
      options.is_help = true;
      continue;
    }
    if (!absl::StartsWith(argument, "--")) {
      return absl::InvalidArgumentError(absl::StrCat("\"", argument, "\" is no flag; see --help"));
    }
    if (absl::Status status = SetFlag(argument, &options); !status.ok()) return status;
    names_kernels = names_kernels || absl::StartsWith(argument, "--kernels=");
  }
  if (absl::Status status = Complete(&options, names_kernels); !status.ok()) return status;
  return options;
}

std::vector<Case> Cases(const Options& options) {
  std::vector<Case> cases;
  for (const Shape& shape : options.shapes) {
    for (const Types& types : options.types) {
      for (const Layout& layout : options.layouts) {
        cases.push_back({shape, types, layout, options.is_padded});
      }
    }
  }
  return cases;
}

std::string UsageText() {
  std::string text =
      "kernel_bench: checks kernels of the registry on this machine's GPU, then times them beside\n"
      "cuBLASLt's best algorithm.\n\n";
  for (const Flag& flag : kFlags) absl::StrAppend(&text, "  --", flag.name, flag.help, "\n");
  absl::StrAppend(&text,
                  "  --list             kernels, and whether this machine runs them\n\n"
                  "Exit code: 0; 1 a kernel was wrong or failed; 2 the command line; 3 no GPU.\n");
  return text;
}

bool MatchesAny(const std::vector<std::string>& globs, const std::string& name) {
  for (const std::string& glob : globs) {
    if (fnmatch(glob.c_str(), name.c_str(), 0) == 0) return true;
  }
  return false;
}

}  // namespace gemmd::bench
