#include "server/observe/process_usage.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>

namespace gemmd {
namespace {

// Returns the time at which the system started, in seconds since 1970; 0: not known.
double BootSeconds() {
  std::ifstream file("/proc/stat");
  for (std::string word; file >> word;) {
    double seconds = 0;
    if (word == "btime" && file >> seconds) return seconds;
  }
  return 0;
}

}  // namespace

std::optional<ProcessUsage> ReadProcessUsage() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  // Names may have spaces and parentheses; what follows the last one has not.
  const std::size_t end = line.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  std::istringstream rest(line.substr(end + 1));
  constexpr int kUserTicks = 14;  // by proc(5)'s numbers, of which the state is 3
  constexpr int kSystemTicks = 15;
  constexpr int kStartTicks = 22;
  constexpr int kPages = 24;
  double user = 0;
  double system = 0;
  double start = 0;
  double pages = 0;
  std::string word;
  for (int field = 3; field <= kPages && rest >> word; ++field) {
    const auto read = [&word] { return std::strtod(word.c_str(), nullptr); };
    if (field == kUserTicks) user = read();
    if (field == kSystemTicks) system = read();
    if (field == kStartTicks) start = read();
    if (field == kPages) pages = read();
  }
  if (!rest) return std::nullopt;
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  ProcessUsage usage;
  usage.cpu_seconds = (user + system) / ticks;
  usage.resident_bytes =
      static_cast<std::uint64_t>(pages * static_cast<double>(sysconf(_SC_PAGESIZE)));
  usage.start_seconds = BootSeconds() + start / ticks;
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  if (!error) {
    // One of them is the folder's own.
    usage.open_files = static_cast<std::uint64_t>(std::distance(std::filesystem::begin(files),
                                                                std::filesystem::end(files))) -
                       1;
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) usage.most_files = limit.rlim_cur;
  return usage;
}

}  // namespace gemmd
