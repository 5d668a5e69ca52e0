#include "tests/kernels/emulator/deletions.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <ostream>
#include <regex>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

namespace gemmd::testing {
namespace {

// ExpectWhole() fails where a kernel calls a synchronising wrapper that this does not know.
const std::regex& Synchronising() {
  static const std::regex pattern(
      R"(ptx::(CopyAsyncWait<[^;]*>|CopyAsyncCommit|SyncThreads|SyncWarp|NamedBarrier\w+|)"
      R"(Mbarrier(Wait|Arrive)\w*|Fence\w+|Cluster(Sync|Arrive|Wait)|)"
      R"(Bulk(Commit|Wait\w*)(<[^;]*>)?|Wgmma(Fence|Commit|Wait<[^;]*>)|)"
      R"(Tcgen05(Fence|Commit|Wait)\w*(<[^;]*>)?|)"
      R"(WaitForPrecedingGrid)\([^;]*\);)");
  return pattern;
}

std::string Read(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path << " is not among the test's data";
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string OneLine(const std::string& statement) {
  static const std::regex blanks(R"(\s+)");
  return std::regex_replace(statement, blanks, " ");
}

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// Returns the first complaint of any of the runs, under any of the seeds.
std::string FirstWrong(const DeletionCheck& check, emulator::CallWatch& watch) {
  constexpr std::uint64_t kSeeds = 3;
  emulator::Options options;
  options.watch = &watch;
  for (options.seed = 1; options.seed <= kSeeds; ++options.seed) {
    options.landing =
        options.seed == kSeeds ? emulator::Landing::kLazy : emulator::Landing::kRandom;
    for (const auto& run : check.runs) {
      std::string wrong = run(options);
      if (!wrong.empty()) return wrong;
    }
  }
  return "";
}

bool Is(const RedundantCall& listed, const SynchronisingCall& call) {
  return listed.source == call.source && listed.statement == call.statement &&
         listed.nth == call.nth;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const SynchronisingCall& call) {
  return out << call.source << ":" << call.first_line << ": " << call.statement << " # "
             << call.nth;
}

std::vector<SynchronisingCall> SynchronisingCalls(const DeletionCheck& check) {
  std::vector<SynchronisingCall> calls;
  for (const char* source : check.sources) {
    const std::string text = Read(source);
    std::map<std::string, int> seen;
    for (std::sregex_iterator it(text.begin(), text.end(), Synchronising()), end; it != end; ++it) {
      const auto line = [&text](std::ptrdiff_t at) {
        return static_cast<int>(std::count(text.begin(), text.begin() + at, '\n')) + 1;
      };
      SynchronisingCall call;
      call.source = source;
      call.statement = OneLine(it->str());
      call.nth = ++seen[call.statement];
      call.first_line = line(it->position());
      call.last_line = line(it->position() + it->length());
      calls.push_back(std::move(call));
    }
  }
  return calls;
}

void ExpectNeeded(const DeletionCheck& check, const SynchronisingCall& call) {
  emulator::CallWatch watch;
  watch.skipped_file = call.source;
  watch.first_line = call.first_line;
  watch.last_line = call.last_line;
  const std::string wrong = FirstWrong(check, watch);
  const auto listed = std::find_if(check.redundant.begin(), check.redundant.end(),
                                   [&](const RedundantCall& each) { return Is(each, call); });
  if (listed == check.redundant.end()) {
    EXPECT_FALSE(wrong.empty()) << call << ": nothing notices that it is left out";
  } else {
    EXPECT_TRUE(wrong.empty()) << call << ": listed as redundant, and missed: " << wrong;
  }
}

void ExpectWhole(const DeletionCheck& check) {
  emulator::CallWatch watch;
  EXPECT_EQ(FirstWrong(check, watch), "") << "as it is";
  const std::vector<SynchronisingCall> calls = SynchronisingCalls(check);
  std::set<std::pair<std::string, int>> lines;
  for (const SynchronisingCall& call : calls) {
    bool is_met = false;
    for (const auto& [file, line] : watch.met) {
      is_met |= EndsWith(file, call.source) && line >= call.first_line && line <= call.last_line;
    }
    EXPECT_TRUE(is_met) << call << ": the check never comes here";
    for (int line = call.first_line; line <= call.last_line; ++line) {
      EXPECT_TRUE(lines.emplace(call.source, line).second)
          << call << ": shares its line with another call";
    }
  }
  for (const auto& [file, line] : watch.met) {
    const auto is_in_file = [&file = file](const char* folder) {
      return file.find(folder) != std::string::npos;
    };
    if (std::any_of(check.tried_elsewhere.begin(), check.tried_elsewhere.end(), is_in_file)) {
      continue;
    }
    bool is_in_text = false;
    for (const auto& [source, each] : lines) is_in_text |= each == line && EndsWith(file, source);
    EXPECT_TRUE(is_in_text) << file << ":" << line << ": synchronises, and no deletion of it is "
                            << "tried: name its source, or its wrapper in Synchronising()";
  }
  for (const RedundantCall& listed : check.redundant) {
    EXPECT_TRUE(std::any_of(calls.begin(), calls.end(),
                            [&](const SynchronisingCall& call) { return Is(listed, call); }))
        << listed.source << ": listed as redundant, and not there: " << listed.statement << " # "
        << listed.nth;
  }
}

}  // namespace gemmd::testing
