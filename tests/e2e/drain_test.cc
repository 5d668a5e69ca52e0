// SIGTERM, or an operator's call, while payloads arrive: what was let in by its header or its begin
// is finished, and nothing else is.
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "base/digest/operand_digest.h"
#include "gemmd/v1/admin.grpc.pb.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "gemmd/v1/operands.grpc.pb.h"
#include "gemmd/v1/status.pb.h"
#include "gtest/gtest.h"
#include "tests/abuse/raw_http2.h"
#include "tests/client/testing/temporary_directory.h"
#include "tests/testing/raw_call.h"
#include "tests/testing/server_process.h"
#include "tests/testing/token_entry.h"
#include "tests/testing/wire.h"

namespace gemmd {
namespace {

using grpc::StatusCode;

constexpr std::uint64_t kRows = 8;  // of a column of int8

void ExpectToldToGo(const grpc::Status& status) {
  EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "the server is draining: use another replica");
  v1::StatusDetails details;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  EXPECT_EQ(details.code(), StatusCode::UNAVAILABLE);
  ASSERT_EQ(details.details_size(), 1);
  EXPECT_TRUE(details.details(0).Is<v1::Draining>());
}

class DrainTest : public ::testing::Test {
 protected:
  // A call in the midst of its payload.
  struct Stream {
    explicit Stream(v1::Gemm::Stub* stub, const std::string& token = "") {
      if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
      call = stub->MatmulStream(&context);
    }

    void Begin(std::uint64_t id, const v1::MatmulRequest& request) {
      v1::MatmulStreamRequest message;
      message.mutable_begin()->set_request_id(id);
      message.mutable_begin()->set_await_accepted(true);
      *message.mutable_begin()->mutable_header() = request.header();
      ASSERT_TRUE(call->Write(message));
    }
    void SendPayload(std::uint64_t id, const v1::MatmulRequest& request) {
      for (const v1::Chunk& chunk : request.payload()) {
        v1::MatmulStreamRequest message;
        *message.mutable_chunk() = chunk;
        message.mutable_chunk()->set_request_id(id);
        ASSERT_TRUE(call->Write(message));
      }
    }
    v1::MatmulStreamResponse Read() {
      v1::MatmulStreamResponse response;
      EXPECT_TRUE(call->Read(&response));
      return response;
    }

    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<v1::MatmulStreamRequest, v1::MatmulStreamResponse>>
        call;
  };

  struct Upload {
    Upload(v1::Operands::Stub* stub, const std::string& bytes)
        : call(stub->Upload(&context, &response)) {
      const std::uint64_t rows = bytes.size();
      const DigestPlane plane{0,    DataType::kInt8,    rows, 1, Order::kRowMajor,
                              rows, ChunkDigests(bytes)};
      const Sha256Digest digest = OperandDigest(DataType::kInt8, {plane});
      v1::UploadRequest message;
      message.mutable_begin()->set_digest(std::string(digest.begin(), digest.end()));
      v1::Plane* const data = message.mutable_begin()->mutable_operand()->mutable_data();
      data->set_type(v1::INT8);
      data->set_rows(rows);
      data->set_columns(1);
      call->Write(message);
    }
    grpc::Status Send(const std::string& bytes) {
      constexpr std::size_t kChunk = 1 << 20;
      for (std::size_t at = 0; at < bytes.size(); at += kChunk) {
        v1::UploadRequest message;
        message.mutable_chunk()->set_offset_bytes(at);
        message.mutable_chunk()->set_data(bytes.substr(at, kChunk));
        call->Write(message);
      }
      call->WritesDone();
      return call->Finish();
    }

    grpc::ClientContext context;
    v1::UploadResponse response;
    std::unique_ptr<grpc::ClientWriter<v1::UploadRequest>> call;
  };

  void Start(std::vector<std::string> flags = {}) {
    flags.emplace_back("--cpu.threads=1");
    server_ = std::make_unique<testing::ServerProcess>(std::move(flags));
    ASSERT_NE(server_->address(), "");
    channel_ = server_->NewChannel();
    gemm_ = v1::Gemm::NewStub(channel_);
    operands_ = v1::Operands::NewStub(channel_);
    admin_ = v1::Admin::NewStub(channel_);
  }

  void WaitForUploads(std::uint64_t count) {
    v1::StatisticsResponse statistics;
    do {
      grpc::ClientContext context;
      ASSERT_TRUE(admin_->Statistics(&context, {}, &statistics).ok());
    } while (statistics.operands().partial_uploads() < count);
  }

