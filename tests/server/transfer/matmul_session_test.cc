#include "server/transfer/matmul_session.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/sync/coalescing_scope.h"
#include "gtest/gtest.h"
#include "server/scheduling/draining.h"
#include "server/transfer/session_registry.h"
#include "tests/server/transfer/session_play.h"

namespace gemmd {
namespace {

using testing::Header;
using testing::kMs;
using testing::PlaySession;
using testing::Receive;
using testing::Server;
using testing::SizeOf;
using testing::SmallOptions;

// The only event of the message that the stream sends next, if there is one.
std::optional<Outgoing> Next(MatmulSession* session, MatmulSession::StreamId stream = 0) {
  std::vector<Outgoing> message = session->NextMessage(stream);
  EXPECT_LE(message.size(), 1U);
  if (message.empty()) return std::nullopt;
  return std::move(message.front());
}

TEST(MatmulSession, ARequestGoesItsWay) {
  Server server;
  auto session = server.NewSession();
  int wakes = 0;
  ASSERT_EQ(*session->AddStream([&wakes] { ++wakes; }), MatmulSession::kFirst);
  RequestHeader header = Header(7, 8, server.clock.Now());
  header.await_accepted = true;
  ASSERT_TRUE(session->Begin(header).ok());
  EXPECT_GT(wakes, 0);
  EXPECT_EQ(std::get<RequestAccepted>(*Next(session.get())).request_id, 7u);
  EXPECT_FALSE(Next(session.get()).has_value());
  EXPECT_EQ(server.device.memory().usage().in_flight_bytes, 3u * 256);
  EXPECT_GT(server.WaitUs(), 0) << "it will be here soon";

  Receive(session.get(), 7, OperandName::kB, 0, 256);
  Receive(session.get(), 7, OperandName::kA, 100, 156);
  server.clock.Advance(3 * kMs);
  EXPECT_EQ(server.device.running(), 0u);
  Receive(session.get(), 7, OperandName::kA, 0, 100);
  EXPECT_EQ(server.device.running(), 1u);
  Receive(session.get(), 7, OperandName::kA, 0, 100);  // late: dropped
  server.device.FinishOne();
  EXPECT_EQ(server.WaitUs(), 0);

  const auto finished = std::get<RequestFinished>(*Next(session.get()));
  EXPECT_TRUE(finished.status.ok()) << finished.status;
  EXPECT_TRUE(finished.payload.empty());
  EXPECT_EQ(finished.receipt.payload_bytes_in, 512u);
  const StageSpan& receive = finished.receipt.spans[1];
  EXPECT_EQ(receive.stage, Stage::kReceive);
  EXPECT_EQ(receive.end - receive.start, 3 * kMs);
  std::uint64_t bytes = 0;
  while (const std::optional<Outgoing> chunk = Next(session.get())) {
    EXPECT_EQ(std::get<ResultChunk>(*chunk).offset, bytes);
    bytes += SizeOf(std::get<ResultChunk>(*chunk).bytes);
  }
  EXPECT_EQ(bytes, 256u);
  EXPECT_FALSE(session->Closing().has_value());
  session->EndInput(0);
  EXPECT_TRUE(session->Closing()->ok());
}

// A client that goes ends its input too, and the news of its going come after that.
TEST(MatmulSession, WhatTheInputsEndLeftIncompleteIsCountedByHowTheStreamEnds) {
  for (const bool goes : {false, true}) {
    Server server;
    auto session = server.NewSession();
    ASSERT_TRUE(session->AddStream([] {}).ok());
    ASSERT_TRUE(session->Begin(Header(1, 8, 0)).ok());
    session->EndInput(0);
    EXPECT_EQ(std::get<RequestFinished>(*Next(session.get())).status.code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(server.statistics.Read().in_flight, 1u);
    if (goes) session->Break(absl::CancelledError("cancelled"));
    session->OnClosed();
    EXPECT_EQ(server.statistics.Read().in_flight, 0u);
    EXPECT_EQ(server.statistics.Read().finished.at(goes ? "CANCELLED" : "INVALID_ARGUMENT"), 1u);
  }
}

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
    server.clock.Advance(51 * kMs);
    session->EndLate(server.clock.Now());
    EXPECT_TRUE(session->Closing().has_value());
  }
}

TEST(MatmulSession, ADeferralWakesAStreamOnceForAllThatHappensUnderIt) {
  Server server;
  auto session = server.NewSession();
  int wakes = 0;
  ASSERT_TRUE(session->AddStream([&wakes] { ++wakes; }).ok());
  {
    const CoalescingScope together;
    for (std::uint64_t id : {1, 2, 3}) {
      RequestHeader header = Header(id, 2, 0);
      header.accepts_batches = true;
      ASSERT_TRUE(session->Begin(header).ok());
      Receive(session.get(), id, OperandName::kA, 0, 16);
      Receive(session.get(), id, OperandName::kB, 0, 16);
      server.device.FinishOne();
    }
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

TEST(MatmulSession, AStreamThatIsStuckBreaksTheSession) {
  Server server;
  auto session = server.NewSession();
  ASSERT_TRUE(session->AddStream([] {}).ok());
  ASSERT_TRUE(session->AddStream([] {}).ok());
  session->Greet(1, SessionJoined());
  ASSERT_TRUE(Next(session.get(), 1).has_value());
  server.clock.Advance(50 * kMs);
  session->EndLate(server.clock.Now());
  EXPECT_FALSE(session->Closing().has_value());
  server.clock.Advance(1);
  session->EndLate(server.clock.Now());
  EXPECT_EQ(session->Closing()->message(),
            "the client read slower than 1000 bytes per second (limits.min_bytes_per_second) for "
            "more than 50ms (limits.stall_timeout_ms)");
  EXPECT_EQ(session->AddStream([] {}).status().code(), absl::StatusCode::kUnavailable);
}

// Both of the device's places are taken, so that a third request would wait for ever.
TEST(MatmulSession, ACancelThatComesWhileTheRequestIsSubmittedEndsIt) {
  Server server;
  auto session = server.NewSession();
  ASSERT_TRUE(session->AddStream([] {}).ok());
  for (std::uint64_t id : {1, 2, 3}) {
    // The session has handed it on, and the scheduler does not know it yet.
    if (id == 3) server.device.on_form = [&session] { session->Cancel(3); };
    ASSERT_TRUE(session->Begin(Header(id, 2, 0)).ok());
    Receive(session.get(), id, OperandName::kA, 0, 16);
    Receive(session.get(), id, OperandName::kB, 0, 16);
  }
  const std::optional<Outgoing> finished = Next(session.get());
  ASSERT_TRUE(finished.has_value());
  EXPECT_EQ(std::get<RequestFinished>(*finished).request_id, 3u);
  EXPECT_TRUE(absl::IsCancelled(std::get<RequestFinished>(*finished).status));
  EXPECT_EQ(server.scheduler.queued().jobs, 0u);
  session->EndInput(0);
  EXPECT_FALSE(session->Closing().has_value());
  while (server.device.FinishOne()) {
  }
  EXPECT_TRUE(Next(session.get()).has_value());
  EXPECT_TRUE(Next(session.get()).has_value());
  EXPECT_TRUE(session->Closing().has_value());
}

TEST(MatmulSession, WhatTheQueueRefusesIsToldAndItsIdIsFree) {
  Server server;  // two places on the device, four in the queue
  MatmulSession::Options options = SmallOptions();
  options.max_requests = 100;
  auto session = server.NewSession(options);
  ASSERT_TRUE(session->AddStream([] {}).ok());
  for (std::uint64_t id = 1; id <= 7; ++id) {
    ASSERT_TRUE(session->Begin(Header(id, 2, 0)).ok());
    Receive(session.get(), id, OperandName::kA, 0, 16);
    Receive(session.get(), id, OperandName::kB, 0, 16);
  }
  const auto finished = std::get<RequestFinished>(*Next(session.get()));
  EXPECT_EQ(finished.request_id, 7u);
  EXPECT_TRUE(absl::IsResourceExhausted(finished.status));
  EXPECT_EQ(server.statistics.Read().in_flight, 6u);
  EXPECT_FALSE(session->Begin(Header(6, 2, 0)).ok());
  EXPECT_TRUE(session->Begin(Header(7, 2, 0)).ok());
  session->Cancel(7);
  while (server.device.FinishOne()) {
  }
}

// A whole session's requests, and no one's more, may be in flight; results that are being fetched
// count.
TEST(MatmulSession, ItsRequestsInFlightAreBounded) {
  Server server;
  auto session = server.NewSession();  // of six requests
  ASSERT_TRUE(session->AddStream([] {}).ok());
  for (std::uint64_t id = 1; id <= 7; ++id) {
    ASSERT_TRUE(session->Begin(Header(id, 8, 0)).ok());
  }
  auto finished = std::get<RequestFinished>(*Next(session.get()));
  EXPECT_EQ(finished.request_id, 7u);
  EXPECT_EQ(finished.status.message(), "the session has 6 requests in flight, which is the limit");
  EXPECT_FALSE(Next(session.get()).has_value());
  Receive(session.get(), 1, OperandName::kA, 0, 256);
  Receive(session.get(), 1, OperandName::kB, 0, 256);
  server.device.FinishOne();
  EXPECT_TRUE(std::get<RequestFinished>(*Next(session.get())).status.ok());
  ASSERT_TRUE(session->Begin(Header(8, 8, 0)).ok());
  finished = std::get<RequestFinished>(*Next(session.get()));
  EXPECT_EQ(finished.request_id, 8u);
  EXPECT_TRUE(absl::IsResourceExhausted(finished.status));
  EXPECT_FALSE(session->Begin(Header(1, 8, 0)).ok());  // its result is on its way
  while (Next(session.get()).has_value()) {
  }
  ASSERT_TRUE(session->Begin(Header(8, 8, 0)).ok());
  EXPECT_FALSE(Next(session.get()).has_value());
}

// A session with a request that waits: another one has the memory.
class WaitingSession : public ::testing::Test {
 protected:
  // A product of 8 takes 768 bytes and 1024 of workspace.
  WaitingSession() : server_(2000, true), session_(server_.NewSession()) {
    EXPECT_TRUE(session_->AddStream([] {}).ok());
    EXPECT_TRUE(session_->Begin(Header(1, 8, 0)).ok());
  }

  // The holder of the memory ends, and the room looks.
  void Free() {
    session_->Cancel(1);
    EXPECT_EQ(std::get<RequestFinished>(*Next(session_.get())).request_id, 1u);
    server_.room->Look();
  }

  Server server_;
  std::shared_ptr<MatmulSession> session_;
};

TEST_F(WaitingSession, ARequestThatWaitedReceivesWhatCameWithItsHeader) {
  RequestHeader header = Header(2, 8, 0);
  header.await_accepted = true;
  testing::AddPayload(OperandName::kA, 256, &header);
  ASSERT_TRUE(session_->Begin(header).ok());
  EXPECT_FALSE(Next(session_.get()).has_value());
  EXPECT_EQ(server_.room->waiting(), 1u);
  Free();
  EXPECT_EQ(std::get<RequestAccepted>(*Next(session_.get())).request_id, 2u);
  Receive(session_.get(), 2, OperandName::kB, 0, 256);
  server_.device.FinishOne();
  EXPECT_TRUE(std::get<RequestFinished>(*Next(session_.get())).status.ok());
}

TEST_F(WaitingSession, OneWithAllOfItsPayloadRunsAtOnceAlsoAfterTheInputsEnd) {
  RequestHeader header = Header(2, 8, 0);
  testing::AddPayload(OperandName::kA, 256, &header);
  testing::AddPayload(OperandName::kB, 256, &header);
  ASSERT_TRUE(session_->Begin(header).ok());
  session_->EndInput(0);
  EXPECT_FALSE(session_->Closing().has_value());
  EXPECT_EQ(std::get<RequestFinished>(*Next(session_.get())).request_id, 1u);
  server_.room->Look();
  server_.device.FinishOne();
  EXPECT_TRUE(std::get<RequestFinished>(*Next(session_.get())).status.ok());
}

TEST_F(WaitingSession, OneThatLacksPayloadWhenTheInputHasEndedIsTold) {
  ASSERT_TRUE(session_->Begin(Header(2, 8, 0)).ok());
  session_->EndInput(0);
  EXPECT_EQ(std::get<RequestFinished>(*Next(session_.get())).request_id, 1u);
  server_.room->Look();
  EXPECT_TRUE(absl::IsInvalidArgument(std::get<RequestFinished>(*Next(session_.get())).status));
}

TEST_F(WaitingSession, PayloadThatComesTooSoonEndsIt) {
  ASSERT_TRUE(session_->Begin(Header(2, 8, 0)).ok());
  Receive(session_.get(), 2, OperandName::kA, 0, 8);
  const auto finished = std::get<RequestFinished>(*Next(session_.get()));
  EXPECT_TRUE(absl::IsResourceExhausted(finished.status));
  EXPECT_NE(finished.status.message().find("await_accepted"), absl::string_view::npos);
  EXPECT_EQ(server_.room->waiting(), 0u);
  EXPECT_EQ(server_.statistics.Read().in_flight, 1u);
}

TEST_F(WaitingSession, ItEndsWhenItIsCancelledOrTheSessionBreaks) {
  ASSERT_TRUE(session_->Begin(Header(2, 8, 0)).ok());
  session_->Cancel(2);
  EXPECT_TRUE(absl::IsCancelled(std::get<RequestFinished>(*Next(session_.get())).status));
  EXPECT_EQ(server_.room->waiting(), 0u);
  ASSERT_TRUE(session_->Begin(Header(3, 8, 0)).ok());
  session_->Break(absl::CancelledError("gone"));
  EXPECT_EQ(server_.room->waiting(), 0u);
  EXPECT_EQ(server_.statistics.Read().in_flight, 0u);
  EXPECT_EQ(server_.statistics.Read().finished.at("CANCELLED"), 3u);
}

// An id is free again once its request has ended; what the old one waited for must not reach the
// new one.
TEST_F(WaitingSession, ItsPayloadIsNotAnotherRequestsOfTheSameId) {
  RequestHeader header = Header(2, 8, 0);
  testing::AddPayload(OperandName::kA, 256, &header);
  ASSERT_TRUE(session_->Begin(header).ok());
  session_->Cancel(2);
  Next(session_.get());
  ASSERT_TRUE(session_->Begin(Header(2, 8, 0)).ok());
  Free();
  Receive(session_.get(), 2, OperandName::kA, 0, 256);
  Receive(session_.get(), 2, OperandName::kB, 0, 256);
  server_.device.FinishOne();
  EXPECT_TRUE(std::get<RequestFinished>(*Next(session_.get())).status.ok());
}

TEST(MatmulSession, RequestsWhosePayloadDoesNotComeEndAlone) {
  Server server;
  auto session = server.NewSession();
  ASSERT_TRUE(session->AddStream([] {}).ok());
  ASSERT_TRUE(session->Begin(Header(1, 8, server.clock.Now())).ok());
  ASSERT_TRUE(session->Begin(Header(2, 8, server.clock.Now(), 60000)).ok());
  ASSERT_TRUE(session->Begin(Header(3, 8, server.clock.Now())).ok());
  server.clock.Advance(50 * kMs);
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
  server.clock.Advance(10 * kMs - 1);  // to its deadline
  session->EndLate(server.clock.Now());
  finished = std::get<RequestFinished>(*Next(session.get()));
  EXPECT_EQ(finished.request_id, 2u);
  EXPECT_EQ(finished.status.message(), "the deadline passed before the payload was there");
  EXPECT_FALSE(Next(session.get()).has_value());
  EXPECT_EQ(server.device.memory().usage().in_flight_bytes, 3u * 256);
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
  server.clock.Advance(50 * kMs);
  session->ExpectMessage(server.clock.Now() + 30 * kMs);
  server.clock.Advance(29 * kMs);
  EXPECT_TRUE(is_going_on());
  session->ExpectMessage(server.clock.Now() + 200 * kMs);
  server.clock.Advance(20 * kMs);
  // As far as it came in time it may be silent for 50 ms, and the largest message takes 100.
  Receive(session.get(), 1, OperandName::kA, 0, 100);
  server.clock.Advance(150 * kMs);
  EXPECT_TRUE(is_going_on());
  server.clock.Advance(1 * kMs);
  EXPECT_FALSE(is_going_on());

  // Nothing comes any more.
  ASSERT_TRUE(session->Begin(Header(2, 8, server.clock.Now())).ok());
  session->ExpectMessage(server.clock.Now() + 60 * kMs);
  session->ExpectMessage(server.clock.Now() + 40 * kMs);
  server.clock.Advance(59 * kMs);
  EXPECT_TRUE(is_going_on());
  server.clock.Advance(1 * kMs);
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
      server.clock.Advance(10 * kMs);
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
  server.clock.Advance((50 + 50) * kMs);
  session->EndLate(server.clock.Now());
  EXPECT_FALSE(session->Closing().has_value());
  server.clock.Advance(1);
  session->EndLate(server.clock.Now());
  EXPECT_TRUE(session->Closing().has_value());
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

TEST(MatmulSession, ATimeoutOfCenturiesIsNone) {
  Server server;
  auto session = server.NewSession();
  ASSERT_TRUE(session->AddStream([] {}).ok());
  std::uint64_t id = 0;
  for (const std::uint64_t timeout_us : {~std::uint64_t{0}, ~std::uint64_t{0} / 2000}) {
    ASSERT_TRUE(session->Begin(Header(++id, 2, server.clock.Now(), timeout_us)).ok());
    session->EndLate(server.clock.Now());
    EXPECT_FALSE(Next(session.get()).has_value()) << timeout_us;
  }
}

TEST(MatmulSession, ItsStreamsAreBounded) {
  Server server;
  auto session = server.NewSession();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(session->AddStream([] {}).ok());
  EXPECT_EQ(session->AddStream([] {}).status(),
            absl::ResourceExhaustedError("the session has 3 streams, which is the limit"));
}

TEST(MatmulSession, UploadsGoOnOverTheStreamsThatAreLeft) {
  Server server;
  auto session = server.NewSession();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(session->AddStream([] {}).ok());
  for (const std::uint64_t id : {1, 2}) ASSERT_TRUE(session->Begin(Header(id, 2, 0)).ok());
  session->EndInput(0);
  EXPECT_FALSE(Next(session.get()).has_value());
  Receive(session.get(), 1, OperandName::kA, 0, 16);
  Receive(session.get(), 1, OperandName::kB, 0, 16);
  server.device.FinishOne();
  EXPECT_TRUE(std::get<RequestFinished>(*Next(session.get())).status.ok());
  session->EndInput(1);
  const auto finished = std::get<RequestFinished>(*Next(session.get()));
  EXPECT_EQ(finished.request_id, 2u);
  EXPECT_TRUE(absl::IsInvalidArgument(finished.status));
  EXPECT_TRUE(session->Closing()->ok());
}

TEST(MatmulSession, AnIdleSessionIsNotLate) {
  Server server;
  auto session = server.NewSession();
  ASSERT_TRUE(session->AddStream([] {}).ok());
  session->Greet(0, SessionOpened{"s"});
  Next(session.get());
  Next(session.get());
  server.clock.Advance(5000 * kMs);
  session->EndLate(server.clock.Now());
  EXPECT_FALSE(session->Closing().has_value());
  session->StartDraining();
  EXPECT_EQ(session->Closing()->code(), absl::StatusCode::kUnavailable);
}

TEST(MatmulSession, WhatItsHeaderLetInGoesOnWhileTheServerDrains) {
  Server server;
  auto session = server.NewSession();
  ASSERT_TRUE(session->AddStream([] {}).ok());
  ASSERT_TRUE(session->Begin(Header(1, 8, 0)).ok());
  Receive(session.get(), 1, OperandName::kA, 0, 256);
  server.router.StartDraining();
  session->StartDraining();
  EXPECT_FALSE(session->Closing().has_value());
  ASSERT_TRUE(session->Begin(Header(2, 8, 0)).ok());
  const auto refused = std::get<RequestFinished>(*Next(session.get()));
  EXPECT_EQ(refused.request_id, 2u);
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(server.statistics.Read().in_flight, 1u);
  Receive(session.get(), 1, OperandName::kB, 0, 256);
  server.device.FinishOne();
  EXPECT_TRUE(std::get<RequestFinished>(*Next(session.get())).status.ok());
  while (Next(session.get()).has_value()) {
  }
  EXPECT_EQ(server.statistics.Read().in_flight, 0u);
  EXPECT_EQ(session->Closing()->code(), absl::StatusCode::kUnavailable);
}

// The first stream of a session that drains has no more input once it is ended; the others, which
// may still be sending results then, must not end otherwise than it.
TEST(MatmulSession, AllStreamsOfASessionThatDrainsEndAlike) {
  Server server;
  auto session = server.NewSession();
  ASSERT_TRUE(session->AddStream([] {}).ok());
  const MatmulSession::StreamId second = session->AddStream([] {}).value();
  session->StartDraining();
  EXPECT_TRUE(IsDraining(*session->Closing()));
  session->EndInput(MatmulSession::kFirst);
  EXPECT_TRUE(IsDraining(*session->Closing()));
  session->EndInput(second);
  EXPECT_TRUE(IsDraining(*session->Closing()));
}

TEST(MatmulSession, WhatItsClientEndedBeforeTheServerDrainsEndsWell) {
  Server server;
  auto session = server.NewSession();
  ASSERT_TRUE(session->AddStream([] {}).ok());
  session->EndInput(MatmulSession::kFirst);
  session->StartDraining();
  EXPECT_TRUE(session->Closing()->ok());
}

TEST(SessionRegistry, ForgetsSessionsThatEnded) {
  Server server;
  SessionRegistry registry(&server.clock, std::chrono::milliseconds(0));
  auto session = server.NewSession();
  registry.Add(session);
  const std::string token = registry.Open(session, "a");
  EXPECT_EQ(token.size(), 16u);
  EXPECT_NE(registry.Open(session, "a"), token);
  EXPECT_EQ(*registry.Find(token, "a"), session);
  EXPECT_EQ(registry.Find(token, "b").status(), registry.Find("none", "a").status());
  session.reset();
  EXPECT_EQ(registry.Find(token, "a").status().code(), absl::StatusCode::kNotFound);
  registry.EndLate();
  registry.StartDraining();
  auto late = server.NewSession();
  ASSERT_TRUE(late->AddStream([] {}).ok());
  registry.Add(late);
  EXPECT_EQ(late->Closing()->code(), absl::StatusCode::kUnavailable);
}

// Header, chunk, cancel, disconnect and expiry in random order.
TEST(MatmulSession, RandomInterleavingsLeakNothing) {
  for (unsigned seed = 0; seed < 10000; ++seed) {
    std::mt19937 random(seed);
    ASSERT_EQ(PlaySession(random, 20 + random() % 60), "") << "seed " << seed;
  }
}

// The same from many threads at once, for the sanitizers.
TEST(MatmulSession, StreamsOfSeveralThreads) {
  constexpr int kStreams = 3;
  Server server(1 << 22);
  const std::uint64_t free_bytes = server.device.memory().usage().free_bytes();
  MatmulSession::Options options = SmallOptions();
  options.max_requests = 1000;
  auto session = server.NewSession(options);
  for (int i = 0; i < kStreams; ++i) ASSERT_TRUE(session->AddStream([] {}).ok());
  constexpr std::uint64_t kRequests = 300;
  constexpr std::uint64_t kBytes = 256;  // of 8 x 8
  std::atomic<std::uint64_t> begun{0};
  std::atomic<bool> is_done{false};
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    std::mt19937 random(1);
    for (std::uint64_t id = 0; id < kRequests; ++id) {
      EXPECT_TRUE(session->Begin(Header(id, 8, server.clock.Now())).ok());
      begun = id + 1;
      if (random() % 5 == 0) session->Cancel(random() % (id + 1));
    }
  });
  for (int stream = 0; stream < kStreams; ++stream) {
    threads.emplace_back([&, stream] {
      // Every stream brings a part of each request.
      const std::uint64_t begin = static_cast<std::uint64_t>(stream) * 100;
      const std::uint64_t bytes = std::min<std::uint64_t>(100, kBytes - begin);
      for (std::uint64_t id = 0; id < kRequests; ++id) {
        while (begun <= id) std::this_thread::yield();
        Receive(session.get(), id, OperandName::kA, begin, bytes);
        Receive(session.get(), id, OperandName::kB, begin, bytes);
      }
    });
    threads.emplace_back([&, stream] {
      while (!is_done) {
        if (session->NextMessage(static_cast<std::size_t>(stream)).empty())
          std::this_thread::yield();
      }
    });
  }
  threads.emplace_back([&] {
    while (!is_done) {
      if (!server.device.FinishOne()) std::this_thread::yield();
      session->EndLate(server.clock.Now());
    }
  });
  while (server.statistics.Read().received < kRequests || server.statistics.Read().in_flight != 0) {
    std::this_thread::yield();
  }
  is_done = true;
  for (std::thread& thread : threads) thread.join();
  while (Next(session.get()).has_value()) {
  }
  session.reset();
  EXPECT_EQ(server.device.memory().usage().free_bytes(), free_bytes);
}

}  // namespace
}  // namespace gemmd
