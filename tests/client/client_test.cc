#include "client/client.h"

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/load/transport/self_signed.h"
#include "client/retry_after.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/recording_timer.h"
#include "tests/client/testing/scripted_server.h"
#include "tests/client/testing/silent_listener.h"

namespace gemmd::client {
namespace {

using ::gemmd::testing::Answer;
using ::gemmd::testing::AnswerChanged;
using ::gemmd::testing::Fail;
using ::gemmd::testing::RecordingTimer;
using ::gemmd::testing::ScriptedServer;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Matrix Int8(std::uint64_t rows, std::uint64_t columns, std::string bytes) {
  return *Matrix::Create(MatrixFormat{DataType::kInt8, rows, columns, Order::kRowMajor, 0},
                         std::move(bytes));
}

MatmulInputs TwoByTwo() { return MatmulInputs{Int8(2, 2, "aaaa"), Int8(2, 2, "bbbb")}; }

class ClientTest : public ::testing::Test {
 protected:
  ClientOptions Options() {
    ClientOptions options;
    options.channel.target = server_.target();
    options.retry.jitter = 0;
    options.timer = timer_;
    return options;
  }

  absl::StatusOr<Product> Matmul(const CallOptions& call = {}) {
    return client_.Matmul(TwoByTwo(), {}, call);
  }