  void WaitUntilDraining() {
    v1::ServerInfoResponse info;
    do {
      grpc::ClientContext context;
      ASSERT_TRUE(admin_->ServerInfo(&context, {}, &info).ok());
    } while (!info.draining());
  }

  bool HasLogged(const std::string& text) const {
    return server_->log().find(text) != std::string::npos;
  }

  const v1::MatmulRequest request_ = testing::ZeroRequest(100);
  std::unique_ptr<testing::ServerProcess> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Gemm::Stub> gemm_;
  std::unique_ptr<v1::Operands::Stub> operands_;
  std::unique_ptr<v1::Admin::Stub> admin_;
};

TEST_F(DrainTest, ARequestThatItsHeaderLetInIsFinishedAndNoOtherIsTaken) {
  Start();
  Stream stream(gemm_.get());
  stream.Begin(1, request_);
  ASSERT_EQ(stream.Read().accepted().request_id(), 1u);
  server_->Signal(SIGTERM);
  WaitUntilDraining();
  {
    grpc::ClientContext context;
    v1::MatmulResponse response;
    const grpc::Status status = gemm_->Matmul(&context, request_, &response);
    ExpectToldToGo(status);
  }
  const testing::RawAnswer health =
      testing::RawUnaryCall(channel_, "/grpc.health.v1.Health/Check", "");
  EXPECT_EQ(health.bytes, std::string("\x08\x02", 2));  // NOT_SERVING
  stream.Begin(2, request_);
  EXPECT_EQ(stream.Read().finished().code(), StatusCode::UNAVAILABLE);
  stream.SendPayload(1, request_);
  const v1::MatmulStreamResponse answer = stream.Read();
  EXPECT_EQ(answer.finished().request_id(), 1u);
  EXPECT_EQ(answer.finished().code(), StatusCode::OK) << answer.finished().message();
  const grpc::Status end = stream.call->Finish();
  ExpectToldToGo(end);
  EXPECT_EQ(server_->WaitForExit(), 0);
  EXPECT_TRUE(HasLogged("\"event\":\"drained\""));
  EXPECT_FALSE(HasLogged("answers_not_delivered"));
}

// A call is the server's from its headers on, as the drain counts it.
TEST_F(DrainTest, ACallThatCameIsFinishedThoughItsMessageIsStillComing) {
  Start();
  testing::RawConnection connection(server_->address());
  const std::uint32_t call = connection.Begin("/gemmd.v1.Gemm/Matmul");
  const std::string message =
      testing::RawMessage(false, testing::ZeroRequest(32).SerializeAsString());
  connection.Send(call, message.substr(0, 100), false);
  v1::StatisticsResponse statistics;
  while (statistics.received_requests() == 0) {
    grpc::ClientContext context;
    ASSERT_TRUE(admin_->Statistics(&context, {}, &statistics).ok());
  }
  server_->Signal(SIGTERM);
  WaitUntilDraining();
  connection.Send(call, message.substr(100), true);
  EXPECT_EQ(testing::RawHeader(connection.ReceiveEnd(call), "grpc-status"), "0");
  EXPECT_EQ(server_->WaitForExit(), 0);
}

// Else a client that comes again and again would hold up the end.
TEST_F(DrainTest, CallsThatComeLaterAreNotWaitedFor) {
  Start({"--lifecycle.send-timeout-ms=5000"});
  Stream stream(gemm_.get());
  stream.Begin(1, request_);
  ASSERT_EQ(stream.Read().accepted().request_id(), 1u);
  server_->Signal(SIGTERM);
  WaitUntilDraining();
  testing::RawConnection late(server_->address());
  late.Begin("/gemmd.v1.Gemm/MatmulStream");
  Stream refused(gemm_.get());
  refused.Begin(2, request_);
  ExpectToldToGo(refused.call->Finish());
  stream.SendPayload(1, request_);
  EXPECT_EQ(stream.Read().finished().code(), StatusCode::OK);
  EXPECT_EQ(server_->WaitForExit(), 0);
  EXPECT_FALSE(HasLogged("\"event\":\"answers_not_delivered\"")) << server_->log();
}

TEST_F(DrainTest, AnUploadThatHasBegunIsFinishedAndNoOtherBegins) {
  Start();
  const std::string bytes(kRows, 'x');
  Upload begun(operands_.get(), bytes);
  WaitForUploads(1);
  server_->Signal(SIGTERM);
  WaitUntilDraining();
  Upload late(operands_.get(), std::string(kRows, 'y'));
  const grpc::Status refused = late.Send(std::string(kRows, 'y'));
  ExpectToldToGo(refused);
  const grpc::Status status = begun.Send(bytes);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_NE(begun.response.resident().handle(), "");
  EXPECT_EQ(server_->WaitForExit(), 0);
}

// Its stream ends, and nobody waits for the rest.
TEST_F(DrainTest, AClientThatGoesIsNotWaitedFor) {
  Start({"--lifecycle.drain-timeout-ms=3600000"});
  auto stream = std::make_unique<Stream>(gemm_.get());
  stream->Begin(1, request_);
  ASSERT_EQ(stream->Read().accepted().request_id(), 1u);
  Upload upload(operands_.get(), std::string(kRows, 'x'));
  WaitForUploads(1);
  server_->Signal(SIGTERM);
  WaitUntilDraining();
  stream->context.TryCancel();
  EXPECT_EQ(stream->call->Finish().error_code(), StatusCode::CANCELLED);
  upload.context.TryCancel();
  EXPECT_EQ(upload.call->Finish().error_code(), StatusCode::CANCELLED);
  EXPECT_EQ(server_->WaitForExit(), 0);
}

TEST_F(DrainTest, TheLogSaysWhatTheTimeoutCut) {
  Start({"--lifecycle.drain-timeout-ms=0"});
  Stream stream(gemm_.get());
  stream.Begin(1, request_);
  ASSERT_EQ(stream.Read().accepted().request_id(), 1u);
  Upload upload(operands_.get(), std::string(kRows, 'x'));
  WaitForUploads(1);
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->WaitForExit(), 3);
  EXPECT_TRUE(
      HasLogged("\"event\":\"draining\",\"signal\":\"SIGTERM\",\"in_flight\":1,"
                "\"uploads\":1}"))
      << server_->log();
  EXPECT_TRUE(
      HasLogged("\"event\":\"drain_cut_short\",\"received\":1,\"receiving\":1,"
                "\"running\":0,\"uploads\":1,\"calls\":1"))
      << server_->log();
  stream.context.TryCancel();
  upload.context.TryCancel();
}

