#include "base/sync/deferral.h"

#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace gemmd {
namespace {

class DeferralTest : public ::testing::Test {
 protected:
  bool PutOff(const int& key, char name) {
    return Deferral::PutOff(&key, [this, name] { done_ += name; });
  }

  std::string done_;
  const int a_ = 0;
  const int b_ = 0;
};

TEST_F(DeferralTest, WithoutOneTheCallerDoesIt) {
  EXPECT_FALSE(PutOff(a_, 'a'));
  { const Deferral ended; }
  EXPECT_FALSE(PutOff(a_, 'a'));
  EXPECT_EQ(done_, "");
}

TEST_F(DeferralTest, EachKeyIsDoneOnceAtTheEndInTheOrderOfFirstAsking) {
  {
    const Deferral deferral;
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(PutOff(b_, 'b'));
      EXPECT_TRUE(PutOff(a_, 'a'));
    }
    EXPECT_EQ(done_, "");
  }
  EXPECT_EQ(done_, "ba");
}

TEST_F(DeferralTest, TheOutermostOneCounts) {
  {
    const Deferral outer;
    {
      const Deferral inner;
      EXPECT_TRUE(PutOff(a_, 'a'));
    }
    EXPECT_EQ(done_, "");
    EXPECT_TRUE(PutOff(a_, 'a'));
  }
  EXPECT_EQ(done_, "a");
}

TEST_F(DeferralTest, WhatADeedAsksForIsDoneAtOnceOrWithinADeferralOfItsOwn) {
  {
    const Deferral deferral;
    EXPECT_TRUE(Deferral::PutOff(&a_, [this] {
      EXPECT_FALSE(PutOff(b_, 'b'));
      {
        const Deferral own;
        EXPECT_TRUE(PutOff(a_, 'a'));
      }
      done_ += 'c';
    }));
  }
  EXPECT_EQ(done_, "ac");
}

TEST_F(DeferralTest, OtherThreadsDoTheirOwn) {
  const Deferral deferral;
  std::thread([this] { EXPECT_FALSE(PutOff(a_, 'a')); }).join();
}

}  // namespace
}  // namespace gemmd
