// Sessions whose clients send or read slowly.
#include <variant>

#include "gtest/gtest.h"
#include "server/transfer/matmul_session.h"
#include "tests/server/transfer/session_events.h"
#include "tests/server/transfer/session_play.h"

namespace gemmd {
namespace {

using testing::Header;
using testing::Next;
using testing::Receive;
using testing::Server;

TEST(MatmulSession, AStreamThatIsStuckBreaksTheSession) {
  Server server;
  auto session = server.NewSession();
  ASSERT_TRUE(session->AddStream([] {}).ok());
  ASSERT_TRUE(session->AddStream([] {}).ok());
  session->Greet(1, SessionJoined());
  ASSERT_TRUE(Next(session.get(), 1).has_value());
  server.clock.Advance(50 * kMillisecond);
  session->EndLate(server.clock.Now());
  EXPECT_FALSE(session->Closing().has_value());
  server.clock.Advance(1);
  session->EndLate(server.clock.Now());
  EXPECT_EQ(session->Closing()->message(),
            "the client read slower than 1000 bytes per second (limits.min_bytes_per_second) for "
            "more than 50ms (limits.stall_timeout_ms)");
  EXPECT_EQ(session->AddStream([] {}).status().code(), absl::StatusCode::kUnavailable);
}

TEST(MatmulSession, RequestsWhosePayloadDoesNotComeEndAlone) {
  Server server;
  auto session = server.NewSession();
  ASSERT_TRUE(session->AddStream([] {}).ok());
  ASSERT_TRUE(session->Begin(Header(1, 8, server.clock.Now())).ok());
  ASSERT_TRUE(session->Begin(Header(2, 8, server.clock.Now(), 60000)).ok());
  ASSERT_TRUE(session->Begin(Header(3, 8, server.clock.Now())).ok());
  server.clock.Advance(50 * kMillisecond);
  Receive(session.get(), 2, OperandName::kA, 0, 64);
  Receive(session.get(), 3, OperandName::kA, 0, 64);
  session->EndLate(server.clock.Now());
  EXPECT_FALSE(Next(session.get()).has_value());
  server.clock.Advance(1);
  session->EndLate(server.clock.Now());
  auto finished = std::get<RequestFinished>(*Next(session.get()));
  EXPECT_EQ(finished.request_id, 1u);
  EXPECT_EQ(finished.status.message(),
            "the payload came slower than 1000 bytes per second (limits.min_bytes_per_second) for "
            "more than 50ms (limits.stall_timeout_ms)");
  EXPECT_FALSE(Next(session.get()).has_value());
  server.clock.Advance(10 * kMillisecond - 1);  // to its deadline
  session->EndLate(server.clock.Now());
  finished = std::get<RequestFinished>(*Next(session.get()));
  EXPECT_EQ(finished.request_id, 2u);
  EXPECT_EQ(finished.status.message(), "the deadline passed before the payload was there");
  EXPECT_FALSE(Next(session.get()).has_value());
  EXPECT_EQ(server.device.memory().usage().in_flight_bytes, 3u * 256);
}

TEST(MatmulSession, MemoryWhosePayloadDoesNotComeIsGivenBackToOthers) {
  Server server;
  auto session = server.NewSession();
  ASSERT_TRUE(session->AddStream([] {}).ok());
  const TimeNs begin = server.clock.Now();
  ASSERT_TRUE(session->Begin(Header(1, 8, begin)).ok());
  ASSERT_TRUE(session->Begin(Header(2, 8, begin)).ok());
  server.clock.Advance(kMillisecond);
  Receive(session.get(), 2, OperandName::kA, 0, 64);
  Receive(session.get(), 1, OperandName::kA, 0, 0);  // no byte
  EXPECT_EQ(session->IdleBytes(begin - 1), 0u);
  EXPECT_GE(session->IdleBytes(begin), 3u * 256);
  EXPECT_EQ(session->IdleBytes(begin + kMillisecond), 2 * session->IdleBytes(begin));
  session->Recall(begin);
  const auto finished = std::get<RequestFinished>(*Next(session.get()));
  EXPECT_EQ(finished.request_id, 1u);
  EXPECT_EQ(finished.status.message(),
            "other requests wait for memory, and none of this one's payload came for some seconds");
  EXPECT_FALSE(Next(session.get()).has_value());
  EXPECT_FALSE(session->Closing().has_value());
  EXPECT_EQ(server.device.memory().usage().in_flight_bytes, 3u * 256) << "of the other one";
}

TEST(MatmulSession, MemoryOfResultsThatNobodyReadsIsGivenBackToOthers) {
  Server server;
  auto session = server.NewSession();
  ASSERT_TRUE(session->AddStream([] {}).ok());
  ASSERT_TRUE(session->Begin(Header(1, 8, 0)).ok());
  Receive(session.get(), 1, OperandName::kA, 0, 256);
  Receive(session.get(), 1, OperandName::kB, 0, 256);
  server.device.FinishOne();
  EXPECT_EQ(session->IdleBytes(server.clock.Now()), 0u) << "it has nothing to read";
  ASSERT_TRUE(Next(session.get()).has_value());
  const TimeNs sent = server.clock.Now();
  EXPECT_EQ(session->IdleBytes(sent - 1), 0u);
  EXPECT_EQ(session->IdleBytes(sent), 256u);
  session->Recall(sent - 1);
  EXPECT_FALSE(session->Closing().has_value());
  session->Recall(sent);
  EXPECT_EQ(session->Closing()->message(),
            "other requests wait for memory, and the client read nothing for some seconds");
  EXPECT_EQ(session->IdleBytes(sent), 0u);
}

// A chunk may take longer than the time in which something must come, and is seen when it is whole.
TEST(MatmulSession, RequestsWhoseChunkIsUnderWayGoOnForAsLongAsTheLargestTakes) {
  Server server;
  auto session = server.NewSession();
  ASSERT_TRUE(session->AddStream([] {}).ok());
  ASSERT_TRUE(session->Begin(Header(1, 8, server.clock.Now())).ok());
  const auto is_going_on = [&] {
    session->EndLate(server.clock.Now());
    const bool is_ended = Next(session.get()).has_value();
    EXPECT_FALSE(Next(session.get()).has_value());  // the end was sent
    return !is_ended;
  };
  server.clock.Advance(50 * kMillisecond);
  session->ExpectMessage(server.clock.Now() + 30 * kMillisecond);
  server.clock.Advance(29 * kMillisecond);
  EXPECT_TRUE(is_going_on());
  session->ExpectMessage(server.clock.Now() + 200 * kMillisecond);
  server.clock.Advance(20 * kMillisecond);
  // As far as it came in time it may be silent for 50 ms, and the largest message takes 100.
  Receive(session.get(), 1, OperandName::kA, 0, 100);
  server.clock.Advance(150 * kMillisecond);
  EXPECT_TRUE(is_going_on());
  server.clock.Advance(1 * kMillisecond);
  EXPECT_FALSE(is_going_on());

  // Nothing comes any more.
  ASSERT_TRUE(session->Begin(Header(2, 8, server.clock.Now())).ok());
  session->ExpectMessage(server.clock.Now() + 60 * kMillisecond);
  session->ExpectMessage(server.clock.Now() + 40 * kMillisecond);
  server.clock.Advance(59 * kMillisecond);
  EXPECT_TRUE(is_going_on());
  server.clock.Advance(1 * kMillisecond);
  EXPECT_FALSE(is_going_on());
}

// A chunk of no bytes, or of one, would else hold the request's memory for ever.
TEST(MatmulSession, ChunksThatBringNextToNothingAreNoProgress) {
  for (const std::uint64_t bytes : {0, 1}) {
    Server server;
    auto session = server.NewSession();
    ASSERT_TRUE(session->AddStream([] {}).ok());
    ASSERT_TRUE(session->Begin(Header(1, 8, server.clock.Now())).ok());
    for (int i = 0; i < 6; ++i) {
      EXPECT_FALSE(Next(session.get()).has_value()) << i;
      server.clock.Advance(10 * kMillisecond);
      Receive(session.get(), 1, OperandName::kA, i, bytes);
      session->EndLate(server.clock.Now());
    }
    EXPECT_TRUE(Next(session.get()).has_value());
    EXPECT_EQ(server.device.memory().usage().in_flight_bytes, 0u);
  }
}

TEST(MatmulSession, AClientMayReadALargeMessageAsSlowlyAsTheRateAllows) {
  Server server;
  auto session = server.NewSession();
  ASSERT_TRUE(session->AddStream([] {}).ok());
  ASSERT_TRUE(session->Begin(Header(1, 8, 0)).ok());
  Receive(session.get(), 1, OperandName::kA, 0, 256);
  Receive(session.get(), 1, OperandName::kB, 0, 256);
  server.device.FinishOne();
  Next(session.get());
  ASSERT_EQ(SizeOf(std::get<ResultChunk>(*Next(session.get())).bytes), 50u);
  server.clock.Advance((50 + 50) * kMillisecond);
  session->EndLate(server.clock.Now());
  EXPECT_FALSE(session->Closing().has_value());
  server.clock.Advance(1);
  session->EndLate(server.clock.Now());
  EXPECT_TRUE(session->Closing().has_value());
}

TEST(MatmulSession, AnIdleSessionIsNotLate) {
  Server server;
  auto session = server.NewSession();
  ASSERT_TRUE(session->AddStream([] {}).ok());
  session->Greet(0, SessionOpened{"s"});
  Next(session.get());
  Next(session.get());
  server.clock.Advance(5000 * kMillisecond);
  session->EndLate(server.clock.Now());
  EXPECT_FALSE(session->Closing().has_value());
  session->StartDraining();
  EXPECT_EQ(session->Closing()->code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace gemmd