// A second call cuts nothing short, as a second signal would.
TEST_F(DrainTest, AnOperatorsCallIsAsASignal) {
  testing::TemporaryDirectory directory;
  const std::string policy =
      directory.File("policy.textproto", testing::TokenEntry("operator", "ops", "role: OPERATOR") +
                                             testing::TokenEntry("user", "ops", "role: USER"));
  Start({"--auth.policy-file=" + policy});
  const auto ask = [this](const std::string& token, v1::DrainResponse* response) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + token);
    return admin_->Drain(&context, {}, response);
  };
  v1::DrainResponse drain;
  EXPECT_EQ(ask("user", &drain).error_code(), StatusCode::PERMISSION_DENIED);
  Stream stream(gemm_.get(), "user");
  stream.Begin(1, request_);
  ASSERT_EQ(stream.Read().accepted().request_id(), 1u);
  EXPECT_TRUE(ask("operator", &drain).ok());
  EXPECT_EQ(drain.requests(), 1u);
  EXPECT_EQ(drain.uploads(), 0u);
  v1::MatmulResponse response;
  grpc::Status refused;
  do {
    grpc::ClientContext other;
    other.AddMetadata("authorization", "Bearer user");
    refused = gemm_->Matmul(&other, request_, &response);
  } while (refused.ok());
  ExpectToldToGo(refused);
  EXPECT_TRUE(ask("operator", &drain).ok());
  stream.SendPayload(1, request_);
  EXPECT_EQ(stream.Read().finished().code(), StatusCode::OK);
  stream.call->Finish();
  EXPECT_EQ(server_->WaitForExit(), 0);
  EXPECT_TRUE(HasLogged("\"event\":\"draining\",\"signal\":\"Admin.Drain\"")) << server_->log();
  EXPECT_FALSE(HasLogged("drain_cut_short"));
}

// The answer comes before the connection ends.
TEST_F(DrainTest, AServerWithoutWorkAnswersTheCallThatEndsIt) {
  testing::TemporaryDirectory directory;
  const std::string policy =
      directory.File("policy.textproto", testing::TokenEntry("operator", "ops", "role: OPERATOR"));
  for (int i = 0; i < 5; ++i) {
    Start({"--auth.policy-file=" + policy});
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer operator");
    v1::DrainResponse drain;
    const grpc::Status status = admin_->Drain(&context, {}, &drain);
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(server_->WaitForExit(), 0);
  }
}

