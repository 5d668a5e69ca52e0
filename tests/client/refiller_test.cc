#include "client/calls/refiller.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/testing/no_threads.h"

namespace gemmd::client {
namespace {

// A product that waits for an operand would wait for ever, or end its process.
TEST(Refiller, WithoutAThreadTheProductIsRefused) {
  Refiller refiller(OperandLink{});
  std::optional<absl::Status> ended;
  {
    const testing::NoThreads no_threads;
    refiller.Bring({}, absl::InfiniteFuture(), [&](const absl::Status& status) { ended = status; });
  }
  ASSERT_TRUE(ended.has_value());
  EXPECT_EQ(ended->code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(
      ended->message(),
      "operands that the server has lost are sent again by a thread, and the system gives none");
}

TEST(Refiller, TheNextOneGetsItsThread) {
  std::optional<absl::Status> ended;
  {
    Refiller refiller(OperandLink{});
    {
      const testing::NoThreads no_threads;
      refiller.Bring({}, absl::InfiniteFuture(), [](const absl::Status& /*status*/) {});
    }
    refiller.Bring({}, absl::InfiniteFuture(), [&](const absl::Status& status) { ended = status; });
  }  // joins the thread, which ends when nothing is left
  ASSERT_TRUE(ended.has_value());
  EXPECT_TRUE(ended->ok()) << *ended;
}

}  // namespace
}  // namespace gemmd::client
