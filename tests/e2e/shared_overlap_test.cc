// Products whose operands and result share memory in random ways, over calls and streams, with and
// without connections that are cut: right, or refused, and nothing else is written.
//
// GEMMD_OVERLAPS is the number of products.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/shared_region.h"
#include "gtest/gtest.h"
#include "tests/client/testing/forwarder.h"
#include "tests/testing/server_process.h"

namespace gemmd {
namespace {

using client::MatrixFormat;
using client::SharedRegion;

constexpr std::uint64_t kPool = 400;  // floats that operands and results lie in
constexpr int kProducts = 1000;
constexpr int kProductsOfAClient = 250;

int ProductsAsked() {
  int count = kProducts;
  const char* const text = std::getenv("GEMMD_OVERLAPS");
  return text != nullptr && absl::SimpleAtoi(text, &count) ? count : kProducts;
}

// A matrix in the pool.
struct Place {
  MatrixFormat format;
  std::uint64_t at = 0;  // floats

  std::uint64_t bytes() const { return *SizeBytes(format); }
  std::uint64_t end() const { return at + bytes() / sizeof(float); }
  std::uint64_t IndexOf(std::uint64_t row, std::uint64_t column) const {
    const bool is_row_major = format.order == Order::kRowMajor;
    return at + (is_row_major ? row : column) * format.stride() + (is_row_major ? column : row);
  }
};

enum class Kind { kCopied, kSentFromThere, kResident, kShared };

struct Operand {
  Place place;
  Kind kind = Kind::kCopied;
};

// alpha is 1.
struct Draw {
  std::uint64_t m, n, k;
  Operand a, b;
  std::optional<Operand> c, bias;
  Place d;
  bool is_d_shared = false;
  client::MatmulOptions options;

  bool is_in_place() const { return is_d_shared && c && IsD(*c); }
  // Returns whether D, with what lies behind its lines, is where an operand is read that is not D
  // itself.
  bool has_overlap() const {
    return is_d_shared &&
           (Reaches(a) || Reaches(b) || (c && !IsD(*c) && Reaches(*c)) || (bias && Reaches(*bias)));
  }

 private:
  bool IsD(const Operand& operand) const {
    return operand.kind == Kind::kShared && operand.place.at == d.at &&
           operand.place.format.order == d.format.order &&
           operand.place.format.stride() == d.format.stride();
  }
  bool Reaches(const Operand& operand) const {
    return operand.kind != Kind::kCopied &&
           operand.place.at < d.at + d.format.outer() * d.format.stride() &&
           d.at < operand.place.end();
  }
};

class SharedOverlapTest : public ::testing::Test {
 protected:
  SharedOverlapTest() : server_({"--cpu.threads=1", "--shared-memory.name-prefix=gemmd-"}) {
    absl::StatusOr<std::unique_ptr<SharedRegion>> created =
        SharedRegion::Create(server_.NewChannel(), kPool * sizeof(float));
    if (created.ok()) region_ = *std::move(created);
  }

  std::uint64_t Below(std::uint64_t limit) { return random_() % limit; }
  bool OneOf(std::uint64_t count) { return Below(count) == 0; }

  Place RandomPlace(std::uint64_t rows, std::uint64_t columns, bool is_tight) {
    Place place;
    place.format = {DataType::kF32, rows, columns};
    if (OneOf(2)) place.format.order = Order::kColumnMajor;
    if (!is_tight) place.format.leading_dimension = place.format.inner() + Below(3);
    place.at = Below(kPool - place.bytes() / sizeof(float));
    return place;
  }

  Operand RandomOperand(std::uint64_t rows, std::uint64_t columns) {
    const Kind kind = OneOf(12) ? Kind::kResident
                                : std::vector<Kind>{Kind::kCopied, Kind::kSentFromThere,
                                                    Kind::kShared, Kind::kShared}[Below(4)];
    return {RandomPlace(rows, columns, kind == Kind::kResident), kind};
  }

