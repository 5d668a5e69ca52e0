// One product over several real servers, of which one is killed, is stopped, or computes otherwise.
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/details.h"
#include "client/quantized/quantize.h"
#include "client/split/split_matmul.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/server_process.h"

namespace gemmd::client {
namespace {

using ::gemmd::testing::ServerProcess;
using ::testing::SizeIs;

// Numbers whose sums f32 rounds: bits tell how they were added.
Matrix Random(std::uint64_t rows, std::uint64_t columns, unsigned seed,
              Order order = Order::kRowMajor) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::string bytes(rows * columns * sizeof(float), '\0');
  for (std::uint64_t i = 0; i < rows * columns; ++i) {
    const float value = normal(random);
    std::memcpy(bytes.data() + i * sizeof(float), &value, sizeof(float));
  }
  return *Matrix::Create(MatrixFormat{DataType::kF32, rows, columns, order, 0}, std::move(bytes));
}

class SplitTest : public ::testing::Test {
 protected:
  SplitTest() {
    policy_.cut.tile_rows = 8;
    policy_.cut.least_part_flops = 1;
    policy_.hedge.most_parts = 0;  // none because this machine is busy
  }

  void Start(const std::vector<std::string>& devices) {
    for (const std::string& device : devices) {
      servers_.push_back(std::make_unique<ServerProcess>(
          std::vector<std::string>{"--cpu.threads=1", "--device=" + device}));
      ASSERT_NE(address(servers_.size() - 1), "") << servers_.back()->log();
      options_.servers.push_back(address(servers_.size() - 1));
    }
  }

  const std::string& address(std::size_t i) const { return servers_[i]->address(); }

  // D as the server of that number alone computes it.
  static std::string Whole(const std::string& server, const MatmulInputs& inputs,
                           const MatmulOptions& options = {}) {
    ClientOptions one;
    one.channel.target = server;
    Client client(one);
    const auto product = client.Matmul(inputs, options);
    EXPECT_TRUE(product.ok()) << product.status();
    return product.ok() ? std::string(product->d->bytes()) : std::string();
  }

  // Returns when none of its threads runs any more.
  static void Stop(ServerProcess& server) {
    server.Signal(SIGSTOP);
    int status = 0;
    EXPECT_EQ(waitpid(server.pid(), &status, WUNTRACED), server.pid());
    EXPECT_TRUE(WIFSTOPPED(status));
  }