  ScriptedServer server_;
  std::shared_ptr<RecordingTimer> timer_ = std::make_shared<RecordingTimer>();
  Client client_{Options()};
};

// gRPC would dial port 34463.
TEST_F(ClientTest, ABadAddressIsNotDialled) {
  ClientOptions options = Options();
  options.channel.target = "127.0.0.1:99999";
  Client client(options);
  const absl::Status status = client.Matmul(TwoByTwo(), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("target is \"127.0.0.1:99999\", whose port is \"99999\""));
}

TEST_F(ClientTest, SendsHeaderAndPlanesAndReturnsProductAndReceipt) {
  server_.Then(Answer(3, 4, "abcdefghijkl"));
  MatmulOptions options;
  options.transpose_a = true;
  options.alpha = 0;
  options.beta = 2;
  options.activation = Activation::kGeluTanh;
  options.output_type = DataType::kInt8;
  options.accumulate_type = DataType::kInt32;
  options.determinism = Determinism::kFast;
  options.kernel = "cpu/test";
  options.priority = v1::PRIORITY_LOW;
  options.verification_vectors = 3;
  const auto product = client_.Matmul(MatmulInputs{Int8(2, 3, "aaaaaa"), Int8(2, 4, "bbbbbbbb"),
                                                   Int8(3, 4, "cccccccccccc"), Int8(1, 4, "dddd")},
                                      options);
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_EQ(ToString(product->format), "3 x 4 int8 row-major");
  EXPECT_EQ(product->d->bytes(), "abcdefghijkl");
  EXPECT_EQ(product->receipt.server.kernel(), "cpu/test");
  EXPECT_EQ(product->receipt.client.attempts, 1);
  EXPECT_GT(product->receipt.client.round_trip, absl::ZeroDuration());
  EXPECT_EQ(product->receipt.client.wire,
            product->receipt.client.round_trip - absl::Microseconds(5));
  EXPECT_GE(product->receipt.client.total, product->receipt.client.round_trip);

  const v1::MatmulRequest request = server_.requests().at(0);
  const v1::MatmulHeader& header = request.header();
  EXPECT_EQ(header.a().data().rows(), 2U);
  EXPECT_EQ(header.a().data().columns(), 3U);
  EXPECT_EQ(header.a().data().type(), v1::INT8);
  EXPECT_TRUE(header.b().has_inline_());
  EXPECT_TRUE(header.transpose_a());
  EXPECT_FALSE(header.transpose_b());
  EXPECT_TRUE(header.has_alpha());
  EXPECT_EQ(header.alpha(), 0);
  EXPECT_EQ(header.beta(), 2);
  EXPECT_EQ(header.activation(), v1::GELU_TANH);
  EXPECT_EQ(header.output_type(), v1::INT8);
  EXPECT_EQ(header.accumulate_type(), v1::INT32);
  EXPECT_EQ(header.determinism(), v1::FAST);
  EXPECT_EQ(header.kernel(), "cpu/test");
  EXPECT_EQ(header.priority(), v1::PRIORITY_LOW);
  EXPECT_EQ(header.verification().vectors(), 3U);
  std::vector<std::string> payload;
  for (const v1::Chunk& chunk : request.payload()) {
    payload.push_back(v1::OperandName_Name(chunk.operand()) + ":" + chunk.data());
  }
  EXPECT_THAT(payload, ElementsAre("A:aaaaaa", "B:bbbbbbbb", "C:cccccccccccc", "BIAS:dddd"));
}

// Three of 2 x 2 by 2 x 2, of which one has B for all.
MatmulInputs ThreeProducts() {
  const MatrixFormat format{DataType::kInt8, 2, 2, Order::kRowMajor, 0};
  return {*Matrix::Create(format, {3, 5}, Bytes("aaaa.bbbb.cccc")), Int8(2, 2, "wwww")};
}

MatmulOptions OfThree() {
  MatmulOptions options;
  options.batch = Batch{3, 5, 0, 7, 8, 0};
  return options;
}

TEST_F(ClientTest, ABatchIsOneRequest) {
  server_.Then([](auto& context, const auto& request, v1::MatmulResponse& response) {
    grpc::Status status = Answer(2, 2, "abcdefghijkl")(context, request, response);
    response.mutable_receipt()->set_products(3);
    return status;
  });
  const auto product = client_.Matmul(ThreeProducts(), OfThree());
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_EQ(product->d->stack().count, 3U);
  EXPECT_EQ(product->d->view(1).bytes(), "efgh");
  const v1::MatmulRequest request = server_.requests().at(0);
  const v1::StridedBatch& batch = request.header().batch();
  EXPECT_EQ(batch.count(), 3U);
  EXPECT_EQ(batch.a_stride(), 5U);
  EXPECT_EQ(batch.b_stride(), 0U);
  EXPECT_EQ(batch.c_stride(), 7U);
  EXPECT_EQ(batch.bias_stride(), 8U);
  EXPECT_EQ(request.header().a().data().rows(), 2U);
  EXPECT_EQ(request.payload(0).data(), "aaaa.bbbb.cccc");
  EXPECT_EQ(request.payload(1).data(), "wwww");
}

TEST_F(ClientTest, ABatchThatAServerDoesNotKnowIsUnimplemented) {
  server_.Then(Answer(2, 2, "abcd"));
  server_.Then(Fail(grpc::StatusCode::INVALID_ARGUMENT,
                    "payload of a: a chunk of 14 bytes is at offset 0; the plane has 4"));
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = client_.Matmul(ThreeProducts(), OfThree()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("batch.count is 3, and the server is older than batches of products"));
  }
}

// Groups of rows have one A and one D.
TEST_F(ClientTest, GroupsAreOneMatrix) {
  MatmulOptions options;
  options.batch = Batch{3, 0, 4, 0, 0, 0, {1, 1, 4}};
  const auto inputs = [] {
    const MatrixFormat of_b{DataType::kInt8, 2, 2, Order::kRowMajor, 0};
    return MatmulInputs{Int8(4, 2, "aabbccdd"),
                        *Matrix::Create(of_b, {3, 4}, Bytes("xxxxyyyyzzzz"))};
  };
  const auto answer = [](std::uint64_t products) {
    return [products](auto& context, const auto& request, v1::MatmulResponse& response) {
      grpc::Status status = Answer(4, 2, "abcdefgh")(context, request, response);
      response.mutable_receipt()->set_products(products);
      return status;
    };
  };
  server_.Then(answer(3));
  const auto product = client_.Matmul(inputs(), options);
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_EQ(product->d->bytes(), "abcdefgh");
  const v1::StridedBatch batch = server_.requests().at(0).header().batch();
  EXPECT_EQ(batch.count(), 3U);
  EXPECT_EQ(batch.b_stride(), 4U);
  ASSERT_EQ(batch.row_ends_size(), 3);
  EXPECT_EQ(batch.row_ends(2), 4U);
  // A server that does not know them computes another product.
  server_.Then(answer(0));
  EXPECT_EQ(client_.Matmul(inputs(), options).status().code(), absl::StatusCode::kUnimplemented);
}

TEST_F(ClientTest, AMatrixOfAStackIsNamedByItsPlace) {
  server_.Then(Answer(2, 2, "abcd"));
  MatmulInputs inputs{Int8(2, 2, "aaaa"),
                      StackedOperand{OperandName{"experts-1", {}}, {DataType::kInt8, 2, 2}, 5}};
  ASSERT_TRUE(client_.Matmul(std::move(inputs), {}).ok());
  const v1::Operand b = server_.requests().at(0).header().b();
  EXPECT_EQ(b.handle(), "experts-1");
  EXPECT_EQ(b.matrix(), 5U);
  EXPECT_EQ(b.data().rows(), 2U);
  EXPECT_EQ(b.data().type(), v1::INT8);
}

TEST_F(ClientTest, AStackOfTooFewBytesIsNotSent) {
  MatmulOptions options = OfThree();
  options.batch->a_stride = 6;
  absl::Status status = client_.Matmul(ThreeProducts(), options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("a has 14 bytes: 3 matrices of 2 x 2 int8 row-major at stride 6 take 16"));
  options = OfThree();
  options.batch->b_stride = 4;
  status = client_.Matmul(ThreeProducts(), options).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("b has 4 bytes"));
  // Scales of each matrix, tightly packed.
  MatmulInputs scaled = ThreeProducts();
  const MatrixFormat one{DataType::kF32, 1, 1, Order::kRowMajor, 0};
  std::get<InlineOperand>(scaled.a).scales = *Matrix::Create(one, "1234");
  status = client_.Matmul(std::move(scaled), OfThree()).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("a.scales has 4 bytes"));
  EXPECT_THAT(server_.requests(), IsEmpty());
}

