// Matrices that a real server keeps, through the client library and over the bare wire.
#include "client/operands.h"

#include <csignal>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/client.h"
#include "gemmd/v1/admin.grpc.pb.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "gemmd/v1/operands.grpc.pb.h"
#include "gemmd/v1/status.pb.h"
#include "gtest/gtest.h"
#include "tests/testing/server_process.h"

namespace gemmd::client {
namespace {

using ::gemmd::testing::ServerProcess;

// Reproducible bytes that make no NaN in any type used here.
Matrix Random(DataType type, std::uint64_t rows, std::uint64_t columns, std::uint32_t seed) {
  MatrixFormat format{type, rows, columns, Order::kRowMajor, 0};
  std::mt19937 random(seed);
  std::string bytes(*SizeBytes(format), '\0');
  if (type == DataType::kF32) {
    for (std::size_t i = 0; i < bytes.size(); i += 4) {
      const float value = static_cast<float>(static_cast<int>(random() % 33) - 16) / 8;
      bytes.replace(i, 4, reinterpret_cast<const char*>(&value), 4);
    }
  } else {
    for (char& byte : bytes) byte = static_cast<char>(random() % 15 - 7);
  }
  return *Matrix::Create(format, std::move(bytes));
}

OperandSource Source(const Matrix& matrix) { return *OperandSource::Create(matrix); }

class OperandsTest : public ::testing::Test {
 protected:
  void Start(std::vector<std::string> flags = {}) {
    flags.emplace_back("--cpu.threads=1");
    server_ = std::make_unique<ServerProcess>(std::move(flags));
    ASSERT_NE(server_->address(), "") << server_->log();
    channel_ = server_->NewChannel();
    operands_ = Connect();
    client_ = std::make_unique<Client>(Options());
  }

  // Returns a patient client's options: a server's restart takes a moment.
  ClientOptions Options(const std::string& tenant = "", int attempts = 400) const {
    ClientOptions options;
    options.channel.target = server_->address();
    options.retry.max_attempts = attempts;
    options.retry.max_backoff = absl::Milliseconds(100);
    options.channel.tenant = tenant;
    return options;
  }

  std::unique_ptr<Operands> Connect(const std::string& tenant = "", int attempts = 400) const {
    return std::make_unique<Operands>(Options(tenant, attempts));
  }

  v1::OperandStatistics Statistics() const {
    grpc::ClientContext context;
    v1::StatisticsResponse response;
    EXPECT_TRUE(v1::Admin::NewStub(channel_)
                    ->Statistics(&context, v1::StatisticsRequest(), &response)
                    .ok());
    return response.operands();
  }

  std::string Product(MatmulInputs inputs, const MatmulOptions& options = {}) const {
    const auto result = client_->Matmul(std::move(inputs), options);
    if (!result.ok()) return result.status().ToString();
    return std::string(result->d->bytes());
  }