  std::vector<std::unique_ptr<ServerProcess>> servers_;
  ClientOptions options_;
  SplitPolicy policy_;
};

TEST_F(SplitTest, HasTheBitsOfOneServersProduct) {
  Start({"cpu", "cpu", "cpu"});
  for (const Transport transport : {Transport::kUnary, Transport::kStream}) {
    options_.route.transport = transport;
    Client client(options_);
    struct Case {
      std::string name;
      MatmulInputs inputs;
      MatmulOptions options;
    };
    const Matrix b = Random(96, 80, 2);
    std::vector<Case> cases;
    for (const std::uint64_t rows : {1, 17, 24, 100, 129}) {
      cases.push_back({std::to_string(rows) + " rows", {Random(rows, 96, 1), b}, {}});
    }
    cases.push_back({"columns", {Random(100, 96, 1, Order::kColumnMajor), b}, {}});
    cases.push_back({"transposed", {Random(96, 100, 1), Random(80, 96, 2)}, {}});
    cases.back().options.transpose_a = true;
    cases.back().options.transpose_b = true;
    cases.push_back({"everything", {Random(100, 96, 1), b}, {}});
    cases.back().inputs.c = Random(100, 80, 3);
    cases.back().inputs.bias = Random(1, 80, 4);
    cases.back().options.alpha = 0.3;
    cases.back().options.beta = 0.7;
    cases.back().options.activation = Activation::kGeluTanh;
    for (const Case& each : cases) {
      const std::string whole = Whole(address(0), each.inputs, each.options);
      const auto product = SplitMatmul(client, each.inputs, each.options, {}, policy_);
      ASSERT_TRUE(product.ok()) << each.name << ": " << product.status();
      EXPECT_EQ(product->d.bytes(), whole) << each.name;
      std::set<std::string> used;
      for (const SplitPart& part : product->parts) {
        used.insert(part.receipt.address);
        EXPECT_FALSE(part.was_copied);
        EXPECT_EQ(part.receipt.route.transport, transport);
      }
      const std::uint64_t rows = product->d.format().rows;
      EXPECT_EQ(product->parts.size(), std::min<std::uint64_t>(3, (rows + 7) / 8)) << each.name;
      EXPECT_EQ(used.size(), product->parts.size()) << each.name;
    }
  }
}

TEST_F(SplitTest, QuantizedRowsTakeTheirScalesAlong) {
  Start({"cpu", "cpu"});
  Client client(options_);
  for (const char* format :
       {"int8-row", "int8-tensor", "uint8-g32-zp", "fp8-e4m3-1x128", "mxfp6-e3m2", "nvfp4"}) {
    const auto quantized = [&](const Matrix& matrix, Side side) {
      QuantizeRequest request;
      request.format = format;
      request.k_axis = KAxisOf(side, false);
      return *ToOperand(*QuantizeMatrix(matrix.view(), request), side);
    };
    const MatmulInputs inputs{quantized(Random(64, 256, 1), Side::kA),
                              quantized(Random(256, 32, 2), Side::kB)};
    const auto product = SplitMatmul(client, inputs, {}, {}, policy_);
    ASSERT_TRUE(product.ok()) << format << ": " << product.status();
    EXPECT_THAT(product->parts, SizeIs(2));
    EXPECT_EQ(product->d.bytes(), Whole(address(0), inputs)) << format;
  }
}

TEST_F(SplitTest, AFactorThatStaysIsSentOnceToEachServer) {
  Start({"cpu", "cpu", "cpu"});
  Client client(options_);
  const Matrix b = Random(96, 80, 2);
  const MatmulInputs inputs{Random(100, 96, 1), *OperandSource::Create(b, std::nullopt)};
  const std::string whole = Whole(address(0), {Random(100, 96, 1), b});
  for (const int refills : {1, 0, 0}) {
    const auto product = SplitMatmul(client, inputs, {}, {}, policy_);
    ASSERT_TRUE(product.ok()) << product.status();
    EXPECT_EQ(product->d.bytes(), whole);
    ASSERT_THAT(product->parts, SizeIs(3));
    for (const SplitPart& part : product->parts) EXPECT_EQ(part.receipt.client.refills, refills);
  }
  // By its digest alone, now that all have it.
  const OperandName name{{}, std::get<OperandSource>(inputs.b).digest()};
  const auto product = SplitMatmul(client, {inputs.a, name}, {}, {}, policy_);
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_EQ(product->d.bytes(), whole);
  for (const SplitPart& part : product->parts) EXPECT_TRUE(part.was_copied);
}

TEST_F(SplitTest, AServerThatIsKilledMeanwhileCostsNoProduct) {
  Start({"cpu", "cpu", "cpu"});
  Client client(options_);
  const MatmulInputs inputs{Random(200, 512, 1), Random(512, 512, 2)};
  const std::string whole = Whole(address(0), inputs);
  const auto split = [&] {
    auto product = SplitMatmul(client, inputs, {}, {}, policy_);
    EXPECT_TRUE(product.ok()) << product.status();
    EXPECT_EQ(product->d.bytes(), whole);
    return *std::move(product);
  };
  EXPECT_THAT(split().parts, SizeIs(3));
  std::thread killer([&] { servers_[1]->Signal(SIGKILL); });
  for (int i = 0; i < 20; ++i) split();
  killer.join();
  while (client.States()[1].health != Health::kNotServing) {
  }
  // Those that are left share the rows, now that the client knows.
  const SplitProduct product = split();
  EXPECT_THAT(product.parts, SizeIs(2));
  for (const SplitPart& part : product.parts) EXPECT_NE(part.receipt.address, address(1));
  for (const ServerState& state : client.States()) EXPECT_EQ(state.in_flight, 0);
}

TEST_F(SplitTest, AServerThatIsStoppedIsHedged) {
  Start({"cpu", "cpu", "cpu"});
  policy_.hedge.after_at_least = absl::Milliseconds(1);
  policy_.hedge.most_parts = 0.5;
  for (const Transport transport : {Transport::kUnary, Transport::kStream}) {
    options_.route.transport = transport;
    Client client(options_);
    const MatmulInputs inputs{Random(100, 96, 1), Random(96, 80, 2)};
    const std::string whole = Whole(address(0), inputs);
    ASSERT_TRUE(SplitMatmul(client, inputs, {}, {}, policy_).ok());
    Stop(*servers_[2]);
    const auto product = SplitMatmul(client, inputs, {}, {}, policy_);
    servers_[2]->Signal(SIGCONT);
    ASSERT_TRUE(product.ok()) << product.status();
    EXPECT_EQ(product->d.bytes(), whole);
    ASSERT_THAT(product->parts, SizeIs(3));
    EXPECT_TRUE(product->parts[2].is_hedged);
    EXPECT_NE(product->parts[2].receipt.address, address(2));
  }
}

TEST_F(SplitTest, RowsOfAServerWithOtherNumericsAreComputedAnew) {
  Start({"cpu", "emulated", "cpu"});
  Client client(options_);
  const MatmulInputs inputs{Random(24, 64, 1), Random(64, 48, 2)};
  const std::string whole = Whole(address(0), inputs);
  EXPECT_NE(Whole(address(1), inputs), whole);
  const auto product = SplitMatmul(client, inputs, {}, {}, policy_);
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_EQ(product->d.bytes(), whole);
  EXPECT_EQ(product->parts[0].repeats, 0);
  EXPECT_EQ(product->parts[1].repeats, 1);
  EXPECT_NE(product->parts[1].receipt.address, address(1));
  EXPECT_EQ(product->parts[1].receipt.server.numerics_id(), product->numerics_id());
}

TEST_F(SplitTest, AnErrorSaysWhichRowsAndWhichServer) {
  Start({"cpu", "cpu"});
  Client client(options_);
  MatmulOptions options;
  options.kernel = "sm90/imagined";
  const absl::Status status =
      SplitMatmul(client, {Random(24, 64, 1), Random(64, 48, 2)}, options, {}, policy_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), ::testing::StartsWith("rows "));
  EXPECT_NE(ServerOf(status), "");
}

}  // namespace
}  // namespace gemmd::client
