#include "server/transfer/matmul_session.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/transfer/session_registry.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_device.h"

namespace gemmd {
namespace {

constexpr TimeNs kMs = 1000000;

MatmulSession::Options SmallOptions() {
  MatmulSession::Options options;
  options.max_requests = 6;
  options.max_streams = 3;
  options.chunk_bytes = 50;
  options.small_result_bytes = 100;
  options.stall_timeout = 50 * kMs;
  return options;
}

// A server below the streams, with a device that the test drives.
struct Server {
  explicit Server(std::uint64_t memory_bytes = 1 << 20) : device(&clock, memory_bytes, 2) {
    limits.request_bytes = 1 << 30;
    limits.result_bytes = 1 << 20;
    admission =
        std::make_unique<Admission>(limits, &BuiltinRegistry(), &router, &statistics, &clock);
  }

  std::shared_ptr<MatmulSession> NewSession(
      const MatmulSession::Options& options = SmallOptions()) {
    return std::make_shared<MatmulSession>(admission.get(), &statistics, &clock, options);
  }

  testing::FakeClock clock;
  testing::FakeDevice device;
  Scheduler scheduler{&device, &clock, {4}};
  Router router{{{&device, &scheduler}}};
  Statistics statistics;
  RequestLimits limits;
  std::unique_ptr<Admission> admission;
};

RequestHeader Header(std::uint64_t id, std::uint64_t n, TimeNs now, std::uint64_t timeout_us = 0) {
  OperandSpec operand;
  operand.data = {DataType::kF32, n, n, Order::kRowMajor, 0};
  MatmulCall call;
  call.a = call.b = operand;
  RequestHeader header;
  header.request_id = id;
  header.call = call;
  header.timeout_us = timeout_us;
  header.arrival = now;
  header.decode = {Stage::kDecode, now, now};
  return header;
}

void Receive(MatmulSession* session, std::uint64_t id, OperandName operand, std::uint64_t offset,
             std::uint64_t bytes) {
  const std::string zeros(bytes, '\0');
  const absl::string_view piece = zeros;
  session->Receive(id, PayloadChunk{operand, PlaneName::kData, offset, {&piece, 1}});
}

std::uint64_t SizeOf(const HostBuffer& buffer) {
  std::uint64_t bytes = 0;
  for (const HostPiece& piece : buffer) bytes += piece.size_bytes;
  return bytes;
}

// Checks what a session sends against the contract.
class Receiver {
 public:
  // False: the stream has nothing.
  bool Fetch(MatmulSession* session, MatmulSession::StreamId stream) {
    const std::optional<Outgoing> next = session->Next(stream);
    if (!next.has_value()) return false;
    if (const auto* finished = std::get_if<RequestFinished>(&*next)) {
      EXPECT_TRUE(finished_.insert(finished->request_id).second) << "told twice";
      if (finished->status.ok()) {
        received_[finished->request_id] += SizeOf(finished->payload);
        sizes_[finished->request_id] = finished->d.size_bytes();
      }
    } else if (const auto* chunk = std::get_if<ResultChunk>(&*next)) {
      EXPECT_EQ(chunk->offset, received_[chunk->request_id]) << "out of turn";
      received_[chunk->request_id] += SizeOf(chunk->bytes);
    }
    return true;
  }

  std::size_t finished() const { return finished_.size(); }
  void ExpectWholeResults(const std::set<std::uint64_t>& cancelled) const {
    for (const auto& [id, size] : sizes_) {
      if (cancelled.count(id) == 0) {
        EXPECT_EQ(received_.at(id), size) << id;
      }
    }
  }

