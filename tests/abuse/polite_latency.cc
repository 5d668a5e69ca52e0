// Measures how long a polite client waits beside each attack, and without any, on processors of its
// own.
//   polite_latency [SECONDS [ATTACK]]    SECONDS for each row; ATTACK is a part of one's name
//
// Where there are 8 processors or more, half are the server's, a quarter the attackers' and a
// quarter the polite client's. With fewer, attackers and polite client share some.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/abuse/attacks.h"
#include "tests/abuse/polite_client.h"
#include "tests/testing/server_process.h"

namespace gemmd {
namespace {

using Clock = std::chrono::steady_clock;

// This thread's, and those of what it starts, as eighths of the machine's processors.
void UseProcessors(int first_eighth, int last_eighth) {
  const int all = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t set;
  CPU_ZERO(&set);
  const int first = std::min(first_eighth * all / 8, all - 1);
  const int last = std::max(last_eighth * all / 8, first + 1);
  for (int i = first; i < last; ++i) CPU_SET(i, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) std::perror("sched_setaffinity");
}

double PartOf(const std::vector<double>& sorted, double part) {
  return sorted.empty() ? 0 : sorted[static_cast<std::size_t>(part * (sorted.size() - 1))];
}

void Measure(const testing::Attack* attack, int seconds) {
  UseProcessors(0, 4);
  testing::ServerProcess server;
  UseProcessors(4, 6);
  std::atomic<bool> is_over{false};
  std::vector<std::thread> abusers;
  for (int i = 1; attack != nullptr && i <= 4; ++i) {
    abusers.emplace_back([&, i] {
      const testing::Abuser abuser(server.address(), "127.0.1." + std::to_string(i));
      while (!is_over) attack->once(abuser);
    });
  }
  UseProcessors(6, 8);
  testing::PoliteClient polite(server.address());
  std::vector<double> waits_us;
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  while (Clock::now() < end) {
    const auto begin = Clock::now();
    polite.Multiply();
    waits_us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  is_over = true;
  for (std::thread& each : abusers) each.join();
  std::sort(waits_us.begin(), waits_us.end());
  std::printf("| %s | %zu | %d | %zu | %.0f | %.0f | %.0f |\n",
              attack != nullptr ? attack->name : "nobody", waits_us.size(), polite.told_to_wait,
              polite.errors.size(), PartOf(waits_us, 0.5), PartOf(waits_us, 0.99),
              PartOf(waits_us, 1));
  for (std::size_t i = 0; i < polite.errors.size() && i < 3; ++i) {
    std::printf("%s\n", polite.errors[i].c_str());
  }
  std::fflush(stdout);
}

}  // namespace
}  // namespace gemmd

int main(int argc, char** argv) {
  const int seconds = argc > 1 ? std::atoi(argv[1]) : 5;
  const std::string part_of_name = argc > 2 ? argv[2] : "";
  std::printf("| beside | requests | told to wait | failed | p50 us | p99 us | most us |\n");
  std::printf("|---|---|---|---|---|---|---|\n");
  gemmd::Measure(nullptr, seconds);
  for (const gemmd::testing::Attack& attack : gemmd::testing::AllAttacks()) {
    if (std::string(attack.name).find(part_of_name) == std::string::npos) continue;
    gemmd::Measure(&attack, seconds);
  }
  gemmd::Measure(nullptr, seconds);
}