TEST_F(ClientTest, EachFactorMayBeTransposed) {
  for (const std::uint64_t columns : {2, 4}) {
    server_.Then(Answer(3, columns, std::string(3 * columns, 'd')));
    MatmulOptions options;
    options.transpose_b = true;
    const auto product = client_.Matmul({Int8(3, 2, "aaaaaa"), Int8(4, 2, "bbbbbbbb")}, options);
    EXPECT_EQ(product.ok(), columns == 4) << product.status();
  }
}

TEST_F(ClientTest, NamesTravelInPlaceOfBytesAndTheirProductHasAnyShape) {
  server_.Then(Answer(2, 5, "abcdefghij"));
  const auto product =
      client_.Matmul({OperandName{"left-1", {}}, OperandName{{}, std::string(32, 'x')}});
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_EQ(ToString(product->format), "2 x 5 int8 row-major");
  EXPECT_EQ(product->d->bytes(), "abcdefghij");
  const v1::MatmulRequest request = server_.requests().at(0);
  EXPECT_EQ(request.header().a().handle(), "left-1");
  EXPECT_FALSE(request.header().a().has_data());
  EXPECT_EQ(request.header().b().digest(), std::string(32, 'x'));
  EXPECT_EQ(request.payload_size(), 0);
  // If the result's format is given, the answer must have it.
  server_.Then(Answer(2, 5, "abcdefghij"));
  const MatrixFormat told{DataType::kInt8, 9, 4};
  EXPECT_EQ(
      client_.Matmul({OperandName{"left-1", {}}, OperandName{"right-1", {}, told}}).status().code(),
      absl::StatusCode::kInternal);
}

TEST_F(ClientTest, AResultThatStaysComesAsAHandle) {
  MatmulOptions options;
  options.destination = KeepResult{absl::Milliseconds(1500)};
  server_.Then(AnswerChanged([](v1::MatmulResponse& response) {
    response.clear_payload();
    response.set_handle("kept-1");
  }));
  const auto product = client_.Matmul(TwoByTwo(), options);
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_FALSE(product->d.has_value());
  EXPECT_EQ(product->handle, "kept-1");
  EXPECT_EQ(ToString(product->format), "2 x 2 int8 row-major");
  const auto lease = server_.requests().at(0).header().keep_result().lease();
  EXPECT_EQ(lease.seconds(), 1);
  EXPECT_EQ(lease.nanos(), 500000000);
  for (const bool has_handle : {false, true}) {  // and D comes along
    server_.Then(AnswerChanged([has_handle](v1::MatmulResponse& response) {
      if (has_handle) response.set_handle("kept-1");
    }));
    EXPECT_EQ(client_.Matmul(TwoByTwo(), options).status().code(), absl::StatusCode::kInternal);
  }
}

TEST_F(ClientTest, UnsetOptionsAreLeftToTheServer) {
  server_.Then(Answer(2, 2, "abcd"));
  ASSERT_TRUE(Matmul().ok());
  const v1::MatmulHeader header = server_.requests().at(0).header();
  EXPECT_EQ(header.output_type(), v1::DATA_TYPE_UNSPECIFIED);
  EXPECT_EQ(header.accumulate_type(), v1::DATA_TYPE_UNSPECIFIED);
  EXPECT_FALSE(header.has_c());
  EXPECT_FALSE(header.has_bias());
  EXPECT_FALSE(header.has_verification());
}

