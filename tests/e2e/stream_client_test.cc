// The client library's streams against a real server: the same bits as in one call, whatever
// the chunks, the connections and the company.
#include <csignal>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "client/client.h"
#include "gtest/gtest.h"
#include "tests/testing/server_process.h"

namespace gemmd {
namespace {

using client::CallOptions;
using client::Client;
using client::ClientOptions;
using client::MatmulInputs;
using client::MatmulOptions;
using client::Matrix;
using client::MatrixFormat;
using client::Product;
using client::Transport;

Matrix RandomF32(std::uint64_t rows, std::uint64_t columns, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(rows * columns);
  for (float& value : values) value = normal(random);
  return *Matrix::Create(
      MatrixFormat{DataType::kF32, rows, columns, Order::kRowMajor, 0},
      std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
}

MatmulInputs Inputs(std::uint64_t m, std::uint64_t n, std::uint64_t k, std::uint64_t seed) {
  MatmulInputs inputs{RandomF32(m, k, seed), RandomF32(k, n, seed + 1)};
  inputs.bias = RandomF32(1, n, seed + 2);
  return inputs;
}

CallOptions Over(Transport transport, int channels = 1, std::uint64_t chunk_bytes = 0) {
  CallOptions call;
  call.route = client::RouteOptions{transport, channels, chunk_bytes};
  return call;
}

class StreamClientTest : public ::testing::Test {
 protected:
  explicit StreamClientTest(std::vector<std::string> flags = {"--cpu.threads=2",
                                                              "--limits.chunk-bytes=65536"})
      : server_(std::move(flags)) {
    ClientOptions options;
    options.channel.target = server_.address();
    options.channel.own_connection = true;
    client_ = std::make_unique<Client>(options);
  }

  // The server keeps nothing when nothing is in flight.
  void ExpectNothingLeft() {
    while (client_->Statistics()->reserved_bytes() != 0) {
    }
  }

  testing::ServerProcess server_;
  std::unique_ptr<Client> client_;
};

TEST_F(StreamClientTest, GivesTheBitsOfACall) {
  std::mt19937_64 random(1);
  MatmulOptions options;
  options.activation = Activation::kGeluTanh;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const MatmulInputs inputs =
        Inputs(1 + random() % 300, 1 + random() % 300, 1 + random() % 300, seed);
    const auto unary = client_->Matmul(inputs, options, Over(Transport::kUnary));
    ASSERT_TRUE(unary.ok()) << unary.status();
    for (const int channels : {1, 3}) {
      const auto streamed = client_->Matmul(
          inputs, options, Over(Transport::kStream, channels, 1000 + random() % 100000));
      ASSERT_TRUE(streamed.ok()) << streamed.status();
      EXPECT_EQ(streamed->receipt.route.transport, Transport::kStream);
      EXPECT_EQ(streamed->d->bytes(), unary->d->bytes());
      EXPECT_EQ(streamed->receipt.server.payload_bytes_in(),
                unary->receipt.server.payload_bytes_in());
    }
  }
  ExpectNothingLeft();
}

TEST_F(StreamClientTest, WithoutASumThereIsCAndTheBias) {
  MatmulInputs inputs = Inputs(5, 7, 0, 1);
  inputs.c = RandomF32(5, 7, 4);
  MatmulInputs zeros = inputs;
  zeros.a = *Matrix::Create(MatrixFormat{DataType::kF32, 5, 1}, std::string(20, '\0'));
  zeros.b = *Matrix::Create(MatrixFormat{DataType::kF32, 1, 7}, std::string(28, '\0'));
  MatmulOptions options;
  options.alpha = 3;
  options.beta = -0.3;
  options.activation = Activation::kSilu;
  const auto expected = client_->Matmul(zeros, options);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const Transport transport : {Transport::kUnary, Transport::kStream}) {
    const auto product = client_->Matmul(inputs, options, Over(transport));
    ASSERT_TRUE(product.ok()) << product.status();
    EXPECT_EQ(product->d->bytes(), expected->d->bytes());
    EXPECT_EQ(product->receipt.server.payload_bytes_in(), (5U * 7 + 7) * sizeof(float));
  }
  ExpectNothingLeft();
}

TEST_F(StreamClientTest, ManyInFlightEachGetTheirOwn) {
  constexpr int kCalls = 100;
  std::vector<MatmulInputs> inputs;
  std::vector<std::string> right;
  for (int i = 0; i < 10; ++i) {
    inputs.push_back(Inputs(1 + 11 * i, 40 + i, 1 + 9 * i, 3 * i));
    const auto unary = client_->Matmul(inputs.back(), {}, Over(Transport::kUnary));
    ASSERT_TRUE(unary.ok()) << unary.status();
    right.emplace_back(unary->d->bytes());
  }
  std::vector<std::promise<absl::StatusOr<Product>>> results(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    client_->MatmulAsync(inputs[i % 10], {}, Over(Transport::kStream, 1 + i % 3, 4096),
                         [&result = results[i]](absl::StatusOr<Product> product) {
                           result.set_value(std::move(product));
                         });
  }
  for (int i = 0; i < kCalls; ++i) {
    const auto product = results[i].get_future().get();
    ASSERT_TRUE(product.ok()) << product.status();
    EXPECT_EQ(product->d->bytes(), right[i % 10]);
  }
  ExpectNothingLeft();
}

TEST_F(StreamClientTest, RefusalsAreThoseOfACall) {
  MatmulInputs inputs{RandomF32(3, 4, 1), RandomF32(5, 6, 2)};
  const absl::Status unary = client_->Matmul(inputs, {}, Over(Transport::kUnary)).status();
  EXPECT_EQ(unary.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client_->Matmul(inputs, {}, Over(Transport::kStream)).status(), unary);
  EXPECT_EQ(client_->Matmul(inputs, {}, Over(Transport::kStream, 2, 16)).status(), unary);
  ExpectNothingLeft();
}

TEST_F(StreamClientTest, CancellingLeavesNothingBehind) {
  const MatmulInputs inputs = Inputs(400, 400, 400, 1);
  for (int i = 0; i < 20; ++i) {
    std::promise<absl::Status> ended;
    const auto pending = client_->MatmulAsync(
        inputs, {}, Over(Transport::kStream, 1 + i % 2, 4096),
        [&ended](const absl::StatusOr<Product>& product) { ended.set_value(product.status()); });
    pending->Cancel();
    const absl::Status status = ended.get_future().get();
    EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
  }
  EXPECT_TRUE(client_->Matmul(inputs, {}, Over(Transport::kStream)).ok());
  ExpectNothingLeft();
}

TEST_F(StreamClientTest, AKilledServerIsUnavailable) {
  EXPECT_TRUE(client_->Matmul(Inputs(9, 9, 9, 1), {}, Over(Transport::kStream, 2, 64)).ok());
  std::promise<absl::Status> ended;
  client_->MatmulAsync(
      Inputs(700, 700, 700, 1), {}, Over(Transport::kStream, 2, 4096),
      [&ended](const absl::StatusOr<Product>& product) { ended.set_value(product.status()); });
  server_.Signal(SIGKILL);
  const absl::Status status = ended.get_future().get();
  EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
}

class SmallMessages : public StreamClientTest {
 protected:
  SmallMessages() : StreamClientTest({"--cpu.threads=2", "--limits.message-bytes=2097152"}) {}
};

TEST_F(SmallMessages, DoNotBoundWhatIsStreamed) {
  const MatmulInputs inputs = Inputs(1200, 600, 700, 1);  // 5 MB
  EXPECT_EQ(client_->Matmul(inputs, {}, Over(Transport::kUnary)).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto one = client_->Matmul(inputs, {}, Over(Transport::kStream));
  const auto chosen = client_->Matmul(inputs, {});
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_TRUE(chosen.ok()) << chosen.status();
  EXPECT_EQ(chosen->receipt.route.transport, Transport::kStream);
  EXPECT_EQ(one->d->bytes(), chosen->d->bytes());
}

}  // namespace
}  // namespace gemmd