  Draw RandomDraw() {
    Draw draw;
    draw.m = 1 + Below(6);
    draw.n = 1 + Below(6);
    draw.k = 1 + Below(6);
    client::MatmulOptions& options = draw.options;
    options.transpose_a = OneOf(3);
    options.transpose_b = OneOf(3);
    draw.a = options.transpose_a ? RandomOperand(draw.k, draw.m) : RandomOperand(draw.m, draw.k);
    draw.b = options.transpose_b ? RandomOperand(draw.n, draw.k) : RandomOperand(draw.k, draw.n);
    draw.is_d_shared = !OneOf(4);
    draw.d = RandomPlace(draw.m, draw.n, false);
    options.output_type = DataType::kF32;
    options.output_order = draw.d.format.order;
    options.output_leading_dimension = draw.d.format.leading_dimension;
    if (draw.is_d_shared) {
      options.destination = client::PlaceIn(region_, draw.d.at * sizeof(float));
    }
    if (OneOf(2)) {
      draw.c = OneOf(2) ? RandomOperand(draw.m, draw.n) : Operand{draw.d, Kind::kShared};
      options.beta = 1;
    }
    if (OneOf(4)) {
      draw.bias = Operand{RandomPlace(1, draw.n, true), OneOf(2) ? Kind::kShared : Kind::kCopied};
      draw.bias->place.format.order = Order::kRowMajor;
    }
    return draw;
  }

  client::Operand Encoded(const Operand& operand) const {
    const Place& place = operand.place;
    const std::uint64_t offset = place.at * sizeof(float);
    if (operand.kind == Kind::kShared) {
      return client::SharedOperand{client::PlaceIn(region_, offset), place.format};
    }
    const absl::string_view bytes(region_->data() + offset, place.bytes());
    const client::Matrix matrix =
        operand.kind == Kind::kCopied
            ? *client::Matrix::Create(place.format, std::string(bytes))
            : *client::Matrix::Create(place.format, client::Bytes(region_, bytes));
    if (operand.kind == Kind::kResident) {
      return *client::OperandSource::Create(client::InlineOperand(matrix));
    }
    return client::InlineOperand(matrix);
  }

  client::MatmulInputs Inputs(const Draw& draw) const {
    client::MatmulInputs inputs{Encoded(draw.a), Encoded(draw.b)};
    if (draw.c) inputs.c = Encoded(*draw.c);
    if (draw.bias) inputs.bias = Encoded(*draw.bias);
    return inputs;
  }

  std::vector<float> Pool() const {
    std::vector<float> pool(kPool);
    std::memcpy(pool.data(), region_->data(), kPool * sizeof(float));
    return pool;
  }

  void FillPool() {
    std::vector<float> pool(kPool);
    for (float& each : pool) each = static_cast<float>(Below(4));
    std::memcpy(region_->data(), pool.data(), kPool * sizeof(float));
  }

  // The element of D that these operands give. Small integers, so it is exact.
  static float ElementOf(const Draw& draw, const std::vector<float>& pool, std::uint64_t row,
                         std::uint64_t column) {
    const auto at = [&pool](const Operand& operand, bool is_transposed, std::uint64_t r,
                            std::uint64_t c) {
      return pool[is_transposed ? operand.place.IndexOf(c, r) : operand.place.IndexOf(r, c)];
    };
    float sum = 0;
    for (std::uint64_t i = 0; i < draw.k; ++i) {
      sum += at(draw.a, draw.options.transpose_a, row, i) *
             at(draw.b, draw.options.transpose_b, i, column);
    }
    if (draw.c) sum += at(*draw.c, false, row, column);
    if (draw.bias) sum += at(*draw.bias, false, 0, column);
    return sum;
  }

  // Writes D where it is in the pool.
  static void WriteTo(std::vector<float>& pool, const Draw& draw,
                      const std::vector<float>& before) {
    for (std::uint64_t row = 0; row < draw.m; ++row) {
      for (std::uint64_t column = 0; column < draw.n; ++column) {
        pool[draw.d.IndexOf(row, column)] = ElementOf(draw, before, row, column);
      }
    }
  }