TEST_F(ClientTest, ErrorsKeepCodeAndMessage) {
  const std::vector<grpc::StatusCode> codes = {grpc::StatusCode::INVALID_ARGUMENT,
                                               grpc::StatusCode::NOT_FOUND,
                                               grpc::StatusCode::FAILED_PRECONDITION,
                                               grpc::StatusCode::UNIMPLEMENTED,
                                               grpc::StatusCode::INTERNAL,
                                               grpc::StatusCode::UNAUTHENTICATED};
  for (const grpc::StatusCode code : codes) {
    server_.Then(Fail(code, "rows 0: at least 1"));
    const auto product = Matmul();
    EXPECT_EQ(static_cast<int>(product.status().code()), static_cast<int>(code));
    EXPECT_EQ(product.status().message(), "rows 0: at least 1");
  }
  EXPECT_THAT(timer_->delays, IsEmpty());
}

TEST_F(ClientTest, RetriesAsTheServerAsks) {
  server_.Then(Fail(grpc::StatusCode::RESOURCE_EXHAUSTED, "full", "1234"));
  server_.Then(Fail(grpc::StatusCode::UNAVAILABLE, "draining"));
  server_.Then(Answer(2, 2, "abcd"));
  const auto product = Matmul();
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_THAT(timer_->delays, ElementsAre(absl::Milliseconds(1234), absl::Milliseconds(100)));
  EXPECT_EQ(product->receipt.client.attempts, 3);
  EXPECT_EQ(product->receipt.client.waited, absl::Milliseconds(1334));
  EXPECT_EQ(server_.requests().at(2).payload(1).data(), "bbbb");
}

TEST_F(ClientTest, DoesNotRetryWhereTheServerForbidsOrSaysNothing) {
  server_.Then(Fail(grpc::StatusCode::UNAVAILABLE, "gone", "-1"));
  server_.Then(Fail(grpc::StatusCode::UNAVAILABLE, "gone", "soon"));
  server_.Then(Fail(grpc::StatusCode::RESOURCE_EXHAUSTED, "too much"));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(Matmul().ok());
  EXPECT_EQ(server_.requests().size(), 3U);
  EXPECT_THAT(timer_->delays, IsEmpty());
}

TEST_F(ClientTest, GivesUpAfterTheLastAttemptWithTheLastError) {
  const auto attempts = static_cast<std::size_t>(RetryPolicy().max_attempts);
  for (std::size_t i = 1; i <= attempts + 1; ++i) {
    server_.Then(Fail(grpc::StatusCode::UNAVAILABLE, absl::StrCat("failure ", i)));
  }
  const auto product = Matmul();
  EXPECT_EQ(product.status(), absl::UnavailableError(absl::StrCat("failure ", attempts)));
  EXPECT_EQ(server_.requests().size(), attempts);
}

// The attempt that failed may have replaced C.
TEST_F(ClientTest, AProductInPlaceIsNotTriedAgainWhereItMayHaveBeenComputed) {
  std::string memory(64, 'm');
  SharedPlace place{v1::SharedMemory(), Bytes(nullptr, memory)};
  place.memory.set_region("r");
  const MatrixFormat format{DataType::kInt8, 2, 2};
  MatmulInputs inputs = TwoByTwo();
  inputs.c = SharedOperand{place, format};
  MatmulOptions options;
  options.beta = 1;
  options.destination = place;
  server_.Then(Fail(grpc::StatusCode::RESOURCE_EXHAUSTED, "full", "1"));
  server_.Then(Fail(grpc::StatusCode::UNAVAILABLE, "gone"));
  const absl::Status status = client_.Matmul(inputs, options).status();
  EXPECT_EQ(status, absl::UnavailableError("gone; it was not tried again, because output is c, "
                                           "which the product may have replaced"));
  EXPECT_EQ(server_.requests().size(), 2U);
  // C is not read, or is elsewhere.
  options.beta = 0;
  server_.Then(Fail(grpc::StatusCode::UNAVAILABLE, "gone"));
  EXPECT_FALSE(absl::IsUnavailable(client_.Matmul(inputs, options).status()));
  options.beta = 1;
  std::get<SharedOperand>(*inputs.c).place.memory.set_offset_bytes(8);
  server_.Then(Fail(grpc::StatusCode::UNAVAILABLE, "gone"));
  EXPECT_FALSE(absl::IsUnavailable(client_.Matmul(inputs, options).status()));
}

