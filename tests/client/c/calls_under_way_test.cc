// Freeing a client cancels the products that began, and lets no other begin.
#include "client/c/calls_under_way.h"

#include <memory>

#include "gtest/gtest.h"

namespace gemmd::client::c {
namespace {

class Counted : public PendingMatmul {
 public:
  void Cancel() override { ++cancelled; }
  int cancelled = 0;
};

TEST(Flight, IsCancelledFromBeforeItsProductBegins) {
  const auto product = std::make_shared<Counted>();
  Flight flight;
  flight.Cancel();
  flight.Set(product);
  EXPECT_EQ(1, product->cancelled);
}

TEST(CallsUnderWay, CancelsThoseThatBeganAndLetsNoOtherBegin) {
  CallsUnderWay calls;
  const auto product = std::make_shared<Counted>();
  const auto first = std::make_shared<Flight>();
  const auto ended = std::make_shared<Flight>();
  ASSERT_TRUE(calls.Begin(first).ok());
  ASSERT_TRUE(calls.Begin(ended).ok());
  first->Set(product);
  const auto other = std::make_shared<Counted>();
  ended->Set(other);
  calls.End(ended);
  calls.CancelAll();
  EXPECT_EQ(1, product->cancelled);
  EXPECT_EQ(0, other->cancelled);
  EXPECT_EQ(absl::StatusCode::kCancelled, calls.Begin(std::make_shared<Flight>()).code());
  calls.End(first);
  calls.WaitForNone();  // returns: nothing is under way
}

}  // namespace
}  // namespace gemmd::client::c