  std::unique_ptr<ServerProcess> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<Operands> operands_;
  std::unique_ptr<Client> client_;
};

// More than one connection carries it, and no byte comes twice.
TEST_F(OperandsTest, ALargeUploadIsSharedByConnections) {
  Start();
  const Matrix matrix = Random(DataType::kInt8, 67, (1 << 20) + 1, 1);
  const OperandSource source = Source(matrix);
  const auto resident = operands_->Put(source);
  ASSERT_TRUE(resident.ok()) << resident.status();
  EXPECT_EQ(Statistics().uploaded_bytes(), matrix.bytes().size());
  EXPECT_EQ(Statistics().repeated_bytes(), 0u);
  const auto back = operands_->Get({{}, source.digest()});
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(back->data.bytes() == matrix.bytes());
  // A matrix that is there already is not sent again.
  ASSERT_TRUE(operands_->Put(source).ok());
  EXPECT_EQ(Statistics().uploaded_bytes() + Statistics().repeated_bytes(), matrix.bytes().size());
}

TEST_F(OperandsTest, WhatIsPutComesBackAndMultipliesAsIfItWereInline) {
  Start();
  const Matrix a = Random(DataType::kF32, 30, 50, 1);
  const Matrix b = Random(DataType::kF32, 50, 40, 2);
  const auto resident = operands_->Put(Source(b), absl::Minutes(3));
  ASSERT_TRUE(resident.ok()) << resident.status();
  EXPECT_EQ(resident->digest(), Source(b).digest());
  EXPECT_EQ(resident->size_bytes(), 50u * 40 * 4);
  EXPECT_EQ(resident->lease().seconds(), 180);
  const std::string expected = Product({InlineOperand{a}, InlineOperand{b}});
  EXPECT_EQ(Product({InlineOperand{a}, OperandName{resident->handle(), {}}}), expected);
  EXPECT_EQ(Product({Source(a), OperandName{{}, resident->digest()}}), expected);
  // B as it lies, and its transpose, are the same resident operand.
  MatmulOptions transposed;
  transposed.transpose_b = true;
  const Matrix wide = Random(DataType::kF32, 30, 40, 3);
  EXPECT_EQ(Product({InlineOperand{wide}, OperandName{resident->handle(), {}}}, transposed),
            Product({InlineOperand{wide}, InlineOperand{b}}, transposed));
  const auto back = operands_->Get({{}, resident->digest()});
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->data.bytes(), b.bytes());
  // Twice the same is once.
  EXPECT_EQ(operands_->Put(Source(b))->handle(), resident->handle());
  EXPECT_EQ(Statistics().residents(), 2u);
}

// Act-order makes blocks of columns that lie apart. The server puts the other operand in their
// order, and so does the library where both go along.
TEST_F(OperandsTest, AnOrderOfKIsKeptByTheProduct) {
  Start();
  constexpr std::uint64_t kK = 64;
  const auto order = [] {
    std::vector<std::uint32_t> places(kK);
    for (std::uint32_t i = 0; i < kK; ++i) places[i] = (i * 27 + 5) % kK;
    return std::make_shared<const std::vector<std::uint32_t>>(std::move(places));
  }();
  InlineOperand b(Random(DataType::kInt8, 40, kK, 2), Random(DataType::kF32, 40, 2, 3));
  b.blocks = BlockScaling{32, 1, false};
  InlineOperand ordered = b;
  ordered.k_order = order;
  MatmulOptions options;
  options.transpose_b = true;
  // Columns of A in the order, by hand.
  const Matrix a = Random(DataType::kF32, 30, kK, 1);
  std::string bytes(a.bytes());
  for (std::uint64_t row = 0; row < 30; ++row) {
    for (std::uint64_t k = 0; k < kK; ++k) {
      bytes.replace((row * kK + k) * 4, 4,
                    std::string(a.bytes().substr((row * kK + (*order)[k]) * 4, 4)));
    }
  }
  const Matrix turned = *Matrix::Create(a.format(), bytes);
  const std::string expected = Product({InlineOperand{turned}, b}, options);
  EXPECT_EQ(Product({InlineOperand{a}, ordered}, options), expected);
  EXPECT_NE(Product({InlineOperand{a}, b}, options), expected);

  const OperandSource source = *OperandSource::Create(ordered);
  EXPECT_NE(source.digest(), OperandSource::Create(b)->digest());
  const auto resident = operands_->Put(source);
  ASSERT_TRUE(resident.ok()) << resident.status();
  EXPECT_EQ(resident->digest(), source.digest());
  EXPECT_EQ(resident->operand().k_order(), "");
  const OperandName name = {resident->handle(), {}};
  EXPECT_EQ(Product({InlineOperand{a}, name}, options), expected);
  EXPECT_EQ(Product({InlineOperand{a}, source}, options), expected);
  const auto back = operands_->Get(name);
  ASSERT_TRUE(back.ok()) << back.status();
  ASSERT_NE(back->k_order, nullptr);
  EXPECT_EQ(*back->k_order, *order);

  // As A, and with a B whose K is its rows: these move as wholes.
  const Matrix right = Random(DataType::kF32, kK, 30, 4);
  std::string rows;
  for (const std::uint32_t k : *order) {
    rows += std::string(right.bytes().substr(k * 30 * 4, 30 * 4));
  }
  const Matrix moved = *Matrix::Create(right.format(), rows);
  EXPECT_EQ(Product({name, InlineOperand{right}}), Product({b, InlineOperand{moved}}));
  EXPECT_EQ(Product({ordered, InlineOperand{right}}), Product({b, InlineOperand{moved}}));

  // Scales and zero points of whole lines stay where they are.
  InlineOperand lined(Random(DataType::kInt8, 30, kK, 5), Random(DataType::kF32, 30, 1, 6));
  lined.zero_points = Random(DataType::kInt8, 30, 1, 7);
  InlineOperand moved_lines = lined;
  std::string codes(lined.data.bytes());
  for (std::uint64_t i = 0; i < codes.size(); ++i) {
    codes[i] = lined.data.bytes()[i / kK * kK + (*order)[i % kK]];
  }
  moved_lines.data = *Matrix::Create(lined.data.format(), codes);
  EXPECT_EQ(Product({lined, name}, options), Product({moved_lines, b}, options));

  const auto refusal = [&](MatmulInputs inputs) { return Product(std::move(inputs), options); };
  EXPECT_NE(refusal({Source(a), name}).find("b has a k_order, and a is a resident operand: send a"),
            std::string::npos);
  EXPECT_NE(refusal({name, name}).find("a and b have a k_order each"), std::string::npos);
  EXPECT_NE(refusal({b, name}).find("a.quantization is set, and b has a k_order"),
            std::string::npos);
  EXPECT_NE(refusal({b, ordered}).find("b.k_order is set, and b is no resident operand"),
            std::string::npos);
}

TEST_F(OperandsTest, ScalesAddendsAndQuantizedOperandsStayToo) {
  Start();
  const Matrix a = Random(DataType::kInt8, 6, 32, 1);
  const Matrix b = Random(DataType::kInt8, 32, 8, 2);
  const float values[] = {1, 2, 3, 4, 5, 6};
  const Matrix scales =
      *Matrix::Create(MatrixFormat{DataType::kF32, 6, 1, Order::kRowMajor, 0},
                      std::string(reinterpret_cast<const char*>(values), sizeof values));
  const Matrix c = Random(DataType::kF32, 6, 8, 3);
  const Matrix bias = Random(DataType::kF32, 1, 8, 4);
  MatmulOptions options;
  options.beta = 0.5;
  const std::string expected = Product(
      {InlineOperand{a, scales}, InlineOperand{b}, InlineOperand{c}, InlineOperand{bias}}, options);
  EXPECT_EQ(expected.size(), 6u * 8 * 4) << expected;
  EXPECT_EQ(Product({*OperandSource::Create(a, scales), Source(b), Operand(Source(c)),
                     Operand(Source(bias))},
                    options),
            expected);
  const auto back = operands_->Get({{}, OperandSource::Create(a, scales)->digest()});
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->scales->bytes(), scales.bytes());
}

