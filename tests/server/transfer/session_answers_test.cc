// Answers of a session: turns, batches, pieces.
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/sync/coalescing_scope.h"
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

TEST(MatmulSession, LargeResultsTakeTurns) {
  Server server;
  auto session = server.NewSession();
  ASSERT_TRUE(session->AddStream([] {}).ok());
  for (std::uint64_t id : {1, 2}) {
    ASSERT_TRUE(session->Begin(Header(id, 8, 0)).ok());
    Receive(session.get(), id, OperandName::kA, 0, 256);
    Receive(session.get(), id, OperandName::kB, 0, 256);
    server.device.FinishOne();
  }
  Next(session.get());
  Next(session.get());  // both Finished
  std::vector<std::uint64_t> order;
  while (const std::optional<Outgoing> chunk = Next(session.get())) {
    order.push_back(std::get<ResultChunk>(*chunk).request_id);
  }
  EXPECT_EQ(order, (std::vector<std::uint64_t>{1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2}));
}

TEST(MatmulSession, AnswersThatWaitShareAMessageForAClientThatAcceptsThat) {
  for (const bool accepts : {false, true}) {
    Server server;
    auto session = server.NewSession();
    ASSERT_TRUE(session->AddStream([] {}).ok());
    EXPECT_TRUE(session->NextMessage(0).empty());
    for (std::uint64_t id : {1, 2, 3}) {
      RequestHeader header = Header(id, 2, 0);  // a result of 16 bytes
      header.accepts_batches = accepts && id == 1;
      header.await_accepted = id == 3;
      ASSERT_TRUE(session->Begin(header).ok());
      if (id == 3) continue;
      Receive(session.get(), id, OperandName::kA, 0, 16);
      Receive(session.get(), id, OperandName::kB, 0, 16);
      server.device.FinishOne();
    }
    const std::vector<Outgoing> first = session->NextMessage(0);
    ASSERT_EQ(first.size(), accepts ? 2u : 1u);
    EXPECT_EQ(std::get<RequestFinished>(first[0]).request_id, 1u);
    if (!accepts) continue;
    EXPECT_EQ(std::get<RequestFinished>(first[1]).request_id, 2u);
    const std::vector<Outgoing> second = session->NextMessage(0);
    ASSERT_EQ(second.size(), 1u);
    EXPECT_EQ(std::get<RequestAccepted>(second[0]).request_id, 3u);
    // It is being sent until the next is asked for.
    server.clock.Advance(51 * kMillisecond);
    session->EndLate(server.clock.Now());
    EXPECT_TRUE(session->Closing().has_value());
  }
}

TEST(MatmulSession, ADeferralWakesAStreamOnceForAllThatHappensUnderIt) {
  Server server;
  auto session = server.NewSession();
  int wakes = 0;
  ASSERT_TRUE(session->AddStream([&wakes] { ++wakes; }).ok());
  for (std::uint64_t id : {1, 2, 3}) {
    RequestHeader header = Header(id, 2, 0);
    header.accepts_batches = true;
    ASSERT_TRUE(session->Begin(header).ok());
    Receive(session.get(), id, OperandName::kA, 0, 16);
    Receive(session.get(), id, OperandName::kB, 0, 16);
  }
  wakes = 0;
  {
    const CoalescingScope together;
    for (int i = 0; i < 3; ++i) server.device.FinishOne();
    EXPECT_EQ(wakes, 0);
  }
  EXPECT_EQ(wakes, 1);
  EXPECT_EQ(session->NextMessage(0).size(), 3u);
}

TEST(MatmulSession, ABatchHasAboutAChunkOfPayloadAtMost) {
  Server server;
  auto session = server.NewSession();  // chunks of 50 bytes
  ASSERT_TRUE(session->AddStream([] {}).ok());
  for (std::uint64_t id : {1, 2, 3}) {
    RequestHeader header = Header(id, 3, 0);  // a result of 36 bytes
    header.accepts_batches = true;
    ASSERT_TRUE(session->Begin(header).ok());
    Receive(session.get(), id, OperandName::kA, 0, 36);
    Receive(session.get(), id, OperandName::kB, 0, 36);
    server.device.FinishOne();
  }
  EXPECT_EQ(session->NextMessage(0).size(), 2u);
  EXPECT_EQ(session->NextMessage(0).size(), 1u);
}

TEST(MatmulSession, ReadingWaitsWhileAnswersAreNotFetched) {
  Server server;
  auto session = server.NewSession();
  ASSERT_TRUE(session->AddStream([] {}).ok());
  std::uint64_t id = 0;
  while (session->MayRead(0)) {
    RequestHeader header = Header(id++, 8, 0);
    header.call = absl::InvalidArgumentError("no");
    ASSERT_TRUE(session->Begin(header).ok());
    ASSERT_LT(id, 100u);
  }
  EXPECT_EQ(id, 6u);
  Next(session.get());
  EXPECT_TRUE(session->MayRead(0));
}

// A result of 100 bytes at most goes so.
TEST(MatmulSession, ASmallResultTravelsWithItsAnswer) {
  Server server;
  auto session = server.NewSession();
  ASSERT_TRUE(session->AddStream([] {}).ok());
  for (const std::uint64_t n : {5, 6}) {  // 100 and 144 bytes
    ASSERT_TRUE(session->Begin(Header(n, n, 0)).ok());
    Receive(session.get(), n, OperandName::kA, 0, n * n * 4);
    Receive(session.get(), n, OperandName::kB, 0, n * n * 4);
    server.device.FinishOne();
    const auto finished = std::get<RequestFinished>(*Next(session.get()));
    EXPECT_EQ(SizeOf(finished.payload), n == 5 ? 100u : 0u);
    while (Next(session.get()).has_value()) {
    }
  }
}

TEST(MatmulSession, AResultInPiecesComesWhole) {
  Server server;
  server.device.result_piece_bytes = 70;
  auto session = server.NewSession();  // chunks of 50 bytes
  ASSERT_TRUE(session->AddStream([] {}).ok());
  ASSERT_TRUE(session->Begin(Header(1, 8, 0)).ok());
  Receive(session.get(), 1, OperandName::kA, 0, 256);
  Receive(session.get(), 1, OperandName::kB, 0, 256);
  server.device.FinishOne();
  ASSERT_TRUE(std::get<RequestFinished>(*Next(session.get())).status.ok());
  std::string result;
  while (const std::optional<Outgoing> chunk = Next(session.get())) {
    EXPECT_EQ(std::get<ResultChunk>(*chunk).offset, result.size());
    for (const HostPiece& piece : std::get<ResultChunk>(*chunk).bytes) {
      result.append(piece.data, piece.size_bytes);
    }
  }
  ASSERT_EQ(result.size(), 256u);
  for (std::size_t i = 0; i < 256; ++i) EXPECT_EQ(result[i], static_cast<char>(i));
}

TEST(MatmulSession, AMessageHasSoManyAnswersAtMost) {
  Server server;
  auto session = server.NewSession();
  ASSERT_TRUE(session->AddStream([] {}).ok());
  for (std::uint64_t id = 0; id < 70; ++id) {
    RequestHeader header = Header(id, 2, 0);
    header.accepts_batches = true;
    header.call = absl::InvalidArgumentError("no");
    ASSERT_TRUE(session->Begin(header).ok());
  }
  EXPECT_EQ(session->NextMessage(0).size(), 64u);
  EXPECT_EQ(session->NextMessage(0).size(), 6u);
}

}  // namespace
}  // namespace gemmd
