#include "base/sync/coalescing_scope.h"

#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

class CoalescingScopeTest : public ::testing::Test {
 protected:
  bool Defer(const int& key, char name) {
    return CoalescingScope::Defer(&key, [this, name] { done_ += name; });
  }

  std::string done_;
  const int a_ = 0;
  const int b_ = 0;
};

TEST_F(CoalescingScopeTest, WithoutOneTheCallerDoesIt) {
  EXPECT_FALSE(Defer(a_, 'a'));
  { const CoalescingScope ended; }
  EXPECT_FALSE(Defer(a_, 'a'));
  EXPECT_EQ(done_, "");
}

TEST_F(CoalescingScopeTest, EachKeyIsDoneOnceAtTheEndInTheOrderOfFirstAsking) {
  {
    const CoalescingScope scope;
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(Defer(b_, 'b'));
      EXPECT_TRUE(Defer(a_, 'a'));
    }
    EXPECT_EQ(done_, "");
  }
  EXPECT_EQ(done_, "ba");
}

TEST_F(CoalescingScopeTest, TheOutermostOneCounts) {
  {
    const CoalescingScope outer;
    {
      const CoalescingScope inner;
      EXPECT_TRUE(Defer(a_, 'a'));
    }
    EXPECT_EQ(done_, "");
    EXPECT_TRUE(Defer(a_, 'a'));
  }
  EXPECT_EQ(done_, "a");
}

TEST_F(CoalescingScopeTest, WhatADeedAsksForIsDoneAtOnceOrWithinADeferralOfItsOwn) {
  {
    const CoalescingScope scope;
    EXPECT_TRUE(CoalescingScope::Defer(&a_, [this] {
      EXPECT_FALSE(Defer(b_, 'b'));
      {
        const CoalescingScope own;
        EXPECT_TRUE(Defer(a_, 'a'));
      }
      done_ += 'c';
    }));
  }
  EXPECT_EQ(done_, "ac");
}

TEST_F(CoalescingScopeTest, OtherThreadsDoTheirOwn) {
  const CoalescingScope scope;
  std::thread([this] { EXPECT_FALSE(Defer(a_, 'a')); }).join();
}

}  // namespace
}  // namespace gemmd