 private:
  std::set<std::uint64_t> finished_;
  std::map<std::uint64_t, std::uint64_t> received_;
  std::map<std::uint64_t, std::uint64_t> sizes_;
};

TEST(MatmulSession, ARequestGoesItsWay) {
  Server server;
  auto session = server.NewSession();
  int wakes = 0;
  ASSERT_EQ(*session->AddStream([&wakes] { ++wakes; }), MatmulSession::kFirst);
  RequestHeader header = Header(7, 8, server.clock.Now());
  header.await_accepted = true;
  ASSERT_TRUE(session->Begin(header).ok());
  EXPECT_GT(wakes, 0);
  EXPECT_EQ(std::get<RequestAccepted>(*session->Next(0)).request_id, 7u);
  EXPECT_FALSE(session->Next(0).has_value());
  EXPECT_EQ(server.device.memory().usage().in_flight_bytes, 3u * 256);

  Receive(session.get(), 7, OperandName::kB, 0, 256);
  Receive(session.get(), 7, OperandName::kA, 100, 156);
  server.clock.Advance(3 * kMs);
  EXPECT_EQ(server.device.running(), 0u);
  Receive(session.get(), 7, OperandName::kA, 0, 100);
  EXPECT_EQ(server.device.running(), 1u);
  Receive(session.get(), 7, OperandName::kA, 0, 100);  // late: dropped
  server.device.FinishOne();

  const auto finished = std::get<RequestFinished>(*session->Next(0));
  EXPECT_TRUE(finished.status.ok()) << finished.status;
  EXPECT_TRUE(finished.payload.empty());
  EXPECT_EQ(finished.receipt.payload_bytes_in, 512u);
  const StageSpan& receive = finished.receipt.spans[1];
  EXPECT_EQ(receive.stage, Stage::kReceive);
  EXPECT_EQ(receive.end - receive.start, 3 * kMs);
  std::uint64_t bytes = 0;
  while (const std::optional<Outgoing> chunk = session->Next(0)) {
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
  session->Next(0);
  session->Next(0);  // both Finished
  std::vector<std::uint64_t> order;
  while (const std::optional<Outgoing> chunk = session->Next(0)) {
    order.push_back(std::get<ResultChunk>(*chunk).request_id);
  }
  EXPECT_EQ(order, (std::vector<std::uint64_t>{1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2}));
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
  session->Next(0);
  EXPECT_TRUE(session->MayRead(0));
}

TEST(MatmulSession, AStreamThatIsStuckBreaksTheSession) {
  Server server;
  auto session = server.NewSession();
  ASSERT_TRUE(session->AddStream([] {}).ok());
  ASSERT_TRUE(session->AddStream([] {}).ok());
  session->Greet(1, SessionJoined());
  ASSERT_TRUE(session->Next(1).has_value());
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
  session->Next(0);
  session->Next(0);
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

// Header, chunk, cancel, disconnect and expiry in random order: whatever happens, every request
// is told at most one end, results are whole, and all memory comes back.
TEST(MatmulSession, RandomInterleavingsLeakNothing) {
  for (unsigned seed = 0; seed < 10000; ++seed) {
    std::mt19937 random(seed);
    Server server(20000);
    const std::uint64_t free_bytes = server.device.memory().usage().free_bytes();
    std::set<std::uint64_t> cancelled;
    Receiver receiver;
    std::uint64_t begun = 0;
    bool is_broken = false;
    {
      auto session = server.NewSession();
      std::size_t streams = 0;
      std::vector<std::uint64_t> sizes;
      const unsigned events = 20 + random() % 60;
      for (unsigned i = 0; i < events; ++i) {
        const std::uint64_t id = sizes.empty() ? 0 : random() % sizes.size();
        switch (streams == 0 ? 0 : random() % 14) {
          case 0:
            if (session->AddStream([] {}).ok()) ++streams;
            break;
          case 1:
          case 2: {
            const std::uint64_t n = 1 + random() % 12;
            sizes.push_back(n * n * 4);
            if (!is_broken) ++begun;
            RequestHeader header = Header(sizes.size() - 1, n, server.clock.Now(),
                                          random() % 3 == 0 ? 1000 + random() % 20000 : 0);
            header.await_accepted = random() % 2 == 0;
            if (random() % 20 == 0) header.call = absl::InvalidArgumentError("bad");
            ASSERT_TRUE(session->Begin(header).ok());
            break;
          }
          case 3:
          case 4:
          case 5: {
            if (sizes.empty()) break;
            const auto operand = random() % 2 == 0 ? OperandName::kA : OperandName::kB;
            const std::uint64_t offset = random() % 8 == 0 ? random() % sizes[id] : 0;
            Receive(session.get(), id, operand, offset, sizes[id] - offset);
            break;
          }
          case 6:
            if (sizes.empty()) break;
            session->Cancel(id);
            cancelled.insert(id);
            break;
          case 7:
            if (random() % 10 == 0) session->EndInput(random() % streams);
            break;
          case 8:
            if (random() % 30 == 0) {
              session->Break(absl::CancelledError("disconnected"));
              is_broken = true;
            }
            break;
          case 9:
            server.clock.Advance(static_cast<TimeNs>(random() % 20) * kMs);
            session->EndLate(server.clock.Now());
            is_broken = is_broken || (session->Closing().has_value() && !session->Closing()->ok());
            break;
          case 10:
          case 11:
            server.device.FinishOne(random() % 10 == 0 ? absl::UnavailableError("lost")
                                                       : absl::OkStatus());
            break;
          default:
            receiver.Fetch(session.get(), random() % streams);
        }
      }
      while (server.device.FinishOne()) {
      }
      if (streams == 0) continue;
      for (std::size_t stream = 0; stream < streams; ++stream) session->EndInput(stream);
      while (receiver.Fetch(session.get(), random() % streams) ||
             receiver.Fetch(session.get(), MatmulSession::kFirst)) {
      }
      ASSERT_TRUE(session->Closing().has_value()) << seed;
      if (!is_broken) {
        ASSERT_EQ(receiver.finished(), begun) << seed;
        receiver.ExpectWholeResults(cancelled);
      }
    }
    const Statistics::Snapshot totals = server.statistics.Read();
    ASSERT_EQ(totals.received, begun) << seed;
    ASSERT_EQ(totals.in_flight, 0u) << seed;
    ASSERT_EQ(server.device.memory().usage().free_bytes(), free_bytes) << seed;
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed;
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
        if (!session->Next(static_cast<std::size_t>(stream)).has_value()) std::this_thread::yield();
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
  while (session->Next(0).has_value()) {
  }
  session.reset();
  EXPECT_EQ(server.device.memory().usage().free_bytes(), free_bytes);
}

}  // namespace
}  // namespace gemmd
