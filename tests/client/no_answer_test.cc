// Calls that end with OK and without an answer, as a connection that breaks right behind one makes
// them: they are tried again, and none of them is taken for an answer.
#include <atomic>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "client/client.h"
#include "client/operands.h"
#include "gemmd/v1/operands.pb.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

// Reads what comes, and ends with OK. Only FindMissing is answered: all is missing.
class Silent final : public grpc::CallbackGenericService {
 public:
  explicit Silent(std::string digest) : digest_(std::move(digest)) {}

  std::atomic<int> uploads = 0;
  std::atomic<int> others = 0;

 private:
  class Call final : public grpc::ServerGenericBidiReactor {
   public:
    explicit Call(std::string answer) : answer_(std::move(answer)) { StartRead(&request_); }
    void OnReadDone(bool ok) override {
      if (ok) return StartRead(&request_);
      if (answer_.empty()) return Finish(grpc::Status::OK);
      const grpc::Slice slice(answer_);
      message_ = grpc::ByteBuffer(&slice, 1);
      StartWriteAndFinish(&message_, grpc::WriteOptions(), grpc::Status::OK);
    }
    void OnDone() override { delete this; }

   private:
    const std::string answer_;
    grpc::ByteBuffer request_;
    grpc::ByteBuffer message_;
  };

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    std::string answer;
    if (absl::EndsWith(context->method(), "/FindMissing")) {
      v1::FindMissingResponse missing;
      missing.add_missing(digest_);
      answer = missing.SerializeAsString();
    } else {
      ++(absl::EndsWith(context->method(), "/Upload") ? uploads : others);
    }
    return new Call(std::move(answer));
  }

  const std::string digest_;
};

client::OperandSource Source() {
  const client::MatrixFormat format{DataType::kF32, 2, 2};
  return *client::OperandSource::Create(
      client::InlineOperand(*client::Matrix::Create(format, std::string(16, '\0'))));
}

class NoAnswerTest : public ::testing::Test {
 protected:
  NoAnswerTest() : service_(Source().digest()) {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
    options_.channel.target = "127.0.0.1:" + std::to_string(port);
    options_.retry.max_attempts = 3;
    options_.retry.initial_backoff = options_.retry.max_backoff = absl::Milliseconds(1);
    options_.route.transport = client::Transport::kUnary;
  }

  Silent service_;
  std::unique_ptr<grpc::Server> server_;
  client::ClientOptions options_;
};

TEST_F(NoAnswerTest, UploadsAreTriedAgain) {
  client::Operands operands(options_);
  const absl::Status status = operands.Put(Source()).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(service_.uploads, 3);
}

TEST_F(NoAnswerTest, DownloadsAndQuestionsAreTriedAgain) {
  client::Operands operands(options_);
  EXPECT_TRUE(absl::IsUnavailable(operands.Get(client::ParseOperandName("w")).status()));
  EXPECT_EQ(service_.others, 3);
  EXPECT_TRUE(absl::IsUnavailable(operands.List().status()));
  EXPECT_EQ(service_.others, 6);
}

TEST_F(NoAnswerTest, ProductsAreTriedAgain) {
  client::Client client(options_);
  const client::Matrix matrix =
      *client::Matrix::Create({DataType::kF32, 2, 2}, std::string(16, '\0'));
  const absl::Status status =
      client.Matmul({client::InlineOperand(matrix), client::InlineOperand(matrix)}, {}).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(service_.others, 3);
}

}  // namespace
}  // namespace gemmd
