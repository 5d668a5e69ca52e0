#include "server/transfer/matmul_session.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/transfer/session_registry.h"
#include "sync/deferral.h"
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

  Receive(session.get(), 7, OperandName::kB, 0, 256);
  Receive(session.get(), 7, OperandName::kA, 100, 156);
  server.clock.Advance(3 * kMs);
  EXPECT_EQ(server.device.running(), 0u);
  Receive(session.get(), 7, OperandName::kA, 0, 100);
  EXPECT_EQ(server.device.running(), 1u);
  Receive(session.get(), 7, OperandName::kA, 0, 100);  // late: dropped
  server.device.FinishOne();

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
    const Deferral together;
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
  server.clock.Advance(51 * kMs);
  session->EndLate(server.clock.Now());
  EXPECT_EQ(session->Closing()->message(),
            "the client did not read for 50 ms (limits.stall_timeout_ms)");
  EXPECT_EQ(session->AddStream([] {}).status().code(), absl::StatusCode::kUnavailable);
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

TEST(SessionRegistry, ForgetsSessionsThatEnded) {
  Server server;
  SessionRegistry registry(&server.clock, std::chrono::milliseconds(0));
  auto session = server.NewSession();
  registry.Add(session);
  const std::string token = registry.Open(session);
  EXPECT_EQ(token.size(), 16u);
  EXPECT_NE(registry.Open(session), token);
  EXPECT_EQ(*registry.Find(token), session);
  session.reset();
  EXPECT_EQ(registry.Find(token).status().code(), absl::StatusCode::kNotFound);
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
