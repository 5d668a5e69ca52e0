// Products over streams and real sockets, against a server of the generated messages.
#include <future>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/recording_timer.h"
#include "tests/client/testing/stream_server.h"

namespace gemmd::client {
namespace {

using ::gemmd::testing::RecordingTimer;
using ::gemmd::testing::ScriptedProduct;
using ::gemmd::testing::StreamPeer;
using ::gemmd::testing::StreamServer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Matrix Filled(std::uint64_t rows, std::uint64_t columns, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(rows * columns, 0);
  for (char& byte : bytes) byte = static_cast<char>(random());
  return *Matrix::Create(MatrixFormat{DataType::kInt8, rows, columns, Order::kRowMajor, 0},
                         std::move(bytes));
}

MatmulInputs Square(std::uint64_t n, std::uint64_t seed = 1) {
  return MatmulInputs{Filled(n, n, seed), Filled(n, n, seed + 1)};
}

std::string Right(const MatmulInputs& inputs) {
  const Matrix& a = std::get<InlineOperand>(inputs.a).data;
  const Matrix& b = std::get<InlineOperand>(inputs.b).data;
  return ScriptedProduct(absl::StrCat(a.bytes(), b.bytes()), a.format().rows * b.format().columns);
}

class StreamClientTest : public ::testing::Test {
 protected:
  StreamClientTest() { options_.output_type = DataType::kInt8; }

  ClientOptions Options(int channels = 1, std::uint64_t chunk_bytes = 1000) {
    ClientOptions options;
    options.channel.target = server_.target();
    options.channel.own_connection = true;
    options.retry.jitter = 0;
    options.timer = timer_;
    options.route.transport = Transport::kStream;
    options.route.channels = channels;
    options.route.chunk_bytes = chunk_bytes;
    return options;
  }
  void ExpectNoFaults() {
    server_.With([](StreamPeer& peer) { EXPECT_THAT(peer.faults(), IsEmpty()); });
  }

