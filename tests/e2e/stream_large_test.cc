// An operand of 3 GiB, which no protobuf message can hold. Takes 7 GiB of memory and a while, so
// it is run by hand:  bazel test --config=opt --config=cpu //tests/e2e:stream_large_test
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "client/client.h"
#include "gtest/gtest.h"
#include "tests/testing/server_process.h"

namespace gemmd {
namespace {

client::Matrix RandomInt8(std::uint64_t rows, std::uint64_t columns, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(rows * columns, 0);
  for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    const std::uint64_t word = random();
    std::memcpy(&bytes[i], &word, 8);
  }
  return *client::Matrix::Create({DataType::kInt8, rows, columns, Order::kRowMajor, 0},
                                 std::move(bytes));
}

TEST(LargeOperand, ThreeGibibytesOverStreams) {
  testing::ServerProcess server({"--cpu.threads=2", "--cpu.memory-bytes=17179869184"});
  client::ClientOptions options;
  options.channel.target = server.address();
  client::Client client(options);
  constexpr std::uint64_t kRows = 49152;
  constexpr std::uint64_t kInner = 65536;
  const client::Matrix factor_a = RandomInt8(kRows, kInner, 1);
  const client::Matrix factor_b = RandomInt8(kInner, 1, 2);
  const client::MatmulInputs inputs{factor_a, factor_b};
  ASSERT_EQ(factor_a.bytes().size(), 3ULL << 30);
  for (const int channels : {0, 1}) {
    client::CallOptions call;
    call.route = client::RouteOptions{client::Transport::kAuto, channels, 0};
    const auto product = client.Matmul(inputs, {}, call);
    ASSERT_TRUE(product.ok()) << product.status();
    EXPECT_EQ(product->receipt.route.transport, client::Transport::kStream);
    EXPECT_EQ(product->receipt.server.payload_bytes_in(), (3ULL << 30) + kInner);
    std::vector<std::int32_t> d(kRows);
    ASSERT_EQ(product->d->bytes().size(), d.size() * sizeof(d[0]));
    std::memcpy(d.data(), product->d->bytes().data(), product->d->bytes().size());
    const auto* a = reinterpret_cast<const std::int8_t*>(factor_a.bytes().data());
    const auto* b = reinterpret_cast<const std::int8_t*>(factor_b.bytes().data());
    for (std::uint64_t row = 0; row < kRows; ++row) {
      std::int64_t sum = 0;
      for (std::uint64_t k = 0; k < kInner; ++k) sum += a[row * kInner + k] * b[k];
      ASSERT_EQ(d[row], static_cast<std::int32_t>(sum)) << "row " << row;
    }
    RecordProperty("round_trip_ms",
                   static_cast<int>(absl::ToInt64Milliseconds(product->receipt.client.round_trip)));
  }
}

}  // namespace
}  // namespace gemmd
