#include "server/transfer/matmul_session.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "server/scheduling/draining.h"
#include "server/transfer/session_registry.h"
#include "tests/server/transfer/session_events.h"
#include "tests/server/transfer/session_play.h"

namespace gemmd {
namespace {

using testing::Header;
using testing::Next;
using testing::PlaySession;
using testing::Receive;
using testing::Server;
using testing::SmallOptions;

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
  server.clock.Advance(3 * kMillisecond);
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
  EXPECT_EQ(receive.end - receive.start, 3 * kMillisecond);
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

// Many threads use one session at once, for the sanitizers.
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