  MatmulOptions options_;
  StreamServer server_;
  std::shared_ptr<RecordingTimer> timer_ = std::make_shared<RecordingTimer>();
};

TEST_F(StreamClientTest, ProductsOfAllSizesOverOneAndSeveralConnections) {
  for (const int channels : {1, 2, 5}) {
    SCOPED_TRACE(channels);
    Client client(Options(channels));
    for (const std::uint64_t n : {1, 10, 22, 23, 100, 300}) {
      const MatmulInputs inputs = Square(n);
      const auto product = client.Matmul(inputs, options_);
      ASSERT_TRUE(product.ok()) << product.status();
      EXPECT_EQ(product->d->bytes(), Right(inputs));
      EXPECT_EQ(product->receipt.route.transport, Transport::kStream);
      EXPECT_EQ(product->receipt.route.channels, channels);
      EXPECT_EQ(product->receipt.client.attempts, 1);
      EXPECT_GT(product->receipt.client.round_trip, absl::ZeroDuration());
    }
  }
  EXPECT_LE(server_.streams(), 1 + 2 + 5);  // fewer where the work was done before all connected
  ExpectNoFaults();
}

TEST_F(StreamClientTest, ManyAtOnceEachGetTheirOwn) {
  constexpr int kCalls = 200;
  std::vector<MatmulInputs> inputs;
  for (int i = 0; i < kCalls; ++i) {
    inputs.push_back(Square(1 + static_cast<std::uint64_t>(i * i) % 97, 2 * i));
  }
  for (const int channels : {1, 4}) {
    std::vector<std::promise<std::string>> results(kCalls);
    {
      Client client(Options(channels));
      for (int i = 0; i < kCalls; ++i) {
        client.MatmulAsync(inputs[i], options_, {},
                           [&result = results[i]](absl::StatusOr<Product> product) {
                             result.set_value(product.ok() ? std::string(product->d->bytes())
                                                           : product.status().ToString());
                           });
      }
      // Its end waits for them all.
    }
    for (int i = 0; i < kCalls; ++i) EXPECT_EQ(results[i].get_future().get(), Right(inputs[i]));
  }
  ExpectNoFaults();
}

TEST_F(StreamClientTest, WhatTheCallbacksOfOneMessageStartLeavesInOneMessage) {
  server_.With([](StreamPeer& peer) { peer.together = 5; });
  const MatmulInputs inputs = Square(3);
  std::vector<std::promise<std::string>> results(5);
  {
    Client client(Options());
    for (std::promise<std::string>& result : results) {
      client.MatmulAsync(inputs, options_, {}, [&](const absl::StatusOr<Product>& first) {
        EXPECT_TRUE(first.ok()) << first.status();
        client.MatmulAsync(inputs, options_, {}, [&result](const absl::StatusOr<Product>& second) {
          result.set_value(second.ok() ? std::string(second->d->bytes()) : "");
        });
      });
    }
    for (std::promise<std::string>& result : results) {
      EXPECT_EQ(result.get_future().get(), Right(inputs));
    }
  }
  // One by one at first, when it is not known that the server reads batches.
  server_.With([](StreamPeer& peer) {
    EXPECT_THAT(peer.begins_of_messages(), ElementsAre(1, 1, 1, 1, 1, 5));
  });
  ExpectNoFaults();
}

TEST_F(StreamClientTest, RetriesAsTheServerAsksWithoutPayload) {
  int refusals = 0;
  server_.With([&refusals](StreamPeer& peer) {
    peer.refuse = [&refusals](const auto&) {
      std::optional<v1::MatmulStreamResponse::Finished> refusal;
      if (refusals++ < 2) {
        refusal.emplace();
        refusal->set_code(8);
        refusal->set_message("full");
        refusal->set_retry_after_ms(1234);
      }
      return refusal;
    };
  });
  Client client(Options());
  const MatmulInputs inputs = Square(50);
  const auto product = client.Matmul(inputs, options_);
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_EQ(product->d->bytes(), Right(inputs));
  EXPECT_THAT(timer_->delays, ElementsAre(absl::Milliseconds(1234), absl::Milliseconds(1234)));
  EXPECT_EQ(product->receipt.client.attempts, 3);
  server_.With([](StreamPeer& peer) {
    EXPECT_EQ(peer.begins(), 3);
    EXPECT_EQ(peer.payload_bytes(), 2U * 50 * 50);
  });
  EXPECT_EQ(server_.streams(), 1);
}

TEST_F(StreamClientTest, ABrokenStreamIsReplacedAndTheRequestSentAgain) {
  server_.With([](StreamPeer& peer) { peer.hold_begins = 1; });
  Client client(Options(3));
  const MatmulInputs inputs = Square(50);
  std::promise<absl::StatusOr<Product>> result;
  client.MatmulAsync(inputs, options_, {}, [&result](absl::StatusOr<Product> product) {
    result.set_value(std::move(product));
  });
  server_.WaitUntil([](const StreamPeer& peer) { return peer.payload_bytes() > 2000; });
  server_.EndStreams(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the device is lost"));
  const auto product = result.get_future().get();
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_EQ(product->d->bytes(), Right(inputs));
  EXPECT_EQ(product->receipt.client.attempts, 2);
}

TEST_F(StreamClientTest, AServerThatDiesIsUnavailable) {
  auto dying = std::make_unique<StreamServer>();
  dying->With([](StreamPeer& peer) { peer.hold_begins = StreamPeer::kHoldAll; });
  ClientOptions options = Options(2);
  options.channel.target = dying->target();
  Client client(options);
  std::promise<absl::StatusOr<Product>> result;
  client.MatmulAsync(Square(50), options_, {}, [&result](absl::StatusOr<Product> product) {
    result.set_value(std::move(product));
  });
  dying->WaitUntil([](const StreamPeer& peer) { return peer.in_flight() == 1; });
  dying.reset();
  EXPECT_EQ(result.get_future().get().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(timer_->delays.size(), RetryPolicy().max_attempts - 1U);
}

TEST_F(StreamClientTest, CancellingOneLeavesTheRest) {
  server_.With([](StreamPeer& peer) { peer.hold_begins = StreamPeer::kHoldAll; });
  Client client(Options(2));
  std::vector<std::promise<absl::StatusOr<Product>>> results(3);
  std::vector<std::shared_ptr<PendingMatmul>> pending;
  for (auto& result : results) {
    pending.push_back(client.MatmulAsync(
        Square(50), options_, {},
        [&result](absl::StatusOr<Product> product) { result.set_value(std::move(product)); }));
  }
  server_.WaitUntil([](const StreamPeer& peer) { return peer.payload_bytes() == 3U * 5000; });
  pending[1]->Cancel();
  EXPECT_EQ(results[1].get_future().get().status().code(), absl::StatusCode::kCancelled);
  server_.WaitUntil([](const StreamPeer& peer) { return peer.cancels() == 1; });
  pending[1]->Cancel();
  server_.With([](StreamPeer& peer) { EXPECT_EQ(peer.in_flight(), 2U); });
  pending[0]->Cancel();
  pending[2]->Cancel();
  EXPECT_EQ(results[0].get_future().get().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(results[2].get_future().get().status().code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(timer_->delays, IsEmpty());
}

// The server never answers, so nothing but the deadline can end the request.
TEST_F(StreamClientTest, ADeadlineEndsTheRequestAlone) {
  server_.With([](StreamPeer& peer) { peer.hold_begins = StreamPeer::kHoldAll; });
  Client client(Options());
  CallOptions call;
  call.timeout = absl::Milliseconds(1);
  EXPECT_EQ(client.Matmul(Square(5), options_, call).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  server_.With([](StreamPeer& peer) { peer.hold_begins = 0; });
  call.timeout = absl::Minutes(10);
  EXPECT_TRUE(client.Matmul(Square(5), options_, call).ok());
  server_.With([](StreamPeer& peer) {
    EXPECT_GT(peer.last_header().timeout_us(), 500000000U);
    EXPECT_LE(peer.last_header().timeout_us(), 600000000U);
  });
  EXPECT_EQ(server_.streams(), 1);
}

TEST_F(StreamClientTest, WhereJoinsAreRefusedOneConnectionServes) {
  // HAProxy says CANCELLED, whatever the server said.
  for (const grpc::StatusCode code : {grpc::StatusCode::NOT_FOUND, grpc::StatusCode::CANCELLED}) {
    server_.RefuseJoins(grpc::Status(code, "no such session"));
    server_.With([](StreamPeer& peer) { peer.hold_opened = true; });
    Client client(Options(3));
    const MatmulInputs inputs = Square(50);
    for (int i = 0; i < 2; ++i) {
      const auto product = client.Matmul(inputs, options_);
      ASSERT_TRUE(product.ok()) << product.status();
      EXPECT_EQ(product->d->bytes(), Right(inputs));
      EXPECT_EQ(product->receipt.client.attempts, 2 - i);
      EXPECT_EQ(product->receipt.route.channels, 1);
    }
  }
}

TEST_F(StreamClientTest, NobodyListeningIsUnavailable) {
  ClientOptions options = Options(2);
  options.channel.target = "127.0.0.1:1";
  Client client(options);
  const absl::Status status = client.Matmul(Square(5), options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Connection refused"));
  EXPECT_EQ(timer_->delays.size(), RetryPolicy().max_attempts - 1U);
}

TEST_F(StreamClientTest, LeftToTheRuleSmallOnesAreCallsAndLargeOnesStream) {
  ClientOptions options = Options();
  options.route = RouteOptions();
  options.retry.max_attempts = 1;
  Client client(options);
  // This server has no calls, only streams.
  EXPECT_EQ(client.Matmul(Square(10), options_).status().code(), absl::StatusCode::kUnimplemented);
  server_.With([](StreamPeer& peer) { peer.result_chunk_bytes = 1 << 20; });
  MatmulInputs inputs{Filled(1, 5 << 20, 1), Filled(5 << 20, 1, 2)};
  const auto product = client.Matmul(inputs, options_);
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_EQ(product->receipt.route.transport, Transport::kStream);
  EXPECT_EQ(product->d->bytes(), Right(inputs));
  ExpectNoFaults();
}

// The error is one request's; it must not be taken for a server without streams.
TEST_F(StreamClientTest, AFeatureThatIsNotBuiltIsTheRequestsOwnError) {
  server_.With([](StreamPeer& peer) {
    peer.refuse = [](const auto&) {
      v1::MatmulStreamResponse::Finished refusal;
      refusal.set_code(12);
      refusal.set_message("a.zero_points are not built");
      return std::optional(refusal);
    };
  });
  Client client(Options());
  const absl::Status status = client.Matmul(Square(5), options_).status();
  EXPECT_EQ(status, absl::UnimplementedError("a.zero_points are not built"));
}

}  // namespace
}  // namespace gemmd::client