TEST_F(ClientTest, AnOperandThatTheServerWouldOverwriteIsNotSent) {
  std::string memory(64, 'm');
  const auto at = [&memory](std::size_t offset) {
    return *Matrix::Create(MatrixFormat{DataType::kInt8, 2, 2},
                           Bytes(nullptr, absl::string_view(memory).substr(offset, 4)));
  };
  MatmulOptions options;
  options.output_type = DataType::kInt8;
  options.destination =
      SharedPlace{v1::SharedMemory(), Bytes(nullptr, absl::string_view(memory).substr(16))};
  for (const std::size_t offset : {12, 13, 16, 19, 20}) {
    const bool is_free = offset == 12 || offset == 20;
    for (const char* name : {"a", "b", "c", "bias", "resident"}) {
      MatmulInputs inputs = TwoByTwo();
      const absl::string_view which = name;
      if (which == "a") inputs.a = at(offset);
      if (which == "b") inputs.b = at(offset);
      if (which == "c") inputs.c = at(offset);
      if (which == "bias") inputs.bias = at(offset);
      if (which == "resident") inputs.b = *OperandSource::Create(at(offset));
      const absl::Status fault = Encode(inputs, options)->fault;
      EXPECT_EQ(fault.ok(), is_free) << name << " at " << offset << ": " << fault;
      EXPECT_TRUE(is_free || absl::StrContains(fault.message(), name)) << fault;
    }
  }
  MatmulInputs inputs{at(16), Int8(2, 2, "bbbb")};
  EXPECT_EQ(client_.Matmul(inputs, options).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(server_.requests(), IsEmpty());
}

TEST_F(ClientTest, DoesNotWaitBeyondItsDeadline) {
  server_.Then(Fail(grpc::StatusCode::RESOURCE_EXHAUSTED, "full", "50000"));
  CallOptions call;
  call.timeout = absl::Seconds(40);
  const absl::Status status = Matmul(call).status();
  EXPECT_EQ(absl::StatusCode::kResourceExhausted, status.code());
  EXPECT_EQ("full", status.message());
  EXPECT_EQ(absl::Seconds(50), RetryAfterOf(status));
  EXPECT_THAT(timer_->delays, IsEmpty());
}

TEST_F(ClientTest, TheServerSeesTheDeadline) {
  absl::Duration left;
  server_.Then(
      [&left](grpc::ServerContext& context, const v1::MatmulRequest&, v1::MatmulResponse&) {
        left = absl::FromChrono(context.deadline()) - absl::Now();
        return grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "cannot be met");
      });
  CallOptions call;
  call.timeout = absl::Minutes(10);
  EXPECT_EQ(Matmul(call).status(), absl::DeadlineExceededError("cannot be met"));
  // gRPC rounds a long timeout up on its way.
  EXPECT_LE(left, absl::Minutes(11));
  EXPECT_GT(left, absl::Minutes(5));
}

