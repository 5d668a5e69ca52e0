// Quantized operands through a real server: random products of each format, inline over one call
// and over a stream, from the store and in shared memory, against the exact product within the
// bound that kernels/cpu/quantized_gemm.h states.
#include <algorithm>
#include <cmath>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "client/client.h"
#include "client/operands.h"
#include "client/shared_region.h"
#include "gtest/gtest.h"
#include "tests/testing/products/quantized_product.h"
#include "tests/testing/server_process.h"

namespace gemmd::client {
namespace {

using testing::Draws;
using testing::QuantizedOperand;
using testing::QuantizedProduct;

testing::ServerProcess* server;
std::unique_ptr<Client> products;
std::unique_ptr<Operands> operands;

class Environment final : public ::testing::Environment {
 public:
  void SetUp() override {
    server = new testing::ServerProcess({"--cpu.threads=2", "--shared-memory.name-prefix=gemmd-"});
    ClientOptions options;
    options.channel.target = server->address();
    products = std::make_unique<Client>(options);
    operands = std::make_unique<Operands>(options);
  }
  void TearDown() override {
    products.reset();
    operands.reset();
    delete server;
  }
};
const auto* const environment = ::testing::AddGlobalTestEnvironment(new Environment);

template <typename Plane>
Matrix ToMatrix(const MatrixFormat& format, const Plane& plane) {
  const auto* const data = reinterpret_cast<const char*>(plane.data());
  absl::StatusOr<Matrix> matrix =
      Matrix::Create(format, std::string(data, plane.size() * sizeof(plane[0])));
  EXPECT_TRUE(matrix.ok()) << matrix.status();
  return *std::move(matrix);
}

MatrixFormat FormatOf(const MatrixLayout& layout) {
  return {layout.type, static_cast<std::uint64_t>(layout.rows),
          static_cast<std::uint64_t>(layout.columns), layout.order,
          static_cast<std::uint64_t>(layout.leading_dimension)};
}

// Returns the operand as a client would send it.
InlineOperand ToInline(const QuantizedOperand& operand, std::int64_t lines, std::int64_t k,
                       bool is_a) {
  InlineOperand sent(ToMatrix(FormatOf(operand.layout), operand.codes));
  const Scaling& scaling = operand.scaling;
  if (!scaling.has_scales) return sent;
  auto line_blocks = static_cast<std::uint64_t>(scaling.line_blocks(lines));
  auto k_blocks = static_cast<std::uint64_t>(scaling.k_blocks(k));
  bool k_is_columns = is_a;
  MatrixFormat format;
  if (scaling.block_k != kWhole) {
    k_is_columns = is_a != operand.transpose;
    const bool is_tiled = scaling.order == ScaleOrder::kTiles128x4;
    sent.blocks = BlockScaling{scaling.block_k, scaling.block_lines, is_tiled};
    if (is_tiled) {
      line_blocks = (line_blocks + 127) / 128 * 128;
      k_blocks = (k_blocks + 3) / 4 * 4;
    } else if ((scaling.order == ScaleOrder::kAlongK) != k_is_columns) {
      format.order = Order::kColumnMajor;
    }
  }
  format.rows = k_is_columns ? line_blocks : k_blocks;
  format.columns = k_is_columns ? k_blocks : line_blocks;
  format.type = scaling.type;
  sent.scales = ToMatrix(format, operand.quantized.scales);
  if (scaling.has_offsets) sent.offsets = ToMatrix(format, operand.quantized.offsets);
  if (scaling.has_zero_points) {
    const bool is_signed =
        operand.layout.type == DataType::kInt8 || operand.layout.type == DataType::kInt4;
    format.type = is_signed ? DataType::kInt8 : DataType::kUint8;
    sent.zero_points = ToMatrix(format, operand.quantized.zero_points);
  }
  if (scaling.has_tensor_scale) {
    sent.tensor_scale = ToMatrix({DataType::kF32, 1, 1, Order::kRowMajor, 0},
                                 std::vector<float>{operand.quantized.tensor_scale});
  }
  return sent;
}

// The planes one after another, as SharedOperand says.
SharedOperand ToShared(const InlineOperand& operand, const std::shared_ptr<SharedRegion>& region,
                       std::uint64_t offset) {
  SharedOperand shared{PlaceIn(region, offset), operand.data.format()};
  for (const v1::PlaneName name : kPlaneNames) {
    const Matrix* const plane = operand.plane(name);
    if (plane == nullptr) continue;
    std::copy(plane->bytes().begin(), plane->bytes().end(), region->data() + offset);
    offset += plane->bytes().size();
  }
  if (operand.scales) shared.scales = operand.scales->format();
  if (operand.zero_points) shared.zero_points = operand.zero_points->format();
  if (operand.tensor_scale) shared.tensor_scale = operand.tensor_scale->format();
  if (operand.offsets) shared.offsets = operand.offsets->format();
  shared.blocks = operand.blocks;
  return shared;
}

struct Sent {
  InlineOperand a;
  InlineOperand b;
  MatmulOptions options;
  std::optional<Operand> c;
  std::optional<Operand> bias;
};

Sent ToSent(const QuantizedProduct& product) {
  const Problem& problem = product.problem;
  Sent sent{ToInline(product.a, problem.m, problem.k, true),
            ToInline(product.b, problem.n, problem.k, false),
            {},
            std::nullopt,
            std::nullopt};
  sent.options.transpose_a = problem.transpose_a;
  sent.options.transpose_b = problem.transpose_b;
  sent.options.alpha = problem.epilogue.alpha;
  sent.options.beta = problem.epilogue.beta;
  sent.options.output_type = problem.d.type;
  sent.options.accumulate_type = problem.accumulate;
  if (problem.epilogue.beta != 0) {
    sent.c = InlineOperand(ToMatrix(FormatOf(problem.c), product.c));
  }
  if (problem.epilogue.has_bias) {
    MatrixFormat format = FormatOf(problem.d);
    format.rows = 1;
    sent.bias = InlineOperand(ToMatrix(format, product.bias));
  }
  return sent;
}

// D's bytes, after each of its elements was found to be within the bound.
std::string Multiply(QuantizedProduct* product, const Sent& sent, Operand a, Operand b,
                     Transport transport) {
  CallOptions call;
  call.route.emplace().transport = transport;
  const absl::StatusOr<Product> result =
      products->Matmul({std::move(a), std::move(b), sent.c, sent.bias}, sent.options, call);
  EXPECT_TRUE(result.ok()) << result.status() << " " << ToString(product->problem);
  if (!result.ok()) return "";
  const absl::string_view d = result->d->bytes();
  EXPECT_EQ(d.size(), product->d.size());
  product->d.assign(d.begin(), d.end());
  EXPECT_EQ(testing::CheckQuantizedProduct(product, result->receipt.server.kernel()), "");
  return std::string(d);
}

QuantizedProduct DrawProduct(const QuantFormat& format, Draws* draws, bool is_tight) {
  const std::int64_t m = 1 + draws->Below(draws->Below(4) == 0 ? 140 : 6);
  const std::int64_t n = 1 + draws->Below(draws->Below(4) == 0 ? 140 : 6);
  const std::int64_t k = 1 + draws->Below(draws->Below(4) == 0 ? 300 : 70);
  const QuantFormat partner = testing::Partner(draws);
  const bool is_a = draws->Below(2) == 0;
  const QuantFormat& of_a = is_a ? format : partner;
  const QuantFormat& of_b = is_a ? partner : format;
  constexpr DataType kOutputs[] = {DataType::kF32, DataType::kF16, DataType::kBf16};
  const DataType output = kOutputs[draws->Below(3)];
  const Draws::Limits limits{is_tight, true};
  QuantizedProduct product = testing::MakeQuantizedProduct(
      draws->Lines(of_a, m, k, true, limits), draws->Lines(of_b, n, k, false, limits), m, n, k,
      testing::UsualSum(of_a, of_b), output);
  Epilogue& e = product.problem.epilogue;
  if (draws->Below(3) == 0) e.alpha = draws->Normal();
  if (draws->Below(3) == 0) e.beta = draws->Normal();
  e.has_bias = draws->Below(3) == 0;
  const auto seed = static_cast<std::uint32_t>(draws->Below(1000));
  product.c = RandomPlane(product.problem.c, testing::Distribution::kNormal, seed);
  product.bias =
      RandomPlane({output, 1, n, Order::kRowMajor, n}, testing::Distribution::kNormal, seed + 1);
  return product;
}

class Formats : public ::testing::TestWithParam<NamedFormat> {};

INSTANTIATE_TEST_SUITE_P(All, Formats, ::testing::ValuesIn(QuantFormats()), [](const auto& info) {
  return absl::StrReplaceAll(info.param.name, {{"-", "_"}});
});

TEST_P(Formats, InlineProductsAreWithinTheStatedBound) {
  Draws draws(static_cast<std::uint32_t>(29 + 31 * GetParam().name.size()));
  for (int i = 0; i < 8; ++i) {
    QuantizedProduct product = DrawProduct(GetParam().format, &draws, false);
    const Sent sent = ToSent(product);
    const std::string unary = Multiply(&product, sent, sent.a, sent.b, Transport::kUnary);
    EXPECT_EQ(Multiply(&product, sent, sent.a, sent.b, Transport::kStream), unary);
  }
}

// Uploaded with all of their planes, found by digest and by handle, and downloaded as they were.
TEST_P(Formats, ResidentOperandsGiveTheSameBits) {
  Draws draws(static_cast<std::uint32_t>(37 + 31 * GetParam().name.size()));
  for (int i = 0; i < 2; ++i) {
    QuantizedProduct product = DrawProduct(GetParam().format, &draws, true);
    const Sent sent = ToSent(product);
    const std::string expected = Multiply(&product, sent, sent.a, sent.b, Transport::kUnary);
    const auto a = OperandSource::Create(sent.a);
    const auto b = OperandSource::Create(sent.b);
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ(Multiply(&product, sent, *a, *b, Transport::kUnary), expected);
    const auto resident = operands->Describe({{}, b->digest()});
    ASSERT_TRUE(resident.ok()) << resident.status();
    EXPECT_EQ(
        Multiply(&product, sent, sent.a, OperandName{resident->handle(), {}}, Transport::kStream),
        expected);
    // Its digest is compared there.
    const auto back = operands->Get({{}, b->digest()});
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->size_bytes(), sent.b.size_bytes());
  }
}

// Rows of a batch beside each other have the bits that they have alone.
TEST_P(Formats, RowsOverOneResidentBHaveTheBitsOfTheWhole) {
  constexpr std::int64_t kRows = 24;
  constexpr std::int64_t kColumns = 40;
  constexpr std::int64_t kSize = 96;
  Draws draws(41);
  const QuantFormat& format = GetParam().format;
  std::vector<float> values;
  for (std::int64_t i = 0; i < kRows * kSize; ++i) {
    const double value = draws.Normal();
    values.push_back(static_cast<float>(HasSign(format) ? value : std::abs(value)));
  }
  const QuantizedOperand weights =
      draws.Lines(*FindQuantFormat("int4-g32-f16-zp"), kColumns, kSize, false, {true, true});
  const auto b = OperandSource::Create(ToInline(weights, kColumns, kSize, false));
  ASSERT_TRUE(b.ok());
  // Row by row they have scales of their own, so that a part's are part of the whole's.
  if (format.scaling.block_lines != 1 || format.scaling.has_tensor_scale) return;
  const auto multiply = [&](std::int64_t first, std::int64_t rows) {
    QuantizedOperand a;
    a.scaling = format.scaling;
    a.layout = {format.element, rows, kSize, Order::kRowMajor, kSize};
    a.quantized = *Quantize(format, {values.data() + first * kSize, rows, kSize, kSize});
    a.codes = a.quantized.codes;
    MatmulOptions options;
    options.transpose_b = weights.transpose;
    options.output_type = DataType::kF32;
    return std::make_pair(MatmulInputs{ToInline(a, rows, kSize, true), *b}, options);
  };
  auto [inputs, options] = multiply(0, kRows);
  const auto whole = products->Matmul(inputs, options);
  ASSERT_TRUE(whole.ok()) << whole.status();
  struct Part {
    std::int64_t first = 0;
    std::int64_t rows = 0;
    std::promise<absl::StatusOr<Product>> done;
  };
  std::vector<std::unique_ptr<Part>> parts;
  for (std::int64_t first = 0; first < kRows; first += parts.back()->rows) {
    auto part = std::make_unique<Part>();
    part->first = first;
    part->rows = std::min<std::int64_t>(kRows - first, 1 + draws.Below(3));
    parts.push_back(std::move(part));
  }
  for (const auto& part : parts) {
    auto [of_part, part_options] = multiply(part->first, part->rows);
    products->MatmulAsync(of_part, part_options, {}, [&part](absl::StatusOr<Product> product) {
      part->done.set_value(std::move(product));
    });
  }
  for (const auto& part : parts) {
    const absl::StatusOr<Product> product = part->done.get_future().get();
    ASSERT_TRUE(product.ok()) << product.status();
    EXPECT_EQ(product->d->bytes(),
              whole->d->bytes().substr(static_cast<std::size_t>(part->first * kColumns * 4),
                                       static_cast<std::size_t>(part->rows * kColumns * 4)));
  }
}

// Planes one after another in a file, of which no scale is aligned.
TEST_P(Formats, SharedMemoryGivesTheSameBits) {
  Draws draws(static_cast<std::uint32_t>(43 + 31 * GetParam().name.size()));
  QuantizedProduct product = DrawProduct(GetParam().format, &draws, false);
  const Sent sent = ToSent(product);
  const std::string expected = Multiply(&product, sent, sent.a, sent.b, Transport::kUnary);
  const std::uint64_t bytes = sent.a.size_bytes() + sent.b.size_bytes();
  absl::StatusOr<std::unique_ptr<SharedRegion>> created =
      SharedRegion::Create(server->NewChannel(), bytes + 1);
  ASSERT_TRUE(created.ok()) << created.status();
  const std::shared_ptr<SharedRegion> region = *std::move(created);
  const SharedOperand a = ToShared(sent.a, region, 1);
  const SharedOperand b = ToShared(sent.b, region, 1 + sent.a.size_bytes());
  EXPECT_EQ(Multiply(&product, sent, a, b, Transport::kUnary), expected);
  EXPECT_EQ(Multiply(&product, sent, a, sent.b, Transport::kStream), expected);
}

}  // namespace
}  // namespace gemmd::client
