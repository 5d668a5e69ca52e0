// The client library and the load generator over memory shared with a real server.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/load/clock.h"
#include "client/load/load_generator.h"
#include "client/load/results/summary.h"
#include "client/load/transport/matmul_transport.h"
#include "client/shared_region.h"
#include "gtest/gtest.h"
#include "tests/testing/server_process.h"

namespace gemmd {
namespace {

using client::Client;
using client::Matrix;
using client::MatrixFormat;
using client::Product;
using client::SharedOperand;
using client::SharedRegion;

std::string RandomBytes(std::uint64_t floats, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::string bytes(floats * sizeof(float), '\0');
  for (std::uint64_t i = 0; i < floats; ++i) {
    const float value = normal(random);
    std::memcpy(bytes.data() + i * sizeof(float), &value, sizeof(float));
  }
  return bytes;
}

class SharedClientTest : public ::testing::Test {
 protected:
  SharedClientTest()
      : server_({"--cpu.threads=1", "--shared-memory.name-prefix=gemmd-",
                 "--shared-memory.max-bytes=16777216"}),
        channel_(server_.NewChannel()) {
    options_.channel.target = server_.address();
    client_ = std::make_unique<Client>(options_);
  }

  testing::ServerProcess server_;
  std::shared_ptr<grpc::Channel> channel_;
  client::ClientOptions options_;
  std::unique_ptr<Client> client_;
};

TEST_F(SharedClientTest, TheProductIsTheRegionsOwnMemoryWithTheBitsOfACall) {
  const MatrixFormat a{DataType::kF32, 70, 50};
  const MatrixFormat b{DataType::kF32, 50, 90};
  const MatrixFormat c{DataType::kF32, 70, 90};
  const std::string a_bytes = RandomBytes(70 * 50, 1);
  const std::string b_bytes = RandomBytes(50 * 90, 2);
  const std::string c_bytes = RandomBytes(70 * 90, 3);
  client::MatmulOptions options;
  options.beta = 0.5;
  client::MatmulInputs sent{*Matrix::Create(a, a_bytes), *Matrix::Create(b, b_bytes)};
  sent.c = *Matrix::Create(c, c_bytes);
  const absl::StatusOr<Product> expected = client_->Matmul(sent, options);
  ASSERT_TRUE(expected.ok()) << expected.status();

  absl::StatusOr<std::unique_ptr<SharedRegion>> created =
      SharedRegion::Create(channel_, a_bytes.size() + b_bytes.size() + c_bytes.size());
  ASSERT_TRUE(created.ok()) << created.status();
  std::shared_ptr<SharedRegion> region = *std::move(created);
  const std::uint64_t c_at = a_bytes.size() + b_bytes.size();
  std::memcpy(region->data(), a_bytes.data(), a_bytes.size());
  std::memcpy(region->data() + a_bytes.size(), b_bytes.data(), b_bytes.size());
  std::memcpy(region->data() + c_at, c_bytes.data(), c_bytes.size());
  // C is updated in place, as in BLAS.
  client::MatmulInputs inputs{SharedOperand{client::PlaceIn(region, 0), a},
                              SharedOperand{client::PlaceIn(region, a_bytes.size()), b},
                              SharedOperand{client::PlaceIn(region, c_at), c}};
  options.destination = client::PlaceIn(region, c_at);
  const absl::StatusOr<Product> product = client_->Matmul(inputs, options);
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_EQ(product->d->bytes().data(), region->data() + c_at);
  EXPECT_TRUE(product->d->bytes() == expected->d->bytes());
  EXPECT_EQ(product->receipt.server.payload_bytes_in(), 0);
  EXPECT_EQ(product->receipt.server.payload_bytes_out(), 0);
  EXPECT_EQ(product->receipt.server.shared_bytes_in(), c_at + c_bytes.size());
  EXPECT_EQ(product->receipt.server.shared_bytes_out(), c_bytes.size());
  EXPECT_TRUE(region->Renew().ok());

  // The region outlives its last name here, because the product is its memory.
  inputs = sent;
  options = {};
  region.reset();
  EXPECT_TRUE(product->d->bytes() == expected->d->bytes());
  EXPECT_EQ(client_->Statistics()->shared_memory().regions(), 1);
  EXPECT_EQ(client_->ServerInfo()->shared_memory_prefix(), "gemmd-");
}

// The server puts its own copy in the resident's order of K, and never the client's memory.
TEST_F(SharedClientTest, AnOperandIsPutInTheOrderOfAResident) {
  const MatrixFormat a{DataType::kF32, 6, 32};
  const std::string a_bytes = RandomBytes(6 * 32, 1);
  client::InlineOperand b(
      *Matrix::Create(MatrixFormat{DataType::kInt8, 5, 32}, std::string(160, 3)),
      *Matrix::Create(MatrixFormat{DataType::kF32, 5, 2}, RandomBytes(10, 2)));
  b.blocks = BlockScaling{16, 1, false};
  std::vector<std::uint32_t> order(32);
  for (std::uint32_t i = 0; i < 32; ++i) order[i] = (i * 5 + 3) % 32;
  b.k_order = std::make_shared<const std::vector<std::uint32_t>>(order);
  client::MatmulOptions options;
  options.transpose_b = true;
  const auto expected = client_->Matmul({*Matrix::Create(a, a_bytes), b}, options);
  ASSERT_TRUE(expected.ok()) << expected.status();

  absl::StatusOr<std::unique_ptr<SharedRegion>> created =
      SharedRegion::Create(channel_, a_bytes.size());
  ASSERT_TRUE(created.ok()) << created.status();
  std::shared_ptr<SharedRegion> region = *std::move(created);
  std::memcpy(region->data(), a_bytes.data(), a_bytes.size());
  const auto source = client::OperandSource::Create(b);
  ASSERT_TRUE(source.ok()) << source.status();
  for (int i = 0; i < 2; ++i) {
    const auto product =
        client_->Matmul({SharedOperand{client::PlaceIn(region, 0), a}, *source}, options);
    ASSERT_TRUE(product.ok()) << product.status();
    EXPECT_TRUE(product->d->bytes() == expected->d->bytes());
  }
  EXPECT_EQ(std::string(region->data(), a_bytes.size()), a_bytes);
}

TEST_F(SharedClientTest, EachOperandMayLieElsewhereAndGoOverAStream) {
  const MatrixFormat a{DataType::kF32, 70, 50};
  const MatrixFormat b{DataType::kF32, 50, 90};
  const Matrix right = *Matrix::Create(b, RandomBytes(50 * 90, 2));
  absl::StatusOr<std::unique_ptr<SharedRegion>> created = SharedRegion::Create(channel_, 1 << 20);
  ASSERT_TRUE(created.ok()) << created.status();
  const std::shared_ptr<SharedRegion> region = *std::move(created);
  const std::string a_bytes = RandomBytes(70 * 50, 1);
  std::memcpy(region->data(), a_bytes.data(), a_bytes.size());
  const SharedOperand left{client::PlaceIn(region, 0), a};
  const absl::StatusOr<Product> expected =
      client_->Matmul({*Matrix::Create(a, a_bytes), right}, {});
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const auto transport : {client::Transport::kUnary, client::Transport::kStream}) {
    client::CallOptions call;
    call.route.emplace().transport = transport;
    for (const client::Operand& factor :
         {client::Operand(right), client::Operand(*client::OperandSource::Create(right))}) {
      client::MatmulOptions options;
      absl::StatusOr<Product> product = client_->Matmul({left, factor}, options, call);
      ASSERT_TRUE(product.ok()) << product.status();
      EXPECT_TRUE(product->d->bytes() == expected->d->bytes());
      options.destination = client::PlaceIn(region, 65536);
      product = client_->Matmul({left, factor}, options, call);
      ASSERT_TRUE(product.ok()) << product.status();
      EXPECT_EQ(product->d->bytes().data(), region->data() + 65536);
      EXPECT_TRUE(product->d->bytes() == expected->d->bytes());
      options.destination = client::KeepResult();
      product = client_->Matmul({left, factor}, options, call);
      ASSERT_TRUE(product.ok()) << product.status();
      EXPECT_FALSE(product->d.has_value());
      EXPECT_NE(product->handle, "");
      EXPECT_EQ(product->receipt.route.transport, transport);
    }
  }
}

TEST_F(SharedClientTest, ARegionTooSmallForDIsRefused) {
  const MatrixFormat format{DataType::kF32, 8, 8};
  absl::StatusOr<std::unique_ptr<SharedRegion>> created = SharedRegion::Create(channel_, 3 * 256);
  ASSERT_TRUE(created.ok()) << created.status();
  const std::shared_ptr<SharedRegion> region = *std::move(created);
  for (const std::uint64_t offset : {std::uint64_t{513}, std::uint64_t{100000}}) {
    client::MatmulOptions options;
    options.destination = client::PlaceIn(region, offset);
    const absl::StatusOr<Product> product =
        client_->Matmul({SharedOperand{client::PlaceIn(region, 0), format},
                         SharedOperand{client::PlaceIn(region, 256), format}},
                        options);
    EXPECT_EQ(product.status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(SharedClientTest, RegionsAreGoneWithTheirOwner) {
  // Two do not fit at a time. A name does not stay: its owner may be killed at any moment.
  for (int i = 0; i < 3; ++i) {
    const auto region = SharedRegion::Create(channel_, 9 << 20);
    ASSERT_TRUE(region.ok()) << region.status();
    EXPECT_EQ(SharedRegion::Create(channel_, 9 << 20).status().code(),
              absl::StatusCode::kResourceExhausted);
    const std::string name = "/" + (*region)->name();
    EXPECT_LT(shm_open(name.c_str(), O_RDWR, 0), 0);
    EXPECT_EQ(errno, ENOENT);
  }
  client::SharedRegionOptions other;
  other.name_prefix = "other-";
  EXPECT_EQ(SharedRegion::Create(channel_, 4096, other).status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(SharedClientTest, TheLoadGeneratorsRequestsTakeTurnsAndAreRight) {
  load::WorkloadFile file;
  load::RequestSpec& spec = *file.add_request();
  spec.set_m(40);
  spec.set_n(60);
  spec.set_k(33);
  spec.set_operands("shared-memory");
  const absl::StatusOr<load::Workload> workload = load::MakeWorkload(file);
  ASSERT_TRUE(workload.ok()) << workload.status();
  load::MatmulTransportOptions options;
  options.channel.target = server_.address();
  options.verify_fraction = 1;
  options.in_flight = 2;
  options.payload_bytes = 1;  // no bound for them
  const auto transport = load::MatmulTransport::Create(*workload, options);
  ASSERT_TRUE(transport.ok()) << transport.status();
  load::LoadOptions load;
  load.arrivals.emplace();
  load.arrivals->kind = load::ArrivalKind::kReplay;
  load.arrivals->replay_ns.assign(60, 0);
  load.warm_up_ns = 0;
  load.tick_ns = 1000000;
  load::SteadyClock clock;
  const auto run = load::GenerateLoad(load, {1}, clock, **transport);
  ASSERT_TRUE(run.ok()) << run.status();
  const load::Summary summary = load::Summarize(*run, {(*workload)[0].cost()});
  const load::Findings findings = (*transport)->TakeFindings();
  EXPECT_EQ(summary.ok, 60U) << findings.first_errors.size();
  EXPECT_EQ(findings.verified, 60U);
  EXPECT_EQ(findings.wrong, 0U) << findings.first_wrong;
  EXPECT_EQ(client_->Statistics()->payload_bytes_in(), 0);
  EXPECT_EQ(client_->Statistics()->payload_bytes_out(), 0);
  const load::EntryCost cost = (*workload)[0].cost();
  EXPECT_EQ(client_->Statistics()->shared_memory().bytes_in(), 60 * cost.bytes_in);
  EXPECT_EQ(client_->Statistics()->shared_memory().bytes_out(), 60 * cost.bytes_out);
  EXPECT_EQ(client_->Statistics()->shared_memory().regions(), 2);
}

}  // namespace
}  // namespace gemmd