// The server never answers, so nothing but the deadline can end the call.
TEST_F(ClientTest, ADeadlineEndsTheCall) {
  server_.Then([](grpc::ServerContext& context, const v1::MatmulRequest&, v1::MatmulResponse&) {
    while (!context.IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
    return grpc::Status::CANCELLED;
  });
  CallOptions call;
  call.timeout = absl::ZeroDuration();
  EXPECT_EQ(Matmul(call).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(ClientTest, NobodyListeningIsUnavailable) {
  ClientOptions options = Options();
  options.channel.target = "127.0.0.1:1";
  Client client(options);
  EXPECT_EQ(client.Matmul(TwoByTwo()).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(timer_->delays.size(), RetryPolicy().max_attempts - 1U);
}

// A far or busy server answers a new connection late, which is no reason to dial again.
TEST_F(ClientTest, ASlowConnectionIsWaitedFor) {
  const testing::SilentListener listener;
  ClientOptions options = Options();
  options.channel.target = listener.target();
  Client client(options);
  CallOptions call;
  call.timeout = absl::Milliseconds(700);
  EXPECT_EQ(client.ServerInfo(call).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(timer_->delays, IsEmpty());
}

TEST_F(ClientTest, AlarmsRetryToo) {
  ClientOptions options = Options();
  options.timer = nullptr;
  Client client(options);
  server_.Then(Fail(grpc::StatusCode::UNAVAILABLE, "draining", "1"));
  server_.Then(Answer(2, 2, "abcd"));
  EXPECT_TRUE(client.Matmul(TwoByTwo()).ok());
}

TEST_F(ClientTest, ManyCallsAtOnceEachFinishOnce) {
  constexpr int kCalls = 64;
  std::vector<std::promise<std::string>> results(kCalls);
  for (int i = 0; i < kCalls; ++i) server_.Then(Answer(2, 2, "abcd"));
  {
    Client client(Options());
    for (auto& result : results) {
      client.MatmulAsync(TwoByTwo(), {}, {}, [&result](absl::StatusOr<Product> product) {
        result.set_value(product.ok() ? std::string(product->d->bytes())
                                      : product.status().ToString());
      });
    }
    // Its end waits for them all.
  }
  for (auto& result : results) EXPECT_EQ(result.get_future().get(), "abcd");
}

TEST_F(ClientTest, AMessageOverTheServersLimitSaysSizeAndLimit) {
  ScriptedServer::Options small;
  small.max_message_bytes = 1000;
  ScriptedServer server(small);
  ClientOptions options = Options();
  options.channel.target = server.target();
  Client client(options);
  const auto product = client.Matmul(
      MatmulInputs{Int8(100, 100, std::string(10000, 'a')), Int8(100, 1, std::string(100, 'b'))});
  EXPECT_EQ(product.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(product.status().message()),
      AllOf(HasSubstr("a message of 101"), HasSubstr("bytes, but the server accepts at most 1000"),
            HasSubstr("ServerInfo.limits.message_bytes")));
  EXPECT_THAT(timer_->delays, IsEmpty());
}

TEST_F(ClientTest, ChunksAreJoinedByTheirOffsets) {
  server_.Then(AnswerChanged([](v1::MatmulResponse& response) {
    response.mutable_payload(0)->set_data("cd");
    response.mutable_payload(0)->set_offset_bytes(2);
    response.add_payload()->set_data("ab");
    response.mutable_payload(1)->set_operand(v1::D);
  }));
  const auto product = Matmul();
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_EQ(product->d->bytes(), "abcd");
}

TEST_F(ClientTest, PaddingOfTheLastLineIsDropped) {
  for (const char* bytes : {"ab.cd", "ab.cd."}) {
    server_.Then(AnswerChanged([bytes](v1::MatmulResponse& response) {
      response.mutable_d()->set_leading_dimension(3);
      response.mutable_payload(0)->set_data(bytes);
    }));
    const auto product = Matmul();
    ASSERT_TRUE(product.ok()) << product.status();
    EXPECT_EQ(product->d->bytes(), "ab.cd");
  }
}

TEST_F(ClientTest, AResponseThatContradictsItselfOrTheRequestIsInternal) {
  using Change = std::function<void(v1::MatmulResponse&)>;
  const std::vector<std::pair<Change, const char*>> cases = {
      {[](auto& r) { r.clear_payload(); }, "takes 4 bytes, but 0 came"},
      {[](auto& r) { r.set_handle("kept-1"); }, "it has a handle, and nothing was to be kept"},
      {[](auto& r) { r.mutable_payload(0)->set_data("abc"); }, "takes 4 bytes, but 3 came"},
      {[](auto& r) { r.mutable_payload(0)->set_data("abcde"); },
       "a chunk of 5 bytes at byte 0 reaches beyond D, 2 x 2 int8 row-major of 4 bytes"},
      {[](auto& r) { r.mutable_payload(0)->set_offset_bytes(1); },
       "a chunk of 4 bytes at byte 1 reaches beyond D"},
      {[](auto& r) {
         r.mutable_payload(0)->set_data("abc");
         r.mutable_payload(0)->set_offset_bytes(1);
       },
       "takes 4 bytes, but 3 came"},
      {[](auto& r) { r.mutable_payload(0)->set_offset_bytes(UINT64_MAX); },
       "at byte 18446744073709551615 reaches beyond"},
      {[](auto& r) { *r.add_payload() = r.payload(0); },
       "a chunk of 4 bytes at byte 0 holds some that came before"},
      {[](auto& r) {
         *r.add_payload() = r.payload(0);
         r.mutable_payload(1)->set_offset_bytes(3);
       },
       "a chunk of 4 bytes at byte 3 reaches beyond"},
      {[](auto& r) { r.mutable_payload(0)->set_operand(v1::A); }, "something else than the data"},
      {[](auto& r) { r.mutable_payload(0)->set_plane(v1::SCALES); },
       "something else than the data"},
      {[](auto& r) { r.clear_d(); }, "data type 0, unknown here"},
      {[](auto& r) { r.mutable_d()->set_type(static_cast<v1::DataType>(99)); }, "data type 99"},
      {[](auto& r) { r.mutable_d()->set_order(static_cast<v1::Order>(9)); }, "order 9"},
      {[](auto& r) { r.mutable_d()->set_rows(4), r.mutable_d()->set_columns(1); },
       "D is 4 x 1 int8 row-major, but 2 x 2 int8 row-major was asked for"},
      {[](auto& r) { r.mutable_d()->set_order(v1::COLUMN_MAJOR); }, "was asked for"},
      {[](auto& r) { r.mutable_d()->set_leading_dimension(1); }, "leading dimension 1: at least 2"},
      {[](auto& r) { r.mutable_d()->set_leading_dimension(UINT64_MAX); }, "overflows"},
      {[](auto& r) { r.mutable_d()->set_leading_dimension(1ULL << 40); }, "but 4 came"},
  };
  for (const auto& [change, message] : cases) {
    SCOPED_TRACE(message);
    server_.Then(AnswerChanged(change));
    const auto product = Matmul();
    EXPECT_EQ(product.status().code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(product.status().message()), HasSubstr(message));
  }
}

TEST_F(ClientTest, AnotherTypeThanAskedForIsInternal) {
  server_.Then(Answer(2, 2, "abcd"));
  MatmulOptions options;
  options.output_type = DataType::kInt32;
  EXPECT_THAT(std::string(client_.Matmul(TwoByTwo(), options).status().message()),
              HasSubstr("2 x 2 int32 row-major was asked for"));
}

TEST_F(ClientTest, AsksAdmin) {
  server_.server_info.set_version("1.2.3");
  server_.kernels.add_kernels()->set_name("cpu/test");
  server_.statistics.set_received_requests(9);
  EXPECT_EQ(client_.ServerInfo()->version(), "1.2.3");
  v1::ListKernelsRequest request;
  request.mutable_explain()->set_m(5);
  EXPECT_EQ(client_.ListKernels(request)->kernels(0).name(), "cpu/test");
  EXPECT_EQ(server_.last_list_kernels.explain().m(), 5U);
  EXPECT_EQ(client_.Statistics()->received_requests(), 9U);
  server_.admin_status = grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "not yours");
  EXPECT_EQ(client_.ServerInfo().status(), absl::PermissionDeniedError("not yours"));
}

TEST(ClientTlsTest, ChecksTheServerAndShowsItsOwnCertificate) {
  const load::CertifiedKey server_key = load::MakeSelfSigned("gemmd.test");
  const load::CertifiedKey client_key = load::MakeSelfSigned("caller.test");
  grpc::SslServerCredentialsOptions tls(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  tls.pem_root_certs = client_key.certificate;
  tls.pem_key_cert_pairs.push_back({server_key.key, server_key.certificate});
  ScriptedServer::Options server_options;
  server_options.credentials = grpc::SslServerCredentials(tls);
  ScriptedServer server(server_options);
  server.server_info.set_version("1.2.3");

  ClientOptions options;
  options.channel.target = server.target();
  options.retry.max_attempts = 1;
  options.channel.tls =
      TlsOptions{server_key.certificate, client_key.certificate, client_key.key, "gemmd.test"};
  const auto info = Client(options).ServerInfo();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->version(), "1.2.3");

  ClientOptions wrong_name = options;
  wrong_name.channel.tls->server_name_override = "else.test";
  EXPECT_EQ(Client(wrong_name).ServerInfo().status().code(), absl::StatusCode::kUnavailable);
  ClientOptions wrong_root = options;
  wrong_root.channel.tls->root_certificates = client_key.certificate;
  EXPECT_EQ(Client(wrong_root).ServerInfo().status().code(), absl::StatusCode::kUnavailable);
  ClientOptions plaintext = options;
  plaintext.channel.tls.reset();
  EXPECT_EQ(Client(plaintext).ServerInfo().status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace gemmd::client
