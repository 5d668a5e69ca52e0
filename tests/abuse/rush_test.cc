// Messages that come fast, as flow control allows, and never become whole: they would fill gRPC's
// memory before any of them is slow, and gRPC then ends anybody's calls.
#include <atomic>
#include <csignal>
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

class RushTest : public ::testing::TestWithParam<const char*> {};

// Attackers at two addresses send 300 MiB over ten connections, each of them twice.
TEST_P(RushTest, CostsAPoliteClientNothing) {
  const testing::Attack* found = nullptr;
  for (const testing::Attack& each : testing::AllAttacks()) {
    if (std::string(each.name) == GetParam()) found = &each;
  }
  ASSERT_NE(found, nullptr);
  const std::unique_ptr<testing::ServerProcess> server = testing::StartSmallServer();
  ASSERT_FALSE(server->address().empty()) << server->log();
  std::atomic<int> attackers{2};
  std::vector<std::thread> abusers;
  for (const char* const source : {"127.0.1.1", "127.0.1.2"}) {
    abusers.emplace_back([&, source] {
      const testing::Abuser abuser(server->address(), source);
      for (int i = 0; i < 2; ++i) found->once(abuser);
      --attackers;
    });
  }
  testing::PoliteClient polite(server->address());
  while (attackers > 0) polite.Multiply();
  for (std::thread& each : abusers) each.join();
  EXPECT_EQ(polite.errors, std::vector<std::string>());
  EXPECT_GT(polite.answered, 0);
  server->Signal(SIGTERM);
  EXPECT_EQ(server->WaitForExit(), 0);
  EXPECT_NE(server->log().find("would fill the memory"), std::string::npos) << server->log();
}

INSTANTIATE_TEST_SUITE_P(Attacks, RushTest,
                         ::testing::Values("holds half chunks", "hides half chunks"),
                         [](const auto& test) {
                           const std::string name = test.param;
                           return name.substr(0, name.find(' '));
                         });

}  // namespace
}  // namespace gemmd
