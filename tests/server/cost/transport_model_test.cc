#include "server/cost/transport_model.h"

#include "gtest/gtest.h"

namespace gemmd {
namespace {

constexpr auto kReceive = TransferDirection::kReceive;
constexpr auto kSend = TransferDirection::kSend;

TEST(TransportModel, IsOneGigabyteASecondUntilSomethingWasMeasured) {
  const TransportModel model;
  EXPECT_DOUBLE_EQ(model.PredictUs(kReceive, 1000000), 1000);
  EXPECT_DOUBLE_EQ(model.PredictUs(kSend, 1000), 1);
  EXPECT_FALSE(model.IsMeasured(kReceive, 1000000));
}

TEST(TransportModel, TakesNothingForNothing) {
  const TransportModel model;
  EXPECT_EQ(model.PredictUs(kReceive, 0), 0);
  EXPECT_TRUE(model.IsMeasured(kReceive, 0));
}

TEST(TransportModel, LearnsByDirectionAndSize) {
  TransportModel model;
  for (int i = 0; i < 5; ++i) model.Observe(kReceive, 1000000, 250);
  EXPECT_NEAR(model.PredictUs(kReceive, 1000000), 250, 0.1);
  EXPECT_TRUE(model.IsMeasured(kReceive, 1000000));
  EXPECT_NEAR(model.PredictUs(kReceive, 900000), 225, 25);
  EXPECT_TRUE(model.IsMeasured(kReceive, 900000));
  // Another size: something between no overhead and nothing else.
  EXPECT_GE(model.PredictUs(kReceive, 10000), 2.49);
  EXPECT_LE(model.PredictUs(kReceive, 10000), 250);
  EXPECT_FALSE(model.IsMeasured(kReceive, 10000));
  EXPECT_DOUBLE_EQ(model.PredictUs(kSend, 1000000), 1000);
  for (int i = 0; i < 5; ++i) model.Observe(kReceive, 10000, 100);
  EXPECT_NEAR(model.PredictUs(kReceive, 10000), 100, 0.1);
  EXPECT_NEAR(model.PredictUs(kReceive, 1000000), 250, 0.1);
}

// Products of 8 by 8 take what messages take, which says nothing of 64 MiB.
TEST(TransportModel, SmallMessagesDoNotMakeLargeOnesSlow) {
  TransportModel model;
  for (int i = 0; i < 400; ++i) model.Observe(kSend, 256, 80 + i % 40);
  EXPECT_LE(model.PredictUs(kSend, 64 << 20), 2.1 * (64 << 20) / 1e3);
  EXPECT_GE(model.PredictUs(kSend, 64 << 20), (64 << 20) / 1e3);
  EXPECT_FALSE(model.IsMeasured(kSend, 64 << 20));
}

TEST(TransportModel, LearnsNothingFromNothing) {
  TransportModel model;
  model.Observe(kSend, 0, 100);
  model.Observe(kSend, 100, 0);
  EXPECT_FALSE(model.IsMeasured(kSend, 100));
}

}  // namespace
}  // namespace gemmd
