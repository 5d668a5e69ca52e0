// Rows that a real server multiplies together have the bits that they have alone.
#include <algorithm>
#include <cstring>
#include <future>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/numbers/types.h"
#include "client/client.h"
#include "client/operands.h"
#include "gtest/gtest.h"
#include "tests/testing/products/matrices.h"
#include "tests/testing/server_process.h"

namespace gemmd::client {
namespace {

using Encoded = std::shared_ptr<const EncodedMatmul>;

Matrix Random(DataType type, std::uint64_t rows, std::uint64_t columns, std::uint32_t seed) {
  const MatrixFormat format{type, rows, columns};
  MatrixLayout layout;
  layout.type = type;
  layout.rows = static_cast<std::int64_t>(rows);
  layout.columns = layout.leading_dimension = static_cast<std::int64_t>(columns);
  const testing::PlaneBytes plane =
      testing::RandomPlane(layout, testing::Distribution::kNormal, seed);
  return *Matrix::Create(format, std::string(plane.data(), *SizeBytes(format)));
}

struct Case {
  DataType type;
  DataType output;
  std::uint64_t n;
  std::uint64_t k;
  int rows;  // of all requests together
};

class BatchesTest : public ::testing::Test {
 protected:
  BatchesTest() : server_({"--cpu.threads=2"}) {
    options_.channel.target = server_.address();
    client_ = std::make_unique<Client>(options_);
  }

  // Requests of random sizes, mostly small, over one B that the server holds.
  std::vector<Encoded> Requests(const Case& each, std::uint32_t seed) const {
    const Matrix b = Random(each.type, each.k, each.n, seed);
    const auto resident = Operands(options_).Put(*OperandSource::Create(b));
    EXPECT_TRUE(resident.ok()) << resident.status();
    MatmulOptions options;
    options.output_type = each.output;
    std::mt19937 random(seed);
    std::vector<Encoded> requests;
    for (int left = each.rows; left > 0;) {
      const std::uint64_t rows =
          std::min<std::uint64_t>(left, 1 + random() % (random() % 4 == 0 ? 50 : 3));
      left -= static_cast<int>(rows);
      EncodedMatmul request = *Encode(
          {Random(each.type, rows, each.k, static_cast<std::uint32_t>(random())), b}, options);
      request.header.mutable_b()->Clear();
      request.header.mutable_b()->set_handle(resident->handle());
      request.planes.resize(1);  // A's
      request.payload_bytes = request.planes[0].bytes.view().size();
      requests.push_back(std::make_shared<const EncodedMatmul>(std::move(request)));
    }
    return requests;
  }

  std::future<absl::StatusOr<Product>> Start(Encoded request, Transport transport) const {
    const auto result = std::make_shared<std::promise<absl::StatusOr<Product>>>();
    CallOptions call;
    call.route.emplace().transport = transport;
    client_->MatmulAsync(std::move(request), call, [result](absl::StatusOr<Product> product) {
      result->set_value(std::move(product));
    });
    return result->get_future();
  }

  testing::ServerProcess server_;
  ClientOptions options_;
  std::unique_ptr<Client> client_;
};

TEST_F(BatchesTest, RowsHaveTheBitsThatTheyHaveAlone) {
  std::uint32_t seed = 1;
  std::size_t shared_in_all = 0;  // how many do is the device's affair, and the load's
  for (const Case& each : {Case{DataType::kBf16, DataType::kBf16, 384, 1000, 1000},
                           Case{DataType::kF16, DataType::kF32, 136, 777, 400},
                           Case{DataType::kF32, DataType::kF32, 300, 777, 400},
                           Case{DataType::kInt8, DataType::kInt32, 320, 512, 400}}) {
    const std::vector<Encoded> requests = Requests(each, ++seed);
    std::vector<std::future<absl::StatusOr<Product>>> together;
    for (const Encoded& request : requests) {
      together.push_back(
          Start(request, together.size() % 2 == 0 ? Transport::kUnary : Transport::kStream));
    }
    std::vector<Product> batched;
    for (auto& outcome : together) {
      absl::StatusOr<Product> product = outcome.get();
      ASSERT_TRUE(product.ok()) << product.status();
      if (product->receipt.server.batch_requests() > 1) ++shared_in_all;
      batched.push_back(*std::move(product));
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const absl::StatusOr<Product> alone = Start(requests[i], Transport::kUnary).get();
      ASSERT_TRUE(alone.ok()) << alone.status();
      EXPECT_EQ(alone->receipt.server.batch_requests(), 1u);
      EXPECT_TRUE(batched[i].d->bytes() == alone->d->bytes())
          << Name(each.type) << " by " << batched[i].receipt.server.numerics_id()
          << " in a batch of " << batched[i].receipt.server.batch_requests() << ", alone by "
          << alone->receipt.server.numerics_id();
    }
  }
  EXPECT_GT(shared_in_all, 0u);
}

}  // namespace
}  // namespace gemmd::client
