// All attacks at once on a server of one gibibyte, each from an address of its own, beside a polite
// client. 20 seconds of it; GEMMD_ABUSE_SECONDS=600 makes it ten minutes.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/abuse/attacks.h"
#include "tests/abuse/polite_client.h"
#include "tests/abuse/small_server.h"
#include "tests/testing/server_process.h"

namespace gemmd {
namespace {

int Seconds() {
  const char* const seconds = std::getenv("GEMMD_ABUSE_SECONDS");
  return seconds != nullptr ? std::atoi(seconds) : 20;
}

TEST(AllAtOnce, APoliteClientIsAnsweredByAServerOfOneGibibyte) {
  const std::unique_ptr<testing::ServerProcess> server = testing::StartSmallServer();
  ASSERT_FALSE(server->address().empty()) << server->log();
  std::atomic<bool> is_over{false};
  std::vector<std::thread> abusers;
  for (const testing::Attack& attack : testing::AllAttacks()) {
    const std::string source = "127.0.1." + std::to_string(abusers.size() + 1);
    abusers.emplace_back([&, source] {
      const testing::Abuser abuser(server->address(), source);
      while (!is_over) attack.once(abuser);
    });
  }
  testing::PoliteClient polite(server->address());
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(Seconds());
  while (std::chrono::steady_clock::now() < end) polite.Multiply();
  is_over = true;
  for (std::thread& each : abusers) each.join();
  std::printf("%d answered, %d told to wait\n", polite.answered, polite.told_to_wait);
  EXPECT_EQ(polite.errors, std::vector<std::string>());
  EXPECT_GT(polite.answered, 0);
  testing::PoliteClient late(server->address());
  late.Multiply();
  EXPECT_EQ(late.answered, 1);
}

}  // namespace
}  // namespace gemmd