TEST_F(OperandsTest, AnUploadKilledAt40PercentSendsTheOther60) {
  Start();
  constexpr std::uint64_t kBytes = 10 << 20;
  constexpr std::uint64_t kSent = kBytes * 4 / 10;
  const OperandSource source = Source(Random(DataType::kInt8, 10240, 1024, 5));
  {
    grpc::ClientContext context;
    v1::UploadResponse response;
    auto stream = v1::Operands::NewStub(channel_)->Upload(&context, &response);
    v1::UploadRequest begin;
    begin.mutable_begin()->set_digest(source.digest());
    *begin.mutable_begin()->mutable_operand() = source.Describe();
    ASSERT_TRUE(stream->Write(begin));
    for (std::uint64_t at = 0; at < kSent; at += 1 << 20) {
      v1::UploadRequest chunk;
      chunk.mutable_chunk()->set_offset_bytes(at);
      chunk.mutable_chunk()->set_data(std::string(source.data().bytes().substr(at, 1 << 20)));
      ASSERT_TRUE(stream->Write(chunk));
    }
    while (Statistics().uploaded_bytes() < kSent) {
    }
    context.TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_EQ(Statistics().partial_uploads(), 1u);
  EXPECT_EQ(Statistics().reserved_bytes(), kBytes);
  const auto resident = operands_->Put(source);
  ASSERT_TRUE(resident.ok()) << resident.status();
  EXPECT_EQ(Statistics().uploaded_bytes(), kBytes);
  EXPECT_EQ(Statistics().repeated_bytes(), 0u);
  EXPECT_EQ(Statistics().partial_uploads(), 0u);
  EXPECT_EQ(operands_->Get({resident->handle(), {}})->data.bytes(), source.data().bytes());
  EXPECT_TRUE(operands_->Release({resident->handle(), {}}).ok());
  EXPECT_EQ(Statistics().reserved_bytes(), 0u);
}

TEST_F(OperandsTest, ARestartInTheMiddleOfALoopIsNotNoticed) {
  Start();
  const OperandSource w = Source(Random(DataType::kF32, 300, 200, 6));
  const OperandSource x = Source(Random(DataType::kF32, 20, 300, 7));
  const Matrix& inline_x = x.data();
  const std::string expected = Product({InlineOperand{inline_x}, w});
  const std::string listen = "--listen=" + server_->address();
  for (int i = 0; i < 30; ++i) {
    std::thread restart;
    if (i == 10) {
      restart = std::thread([&] {
        server_ = nullptr;  // killed
        server_ =
            std::make_unique<ServerProcess>(std::vector<std::string>{listen, "--cpu.threads=1"});
      });
    }
    EXPECT_EQ(Product({x, w}), expected) << i;
    if (restart.joinable()) restart.join();
  }
  ASSERT_NE(server_->address(), "") << server_->log();
  channel_ = server_->NewChannel();
  // The new one was refilled, once.
  EXPECT_EQ(Product({x, w}), expected);
  EXPECT_EQ(Statistics().residents(), 2u);
  EXPECT_EQ(Statistics().uploaded_bytes(), w.size_bytes() + x.size_bytes());
}

TEST_F(OperandsTest, NamedOperandsGoOverStreamsAndAsManyConnectionsAsAsked) {
  Start();
  const Matrix x = Random(DataType::kF32, 300, 400, 1);
  const Matrix w = Random(DataType::kF32, 400, 700, 2);
  const std::string expected = Product({x, w});
  const OperandSource source = Source(w);
  for (const int channels : {1, 4}) {
    CallOptions call;
    call.route.emplace().transport = Transport::kStream;
    call.route->channels = channels;
    // The first finds nothing there, and has it uploaded.
    for (const Operand& factor : {Operand(source), Operand(OperandName{{}, source.digest()}),
                                  Operand(OperandName{{}, source.digest(), w.format()})}) {
      const auto product = client_->Matmul({x, factor}, {}, call);
      ASSERT_TRUE(product.ok()) << product.status();
      EXPECT_EQ(product->d->bytes(), expected);
      EXPECT_EQ(product->receipt.route.transport, Transport::kStream);
      EXPECT_EQ(product->receipt.route.channels, channels);
      EXPECT_EQ(product->receipt.server.payload_bytes_in(), x.bytes().size());
    }
    EXPECT_TRUE(operands_->Release({{}, source.digest()}).ok());
  }
}

TEST_F(OperandsTest, ManyProductsThatMissTheSameOperandUploadItOnce) {
  Start();
  const Matrix x = Random(DataType::kF32, 4, 500, 1);
  const OperandSource w = Source(Random(DataType::kF32, 500, 600, 2));
  const std::string expected = Product({x, w.data()});
  constexpr int kProducts = 40;
  std::vector<std::future<std::string>> answers;
  for (int i = 0; i < kProducts; ++i) {
    auto answer = std::make_shared<std::promise<std::string>>();
    answers.push_back(answer->get_future());
    CallOptions call;
    call.route.emplace().transport = i % 2 == 0 ? Transport::kStream : Transport::kUnary;
    client_->MatmulAsync({x, w}, {}, call,
                         [answer](const absl::StatusOr<client::Product>& product) {
                           answer->set_value(product.ok() ? std::string(product->d->bytes())
                                                          : product.status().ToString());
                         });
  }
  for (auto& answer : answers) EXPECT_EQ(answer.get(), expected);
  EXPECT_EQ(Statistics().uploaded_bytes(), w.size_bytes());
}

TEST_F(OperandsTest, AnOperandThatCannotBeUploadedEndsItsProducts) {
  Start({"--operands.memory-bytes=1000"});
  const OperandSource w = Source(Random(DataType::kF32, 50, 60, 2));
  const Matrix x = Random(DataType::kF32, 4, 50, 1);
  EXPECT_EQ(client_->Matmul({x, w}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(client_->Matmul({x, OperandName{"nobody-1", {}}}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(OperandsTest, AChainOfProductsCarriesNoPayload) {
  Start();
  const Matrix x = Random(DataType::kF32, 20, 30, 1);
  const Matrix w = Random(DataType::kF32, 30, 40, 2);
  const Matrix v = Random(DataType::kF32, 40, 10, 3);
  ASSERT_TRUE(operands_->Put(Source(x)).ok());
  ASSERT_TRUE(operands_->Put(Source(w)).ok());
  ASSERT_TRUE(operands_->Put(Source(v)).ok());
  MatmulOptions kept;
  kept.destination = KeepResult{absl::Minutes(1)};
  const auto y = client_->Matmul({Source(x), Source(w)}, kept);
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_FALSE(y->d.has_value());
  EXPECT_EQ(ToString(y->format), "20 x 40 f32 row-major");
  kept.destination = KeepResult();
  const auto z = client_->Matmul({OperandName{y->handle, {}}, Source(v)}, kept);
  ASSERT_TRUE(z.ok()) << z.status();
  for (const auto* each : {&*y, &*z}) {
    EXPECT_EQ(each->receipt.server.payload_bytes_in(), 0u);
    EXPECT_EQ(each->receipt.server.payload_bytes_out(), 0u);
  }
  const auto direct = client_->Matmul({InlineOperand{x}, InlineOperand{w}});
  const std::string expected = Product({InlineOperand{*direct->d}, InlineOperand{v}});
  EXPECT_EQ(operands_->Get({z->handle, {}})->data.bytes(), expected);
  EXPECT_EQ(operands_->Describe({y->handle, {}})->digest(), "");
  EXPECT_TRUE(operands_->Release({y->handle, {}}).ok());
  EXPECT_EQ(client_->Matmul({OperandName{y->handle, {}}, Source(v)}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(OperandsTest, TheUnleasedGoForOthersAndTheQuotaHolds) {
  // All tenants are at one address, which would have a share too.
  Start({"--operands.memory-bytes=1000000", "--operands.tenant-bytes=600000",
         "--limits.proxies=127.0.0.1"});
  const auto a = Connect("a", 1);
  const auto b = Connect("b", 1);
  const OperandSource first = Source(Random(DataType::kInt8, 400, 1000, 1));
  const OperandSource second = Source(Random(DataType::kInt8, 401, 1000, 2));
  ASSERT_TRUE(a->Put(first, absl::Hours(1)).ok());
  const absl::Status full = a->Put(second).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  EXPECT_EQ(full.message(),
            "the tenant's share of bytes of operands is 600000, 400000 are taken, and this takes "
            "401000");
  ASSERT_TRUE(b->Put(second, absl::ZeroDuration()).ok());
  // Another tenant's operands are as unknown as anything.
  EXPECT_EQ(b->Describe({{}, first.digest()}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(a->List()->size(), 1u);
  // The leased one stays; b's own unleased one makes room.
  const OperandSource third = Source(Random(DataType::kInt8, 402, 1000, 3));
  ASSERT_TRUE(b->Put(third, absl::Hours(1)).ok());
  EXPECT_EQ(b->Describe({{}, second.digest()}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(a->Describe({{}, first.digest()}).ok());
  const absl::Status large = a->Put(Source(Random(DataType::kInt8, 601, 1000, 4))).status();
  EXPECT_EQ(large.code(), absl::StatusCode::kInvalidArgument) << large;
  EXPECT_EQ(*a->Renew({{}, first.digest()}, absl::Minutes(2)), absl::Minutes(2));
}

// A page ends where its names would make the message too large.
TEST_F(OperandsTest, AListOfManyLongNamesComesInPages) {
  Start();
  const auto long_name = [](int operand, int i) {
    return std::to_string(operand) + "/" + std::to_string(i) + std::string(240, 'n');
  };
  constexpr int kMost = 1024;
  constexpr int kOperands = 6;
  for (int operand = 0; operand < kOperands; ++operand) {
    const auto source =
        Source(Random(DataType::kInt8, 8, 8, static_cast<std::uint32_t>(operand) + 1));
    ASSERT_TRUE(operands_->Put(source).ok());
    for (int i = 0; i < kMost; ++i) {
      const auto named = operands_->SetName({{}, source.digest()}, long_name(operand, i));
      ASSERT_TRUE(named.ok()) << named.status();
    }
    if (operand > 0) continue;
    const absl::Status full = operands_->SetName({{}, source.digest()}, "one more").status();
    EXPECT_EQ(full.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(full.message().find("has 1024 names, and may have no more"), std::string::npos);
  }
  grpc::ClientContext context;
  v1::ListResponse page;
  ASSERT_TRUE(v1::Operands::NewStub(channel_)->List(&context, v1::ListRequest(), &page).ok());
  EXPECT_LT(page.ByteSizeLong(), std::size_t{2} << 20);
  EXPECT_LT(page.residents_size(), kOperands);
  EXPECT_NE(page.next_page_token(), "");
  const auto all = operands_->List();
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->size(), std::size_t{kOperands});
  for (const v1::ResidentOperand& each : *all) EXPECT_EQ(each.names_size(), kMost);
}

TEST_F(OperandsTest, ATenantHasAShareOfBytesAndNumber) {
  Start({"--operands.memory-bytes=1000", "--operands.max-operands=3",
         "--operands.tenant-percent=60", "--limits.proxies=127.0.0.1"});
  const auto a = Connect("a", 1);
  EXPECT_EQ(a->Put(Source(Random(DataType::kInt8, 601, 1, 1))).status().message(),
            "the tenant's share of bytes of operands is 600, and this takes 601");
  ASSERT_TRUE(a->Put(Source(Random(DataType::kInt8, 599, 1, 2))).ok());
  ASSERT_TRUE(a->Put(Source(Random(DataType::kInt8, 1, 1, 3))).ok());
  EXPECT_EQ(a->Put(Source(Random(DataType::kInt8, 1, 1, 4))).status().message(),
            "the tenant's share of operands and names is 2, 2 are taken, and this takes 1");
  EXPECT_TRUE(Connect("b", 1)->Put(Source(Random(DataType::kInt8, 400, 1, 5))).ok());
}

TEST_F(OperandsTest, AnAddressHasAShareWhateverNamesAreClaimedThere) {
  Start({"--operands.memory-bytes=1000"});
  ASSERT_TRUE(Connect("a", 1)->Put(Source(Random(DataType::kInt8, 500, 1, 1))).ok());
  EXPECT_EQ(Connect("b", 1)->Put(Source(Random(DataType::kInt8, 301, 1, 2))).status().message(),
            "the share of address 127.0.0.1 of bytes of operands is 800, 500 are taken, and this "
            "takes 301");
  EXPECT_TRUE(Connect("b", 1)->Put(Source(Random(DataType::kInt8, 300, 1, 2))).ok());
}

TEST_F(OperandsTest, ARequestTakesTheRoomOfWhatHasNoLease) {
  Start({"--cpu.memory-bytes=3000000", "--operands.memory-bytes=2900000"});
  const auto impatient = Connect("", 1);
  Client products(Options("", 1));
  ASSERT_TRUE(
      impatient->Put(Source(Random(DataType::kInt8, 2000, 1000, 1)), absl::ZeroDuration()).ok());
  const Matrix x = Random(DataType::kF32, 400, 400, 2);
  const auto product = products.Matmul({InlineOperand{x}, InlineOperand{x}});
  EXPECT_TRUE(product.ok()) << product.status();
  EXPECT_EQ(Statistics().evictions(), 1u);
  // A leased one is in its way.
  ASSERT_TRUE(impatient->Put(Source(Random(DataType::kInt8, 2000, 1000, 1)), absl::Hours(1)).ok());
  EXPECT_EQ(products.Matmul({InlineOperand{x}, InlineOperand{x}}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_F(OperandsTest, ListsEverythingInPages) {
  Start();
  for (std::uint32_t i = 0; i < 130; ++i) {
    ASSERT_TRUE(operands_->Put(Source(Random(DataType::kInt8, 4, 4, i))).ok());
  }
  const auto list = operands_->List();
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->size(), 130u);
  EXPECT_EQ(list->back().digest(), Source(Random(DataType::kInt8, 4, 4, 129)).digest());
}

TEST_F(OperandsTest, StreamsUseAndKeepOperandsToo) {
  Start();
  const Matrix x = Random(DataType::kF32, 16, 16, 1);
  const std::string handle = operands_->Put(Source(x))->handle();
  const std::string expected = Product({InlineOperand{x}, InlineOperand{x}});
  grpc::ClientContext context;
  const auto stream = v1::Gemm::NewStub(channel_)->MatmulStream(&context);
  const auto finished = [&](std::uint64_t id, const std::string& b, bool keep) {
    v1::MatmulStreamRequest request;
    request.mutable_begin()->set_request_id(id);
    v1::MatmulHeader* header = request.mutable_begin()->mutable_header();
    header->mutable_a()->set_handle(handle);
    header->mutable_b()->set_handle(b);
    if (keep) header->mutable_keep_result();
    EXPECT_TRUE(stream->Write(request));
    v1::MatmulStreamResponse response;
    EXPECT_TRUE(stream->Read(&response));
    return response.finished();
  };
  const auto sent = finished(1, handle, false);
  ASSERT_EQ(sent.code(), 0u) << sent.message();
  EXPECT_EQ(sent.payload(0).data(), expected);
  const auto kept = finished(2, handle, true);
  EXPECT_EQ(kept.payload_size(), 0);
  EXPECT_EQ(operands_->Get({kept.handle(), {}})->data.bytes(), expected);
  const auto missing = finished(3, "none", false);
  EXPECT_EQ(missing.code(), static_cast<std::uint32_t>(grpc::StatusCode::NOT_FOUND));
  EXPECT_EQ(missing.missing().handles(0), "none");
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

// ------------------------------------------------------------ bad inputs, over the bare wire

class BadInput : public OperandsTest {
 protected:
  void SetUp() override {
    Start();
    stub_ = v1::Operands::NewStub(channel_);
  }

  // Uploads these messages; returns the status of the end.
  grpc::Status Upload(const std::vector<v1::UploadRequest>& messages) {
    grpc::ClientContext context;
    v1::UploadResponse response;
    auto stream = stub_->Upload(&context, &response);
    for (const v1::UploadRequest& each : messages) {
      if (!stream->Write(each)) break;
    }
    stream->WritesDone();
    return stream->Finish();
  }

  v1::UploadRequest Begin() const {
    v1::UploadRequest request;
    request.mutable_begin()->set_digest(source_.digest());
    *request.mutable_begin()->mutable_operand() = source_.Describe();
    return request;
  }
  static v1::UploadRequest Chunk(std::uint64_t offset, std::string data) {
    v1::UploadRequest request;
    request.mutable_chunk()->set_offset_bytes(offset);
    request.mutable_chunk()->set_data(std::move(data));
    return request;
  }

  void Expect(const grpc::Status& status, grpc::StatusCode code, const std::string& message) {
    EXPECT_EQ(status.error_code(), code);
    EXPECT_EQ(status.error_message(), message);
  }

  const OperandSource source_ = Source(Random(DataType::kInt8, 4, 4, 1));
  std::unique_ptr<v1::Operands::Stub> stub_;
};

TEST_F(BadInput, OfUploadsIsNamedByField) {
  constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;
  Expect(Upload({}), kInvalid, "the upload ended before its begin");
  Expect(Upload({Chunk(0, "x")}), kInvalid, "a chunk came before begin");
  Expect(Upload({v1::UploadRequest()}), kInvalid, "event is missing; it must be begin or chunk");
  Expect(Upload({Begin(), Begin()}), kInvalid, "begin came twice");
  Expect(Upload({Begin(), Chunk(15, "xy")}), kInvalid,
         "a chunk of 2 bytes is at offset 15 of data, which has 16 bytes");
  Expect(Upload({Begin(), Chunk(0, "xy")}), kInvalid,
         "the upload ended with 2 of 16 bytes; the next one missing is 2 of data");
  EXPECT_EQ(Upload({Begin(), Chunk(0, std::string(16, 'w'))}).error_code(), kInvalid);
  v1::UploadRequest request = Begin();
  request.mutable_begin()->set_digest("abc");
  Expect(Upload({request}), kInvalid, "begin.digest has 3 bytes; a digest has 32");
  request = Begin();
  request.mutable_begin()->clear_operand();
  Expect(Upload({request}), kInvalid, "begin.operand is missing");
  request = Begin();
  request.mutable_begin()->mutable_operand()->mutable_data()->set_rows(0);
  Expect(Upload({request}), kInvalid, "begin.operand.data.rows is 0; it must be 1 to 2147483647");
  request = Begin();
  request.mutable_begin()->mutable_operand()->mutable_data()->set_leading_dimension(5);
  Expect(Upload({request}), kInvalid,
         "begin.operand.data.leading_dimension is 5; it must be 4 or 0: uploaded planes are "
         "tightly packed");
  request = Begin();
  request.mutable_begin()->mutable_operand()->mutable_data()->set_rows(1u << 31 >> 1);
  request.mutable_begin()->mutable_operand()->mutable_data()->set_columns(2147483647);
  EXPECT_EQ(Upload({request}).error_code(), kInvalid);
  request = Begin();
  request.mutable_begin()->mutable_lease()->set_seconds(-1);
  EXPECT_EQ(Upload({request}).error_code(), kInvalid);
  request = Begin();
  request.mutable_begin()->mutable_lease()->set_seconds(90000);
  Expect(Upload({request}), kInvalid, "lease is 25h; it must be 0s to 24h");
  EXPECT_EQ(Statistics().residents(), 0u);
}

TEST_F(BadInput, OfOtherCallsIsNamedToo) {
  const auto call = [this](auto method, const auto& request, auto response) {
    grpc::ClientContext context;
    return (stub_.get()->*method)(&context, request, &response);
  };
  constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;
  const grpc::Status none = call(&v1::Operands::Stub::Get, v1::GetRequest(), v1::GetResponse());
  Expect(none, kInvalid, "handle, digest and name are missing; one of them says which operand");
  v1::FindMissingRequest find;
  Expect(call(&v1::Operands::Stub::FindMissing, find, v1::FindMissingResponse()), kInvalid,
         "digests has 0 entries; it must have 1 to 1000");
  find.add_digests("x");
  Expect(call(&v1::Operands::Stub::FindMissing, find, v1::FindMissingResponse()), kInvalid,
         "digests[0] has 1 bytes; a digest has 32");
  find.set_digests(0, std::string(32, 'x'));
  find.add_digests(std::string(32, 'y'));
  find.add_digests(std::string(32, 'x'));
  Expect(call(&v1::Operands::Stub::FindMissing, find, v1::FindMissingResponse()), kInvalid,
         "digests[2] is digests[0] again; each may be named once");
  v1::ListRequest list;
  list.set_page_token("zzz");
  Expect(call(&v1::Operands::Stub::List, list, v1::ListResponse()), kInvalid,
         "page_token is none that an earlier page gave");
  list.clear_page_token();
  list.set_page_size(1001);
  Expect(call(&v1::Operands::Stub::List, list, v1::ListResponse()), kInvalid,
         "page_size is 1001; it must be 0 to 1000");
  v1::ReleaseRequest release;
  release.set_handle("nobody's");
  Expect(call(&v1::Operands::Stub::Release, release, v1::ReleaseResponse()),
         grpc::StatusCode::NOT_FOUND, "handle is \"nobody\\'s\": the server has no such operand");
  release.set_handle(std::string(65, 'h'));
  Expect(call(&v1::Operands::Stub::Release, release, v1::ReleaseResponse()), kInvalid,
         "handle has 65 bytes; a handle has at most 64");
  const auto badly_named = Connect("a b", 1);
  EXPECT_EQ(badly_named->List().status().message(),
            "gemmd-tenant has a character that is none of A-Z a-z 0-9 . _ -");
}

TEST_F(BadInput, WhatIsMissingIsInTheDetails) {
  grpc::ClientContext context;
  v1::MatmulRequest request;
  request.mutable_header()->mutable_a()->set_digest(source_.digest());
  request.mutable_header()->mutable_b()->set_handle("gone");
  v1::MatmulResponse response;
  const grpc::Status status = v1::Gemm::NewStub(channel_)->Matmul(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  v1::StatusDetails details;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  v1::MissingOperands missing;
  ASSERT_TRUE(details.details(0).UnpackTo(&missing));
  EXPECT_EQ(missing.digests(0), source_.digest());
  EXPECT_EQ(missing.handles(0), "gone");
}

TEST_F(BadInput, OfProductsIsNamedAgainstWhatIsResident) {
  ASSERT_TRUE(operands_->Put(source_).ok());
  v1::MatmulRequest request;
  v1::MatmulHeader* header = request.mutable_header();
  header->mutable_a()->set_digest(source_.digest());
  header->mutable_b()->set_digest(source_.digest());
  *header->mutable_b()->mutable_data() = source_.Describe().data();
  header->mutable_b()->mutable_data()->set_rows(5);
  const auto call = [&] {
    grpc::ClientContext context;
    v1::MatmulResponse response;
    return v1::Gemm::NewStub(channel_)->Matmul(&context, request, &response);
  };
  Expect(call(), grpc::StatusCode::INVALID_ARGUMENT,
         "b.data is 5 x 4 int8 row_major; the resident operand is 4 x 4 int8 row_major, tightly "
         "packed (leave the field out to mean that)");
  header->mutable_b()->clear_data();
  EXPECT_TRUE(call().ok());
  header->mutable_keep_result()->mutable_lease()->set_seconds(-1);
  EXPECT_EQ(call().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  header->mutable_keep_result()->clear_lease();
  header->set_output_leading_dimension(7);
  Expect(call(), grpc::StatusCode::INVALID_ARGUMENT,
         "output_leading_dimension is 7, and keep_result is set; it must be 4 or 0: kept results "
         "are tightly packed");
}

}  // namespace
}  // namespace gemmd::client
