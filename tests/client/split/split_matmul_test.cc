// A product over servers that answer as a script says.
#include "client/split/split_matmul.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "client/client.h"
#include "client/details.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/recording_timer.h"
#include "tests/client/testing/scripted_server.h"

namespace gemmd::client {
namespace {

using ::gemmd::testing::Answer;
using ::gemmd::testing::Fail;
using ::gemmd::testing::RecordingTimer;
using ::gemmd::testing::ScriptedServer;
using ::gemmd::testing::Step;
using grpc::StatusCode;
using ::testing::HasSubstr;
using ::testing::SizeIs;

Matrix Int8(std::uint64_t rows, std::string bytes) {
  return *Matrix::Create(MatrixFormat{DataType::kInt8, rows, 2, Order::kRowMajor, 0},
                         std::move(bytes));
}

// Four rows, of which each of two servers has two.
MatmulInputs FourByTwo() { return MatmulInputs{Int8(4, "aabbccdd"), Int8(2, "wwww")}; }

Step AnswerWithId(const std::string& bytes, const std::string& numerics_id) {
  return [=](grpc::ServerContext& context, const v1::MatmulRequest& request,
             v1::MatmulResponse& response) {
    grpc::Status status = Answer(2, 2, bytes)(context, request, response);
    response.mutable_receipt()->set_numerics_id(numerics_id);
    return status;
  };
}

// Never answers.
grpc::Status Hang(grpc::ServerContext& context, const v1::MatmulRequest& /*request*/,
                  v1::MatmulResponse& /*response*/) {
  while (!context.IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return grpc::Status::CANCELLED;
}

// A server over streams. It answers the first two rows of D with "1234", and the others with
// "5678".
class StreamedParts final : private v1::Gemm::Service {
 public:
  StreamedParts() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }

  std::string target() const { return absl::StrCat("127.0.0.1:", port_); }

  // Before each answer; stalls in the middle of it if it returns true.
  std::function<bool()> stalls = [] { return false; };
  // When half of an answer has been sent.
  std::function<void()> on_half = [] {};

 private:
  using Stream = grpc::ServerReaderWriter<v1::MatmulStreamResponse, v1::MatmulStreamRequest>;

  grpc::Status MatmulStream(grpc::ServerContext* /*context*/, Stream* stream) override {
    v1::MatmulStreamRequest message;
    while (stream->Read(&message)) {
      if (message.has_begin()) Answer(message.begin(), stream);
    }
    return grpc::Status::OK;
  }

  void Answer(const v1::MatmulStreamRequest::Begin& begin, Stream* stream) {
    const std::string d = begin.payload(0).data() == "aabb" ? "1234" : "5678";
    const bool must_stall = stalls();
    v1::MatmulStreamResponse response;
    v1::MatmulStreamResponse::Finished& finished = *response.mutable_finished();
    finished.set_request_id(begin.request_id());
    finished.mutable_d()->set_type(v1::INT8);
    finished.mutable_d()->set_rows(2);
    finished.mutable_d()->set_columns(2);
    finished.mutable_receipt()->set_numerics_id("test/1");
    stream->Write(response);
    SendChunk(begin.request_id(), 0, d.substr(0, 2), stream);
    on_half();
    if (!must_stall) SendChunk(begin.request_id(), 2, d.substr(2), stream);
  }

  static void SendChunk(std::uint64_t request_id, std::uint64_t offset, const std::string& bytes,
                        Stream* stream) {
    v1::MatmulStreamResponse response;
    response.mutable_chunk()->set_request_id(request_id);
    response.mutable_chunk()->set_operand(v1::D);
    response.mutable_chunk()->set_offset_bytes(offset);
    response.mutable_chunk()->set_data(bytes);
    stream->Write(response);
  }

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class SplitMatmulTest : public ::testing::Test {
 protected:
  SplitMatmulTest() {
    policy_.cut.tile_rows = 1;
    policy_.cut.least_part_flops = 1;
    policy_.hedge.after_at_least = absl::Hours(1);
    options_.servers = {one_.target(), two_.target()};
    options_.timer = timer_;
  }

  absl::StatusOr<SplitProduct> Split(const MatmulInputs& inputs, const CallOptions& call = {}) {
    Client client(options_);
    absl::StatusOr<SplitProduct> product = SplitMatmul(client, inputs, {}, call, policy_);
    for (const ServerState& state : client.States()) EXPECT_EQ(state.in_flight, 0);
    return product;
  }

  ScriptedServer one_;
  ScriptedServer two_;
  std::shared_ptr<RecordingTimer> timer_ = std::make_shared<RecordingTimer>();
  ClientOptions options_;
  SplitPolicy policy_;
};

TEST_F(SplitMatmulTest, EachServerComputesItsRowsAndDIsPutTogether) {
  one_.Then(Answer(2, 2, "1234"));
  two_.Then(Answer(2, 2, "5678"));
  const auto product = Split(FourByTwo());
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_EQ(product->d.bytes(), "12345678");
  EXPECT_EQ(product->d.format().rows, 4u);
  EXPECT_EQ(product->numerics_id(), "test/1");
  EXPECT_EQ(product->flops(), 4e3);
  EXPECT_EQ(one_.requests()[0].payload(0).data(), "aabb");
  EXPECT_EQ(two_.requests()[0].payload(0).data(), "ccdd");
  EXPECT_EQ(two_.requests()[0].header().a().data().rows(), 2u);
  ASSERT_THAT(product->parts, SizeIs(2));
  EXPECT_EQ(product->parts[0].receipt.address, one_.target());
  EXPECT_EQ(product->parts[1].receipt.address, two_.target());
  EXPECT_EQ(product->parts[1].rows.begin, 2u);
  EXPECT_EQ(product->parts[1].rows.end, 4u);
  for (const SplitPart& part : product->parts) EXPECT_FALSE(part.was_copied);
}

TEST_F(SplitMatmulTest, OneServerComputesAll) {
  options_.servers.clear();
  options_.channel.target = one_.target();
  one_.Then(Answer(4, 2, "12345678"));
  const auto product = Split(FourByTwo());
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_EQ(product->d.bytes(), "12345678");
  EXPECT_THAT(product->parts, SizeIs(1));
}

TEST_F(SplitMatmulTest, WithoutAServerItSaysWhy) {
  options_.servers = {one_.target(), ""};
  const absl::Status status = Split(FourByTwo()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("entry 2 of servers is \"\""));
}

TEST_F(SplitMatmulTest, APartAloneGoesElsewhereWhereItsServerIsAway) {
  one_.Then(Answer(2, 2, "1234"));
  two_.Then(Fail(StatusCode::UNAVAILABLE, "the device is lost"));
  one_.Then(Answer(2, 2, "5678"));
  const auto product = Split(FourByTwo());
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_THAT(one_.requests(), SizeIs(2));
  EXPECT_THAT(two_.requests(), SizeIs(1));
  EXPECT_EQ(product->parts[0].receipt.client.attempts + product->parts[1].receipt.client.attempts,
            3);
  EXPECT_EQ(product->parts[1].receipt.address, one_.target());
}

TEST_F(SplitMatmulTest, ARefusalEndsTheOtherPartAndNamesTheRows) {
  one_.Then(Hang);
  two_.Then(Fail(StatusCode::INVALID_ARGUMENT, "b.rows is 2"));
  const absl::Status status = Split(FourByTwo()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "rows 2 to 4 of D: b.rows is 2");
  EXPECT_EQ(ServerOf(status), two_.target());
}

TEST_F(SplitMatmulTest, AServerThatIsStuckIsHedged) {
  policy_.hedge.after_at_least = absl::Milliseconds(1);
  for (ScriptedServer* stuck : {&one_, &two_}) {
    ScriptedServer& other = stuck == &one_ ? two_ : one_;
    stuck->Then(Hang);
    other.Then(Answer(2, 2, stuck == &one_ ? "5678" : "1234"));
    other.Then(Answer(2, 2, stuck == &one_ ? "1234" : "5678"));
    const auto product = Split(FourByTwo());
    ASSERT_TRUE(product.ok()) << product.status();
    EXPECT_EQ(product->d.bytes(), "12345678");
    for (const SplitPart& part : product->parts) {
      EXPECT_EQ(part.receipt.address, other.target());
      EXPECT_EQ(part.is_hedged, part.rows.begin == (stuck == &one_ ? 0u : 2u));
      EXPECT_FALSE(part.was_copied);
    }
  }
}

TEST_F(SplitMatmulTest, AnAnswerThatComesWhileAnotherIsWrittenIsCopied) {
  policy_.hedge.after_at_least = absl::Milliseconds(1);
  int copied = 0;
  for (int i = 0; i < 20; ++i) {
    StreamedParts one;
    StreamedParts two;
    absl::Notification half;
    two.stalls = [] { return true; };
    two.on_half = [&half] { half.Notify(); };
    one.stalls = [&half] {
      half.WaitForNotification();
      return false;
    };
    options_.servers = {one.target(), two.target()};
    options_.route.transport = Transport::kStream;
    Client client(options_);
    const auto product = SplitMatmul(client, FourByTwo(), {}, {}, policy_);
    ASSERT_TRUE(product.ok()) << product.status();
    EXPECT_EQ(product->d.bytes(), "12345678");
    EXPECT_TRUE(product->parts[1].is_hedged);
    if (product->parts[1].was_copied) ++copied;
  }
  EXPECT_GT(copied, 0);
}

TEST_F(SplitMatmulTest, TheDeadlineIsThatOfAllParts) {
  policy_.hedge.most_parts = 0;
  one_.Then(Answer(2, 2, "1234"));
  two_.Then(Hang);
  CallOptions call;
  call.timeout = absl::Milliseconds(300);
  EXPECT_EQ(Split(FourByTwo(), call).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(SplitMatmulTest, RowsWithAnotherNumericsIdAreComputedAnew) {
  one_.Then(AnswerWithId("1234", "id"));
  two_.Then(AnswerWithId("xxxx", "odd"));
  one_.Then(AnswerWithId("5678", "id"));
  const auto product = Split(FourByTwo());
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_EQ(product->d.bytes(), "12345678");
  EXPECT_EQ(product->parts[0].repeats, 0);
  EXPECT_EQ(product->parts[1].repeats, 1);
  EXPECT_EQ(product->parts[1].receipt.address, one_.target());
}

TEST_F(SplitMatmulTest, AnswersOfTwoNumericsIdsAreNoProduct) {
  one_.Then(AnswerWithId("1234", "id"));
  two_.Then(AnswerWithId("xxxx", "odd"));
  for (int i = 0; i < 2; ++i) one_.Then(AnswerWithId("xxxx", "odd"));
  const absl::Status status = Split(FourByTwo()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("rows 2 to 4 of D have numerics id \"odd\" of ", one_.target(),
                                     ", and others \"id\" of ", one_.target())));
}

TEST_F(SplitMatmulTest, ADOfAnotherTypeIsNoPart) {
  one_.Then(Answer(2, 2, "1234"));
  two_.Then([](grpc::ServerContext& context, const v1::MatmulRequest& request,
               v1::MatmulResponse& response) {
    grpc::Status status = Answer(2, 2, "56785678")(context, request, response);
    response.mutable_d()->set_type(v1::F16);
    return status;
  });
  EXPECT_EQ(Split(FourByTwo()).status().code(), absl::StatusCode::kInternal);
}

TEST_F(SplitMatmulTest, WhatCannotBeSplitIsRefusedBeforeAnythingIsSent) {
  CallOptions call;
  call.server = one_.target();
  EXPECT_THAT(std::string(Split(FourByTwo(), call).status().message()), HasSubstr("server is \""));
  MatmulInputs inputs = FourByTwo();
  inputs.b = OperandName{"a1b2c3d4-7", {}};
  EXPECT_EQ(Split(inputs).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(one_.requests(), SizeIs(0));
}

}  // namespace
}  // namespace gemmd::client