// Its client takes nothing of the answer: the drain begins when the call ends.
TEST_F(DrainTest, AServerThatIsToEndServesUntilTheCallHasItsAnswer) {
  testing::TemporaryDirectory directory;
  const std::string policy =
      directory.File("policy.textproto", testing::TokenEntry("operator", "ops", "role: OPERATOR"));
  Start({"--auth.policy-file=" + policy});
  testing::RawConnection::Options options;
  options.stream_window = 0;
  testing::RawConnection connection(server_->address(), options);
  const std::uint32_t call =
      connection.Begin("/gemmd.v1.Admin/Drain", {{"authorization", "Bearer operator"}});
  connection.Send(call, testing::RawMessage(false, ""), true);
  EXPECT_NE(server_->AwaitLine("/gemmd.v1.Admin/Drain"), "");
  constexpr int kLooks = 300;  // while its handler runs, and after
  for (int i = 0; i < kLooks; ++i) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer operator");
    v1::ServerInfoResponse info;
    ASSERT_TRUE(admin_->ServerInfo(&context, {}, &info).ok());
    ASSERT_FALSE(info.draining());
  }
  EXPECT_TRUE(connection.Reset(call));
  EXPECT_EQ(server_->WaitForExit(), 0);
  EXPECT_TRUE(HasLogged("\"event\":\"drained\""));
}

TEST_F(DrainTest, AServerWithoutAPolicyIsEndedByNoCall) {
  Start();
  grpc::ClientContext context;
  v1::DrainResponse drain;
  const grpc::Status status = admin_->Drain(&context, {}, &drain);
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(status.error_message(),
            "the server has no policy (--auth.policy-file), so anybody could end it: send its "
            "process SIGTERM");
  grpc::ClientContext later;
  v1::MatmulResponse response;
  EXPECT_TRUE(gemm_->Matmul(&later, request_, &response).ok());
}

TEST_F(DrainTest, ASecondSignalCutsARequest) {
  Start({"--lifecycle.drain-timeout-ms=3600000"});
  Stream stream(gemm_.get());
  stream.Begin(1, request_);
  ASSERT_EQ(stream.Read().accepted().request_id(), 1u);
  server_->Signal(SIGTERM);
  WaitUntilDraining();
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->WaitForExit(), 3);
  stream.context.TryCancel();
}

TEST_F(DrainTest, ASecondSignalCutsAnUpload) {
  Start({"--lifecycle.drain-timeout-ms=3600000"});
  Upload upload(operands_.get(), std::string(kRows, 'x'));
  WaitForUploads(1);
  server_->Signal(SIGTERM);
  WaitUntilDraining();
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->WaitForExit(), 3);
  upload.context.TryCancel();
}

// Far more than is sent before anybody reads it.
TEST_F(DrainTest, ADownloadIsAnAnswerToo) {
  constexpr std::uint64_t kBytes = 64 << 20;
  Start({"--lifecycle.send-timeout-ms=0"});
  const std::string bytes(kBytes, 'x');
  Upload upload(operands_.get(), bytes);
  ASSERT_TRUE(upload.Send(bytes).ok());
  v1::DownloadRequest request;
  request.set_handle(upload.response.resident().handle());
  v1::DownloadResponse response;
  grpc::ClientContext context;
  const auto unread = operands_->Download(&context, request);
  ASSERT_TRUE(unread->Read(&response));
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->WaitForExit(), 0);
  EXPECT_TRUE(HasLogged("\"event\":\"answers_not_delivered\",\"calls\":1,")) << server_->log();
  context.TryCancel();
}

TEST_F(DrainTest, ADownloadThatHasEndedIsNotWaitedFor) {
  Start({"--lifecycle.send-timeout-ms=5000"});
  const std::string bytes(1 << 20, 'x');
  Upload upload(operands_.get(), bytes);
  ASSERT_TRUE(upload.Send(bytes).ok());
  v1::DownloadRequest request;
  request.set_handle(upload.response.resident().handle());
  v1::DownloadResponse response;
  {
    grpc::ClientContext context;
    const auto whole = operands_->Download(&context, request);
    while (whole->Read(&response)) {
    }
    ASSERT_TRUE(whole->Finish().ok());
  }
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->WaitForExit(), 0);
  EXPECT_FALSE(HasLogged("\"event\":\"answers_not_delivered\"")) << server_->log();
}

}  // namespace
}  // namespace gemmd