  static client::CallOptions RandomRoute(std::uint64_t number) {
    client::CallOptions call;
    client::RouteOptions& route = call.route.emplace();
    if (number % 4 == 3) return call;  // the client chooses
    route.transport = number % 4 == 0 ? client::Transport::kUnary : client::Transport::kStream;
    route.channels = number % 4 == 1 ? 1 : 3;
    return call;
  }

  // Checks what came against what was there before.
  void Check(const Draw& draw, const std::vector<float>& before,
             const absl::StatusOr<client::Product>& product, bool may_be_cut) {
    std::vector<float> expected = before;
    if (product.ok()) {
      ++right_;
      if (draw.is_d_shared) {
        WriteTo(expected, draw, before);
      } else {
        std::vector<float> d(kPool);
        std::memcpy(d.data() + draw.d.at, product->d->bytes().data(), product->d->bytes().size());
        for (std::uint64_t row = 0; row < draw.m; ++row) {
          for (std::uint64_t column = 0; column < draw.n; ++column) {
            EXPECT_EQ(d[draw.d.IndexOf(row, column)], ElementOf(draw, before, row, column));
          }
        }
      }
    } else if (absl::IsUnavailable(product.status())) {
      ++not_tried_again_;
      EXPECT_TRUE(may_be_cut && draw.is_in_place()) << product.status();
      std::vector<float> now = Pool();  // D may be anything
      std::copy(now.begin() + static_cast<std::ptrdiff_t>(draw.d.at),
                now.begin() + static_cast<std::ptrdiff_t>(draw.d.end()),
                expected.begin() + static_cast<std::ptrdiff_t>(draw.d.at));
    } else {
      ++refused_;
      EXPECT_TRUE(absl::IsInvalidArgument(product.status()) && draw.has_overlap())
          << product.status();
    }
    EXPECT_EQ(Pool(), expected);
  }

  // Products of one client, whose connections are cut now and then.
  void Play(int count) {
    testing::Forwarder forwarder(server_.address());
    client::ClientOptions options;
    options.channel.target = forwarder.target();
    options.channel.own_connection = true;
    options.retry.max_attempts = 1000;
    options.retry.initial_backoff = absl::Milliseconds(5);
    options.retry.max_backoff = absl::Milliseconds(5);
    client::Client client(options);
    for (int i = 0; i < count && !HasFailure(); ++i) {
      SCOPED_TRACE(number_++);
      FillPool();
      const Draw draw = RandomDraw();
      const std::vector<float> before = Pool();
      if (OneOf(16)) forwarder.CutAfter(1 + Below(600));
      const absl::StatusOr<client::Product> product =
          client.Matmul(Inputs(draw), draw.options, RandomRoute(Below(4)));
      // A connection that was cut may be noticed by the product after the one whose answer it was.
      Check(draw, before, product, forwarder.cuts() > 0);
    }
    cuts_ += forwarder.cuts();
  }

  testing::ServerProcess server_;
  std::shared_ptr<SharedRegion> region_;
  std::mt19937_64 random_{1};
  int number_ = 0;
  int right_ = 0;
  int refused_ = 0;
  int not_tried_again_ = 0;
  int cuts_ = 0;
};

TEST_F(SharedOverlapTest, ProductsAreRightOrRefused) {
  ASSERT_TRUE(region_ != nullptr);
  const int count = ProductsAsked();
  while (number_ < count && !HasFailure()) Play(std::min(kProductsOfAClient, count - number_));
  RecordProperty("right", right_);
  RecordProperty("refused", refused_);
  RecordProperty("not_tried_again", not_tried_again_);
  RecordProperty("cuts", cuts_);
  EXPECT_GT(right_, count / 4);
  EXPECT_GT(refused_, count / 20);
  EXPECT_GT(cuts_, count / 50);
}

}  // namespace
}  // namespace gemmd
