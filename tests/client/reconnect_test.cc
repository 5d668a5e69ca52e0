// Connections that go silent, proxies of the environment, and servers that change between calls.
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "client/operands.h"
#include "gemmd/v1/operands.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/forwarder.h"
#include "tests/client/testing/recording_timer.h"
#include "tests/client/testing/scripted_server.h"
#include "tests/client/testing/stream_server.h"

namespace gemmd::client {
namespace {

using ::gemmd::testing::Forwarder;
using ::gemmd::testing::RecordingTimer;
using ::gemmd::testing::ScriptedServer;
using ::gemmd::testing::StreamServer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Matrix Int8(std::uint64_t rows, std::uint64_t columns, std::string bytes) {
  return *Matrix::Create(MatrixFormat{DataType::kInt8, rows, columns}, std::move(bytes));
}

MatmulInputs TwoByTwo() { return MatmulInputs{Int8(2, 2, "aaaa"), Int8(2, 2, "bbbb")}; }

ClientOptions OptionsFor(const std::string& target) {
  ClientOptions options;
  options.channel.target = target;
  options.channel.own_connection = true;
  options.timer = std::make_shared<RecordingTimer>();
  return options;
}

// FindMissing is one server's, and Upload another's: it refuses what brings less than all.
class OperandsServer final : private v1::Operands::Service {
 public:
  OperandsServer() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(static_cast<v1::Operands::Service*>(this));
    server_ = builder.BuildAndStart();
  }

  std::string target() const { return absl::StrCat("127.0.0.1:", port_); }

  bool has_all_of_it = false;                                     // as FindMissing says
  grpc::StatusCode refusal = grpc::StatusCode::INVALID_ARGUMENT;  // a proxy may change it
  std::vector<std::uint64_t> uploads;                             // the bytes of each

 private:
  grpc::Status FindMissing(grpc::ServerContext*, const v1::FindMissingRequest* request,
                           v1::FindMissingResponse* response) override {
    if (!has_all_of_it) *response->mutable_missing() = request->digests();
    return grpc::Status::OK;
  }

  grpc::Status Upload(grpc::ServerContext*, grpc::ServerReader<v1::UploadRequest>* reader,
                      v1::UploadResponse* response) override {
    std::uint64_t bytes = 0;
    std::uint64_t expected = 0;
    v1::UploadRequest message;
    while (reader->Read(&message)) {
      if (message.has_begin()) {
        expected =
            message.begin().operand().data().rows() * message.begin().operand().data().columns();
      }
      bytes += message.chunk().data().size();
    }
    uploads.push_back(bytes);
    response->mutable_resident()->set_handle("kept-1");
    if (bytes == expected) return grpc::Status::OK;
    return {refusal, "the upload ended with too few bytes"};
  }

  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

OperandSource Source() { return *OperandSource::Create(Int8(2, 3, "abcdef")); }

TEST(UploadTest, OneWhoseServerHasLessThanAnotherSaidIsSentWhole) {
  OperandsServer server;
  Operands operands(OptionsFor(server.target()));
  ASSERT_TRUE(operands.Put(Source()).ok());
  EXPECT_THAT(server.uploads, ElementsAre(6));
  server.has_all_of_it = true;
  for (const grpc::StatusCode code :
       {grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::CANCELLED}) {
    server.uploads.clear();
    server.refusal = code;
    const auto put = operands.Put(Source());
    ASSERT_TRUE(put.ok()) << put.status();
    EXPECT_EQ(put->handle(), "kept-1");
    EXPECT_THAT(server.uploads, ElementsAre(0, 6));
  }
}

class SilentPathTest : public ::testing::Test {
 protected:
  // With gRPC's own timers: attempts without a pause would all meet the connection that ends.
  static ClientOptions Impatient(const std::string& target) {
    ClientOptions options = OptionsFor(target);
    options.timer = nullptr;
    options.channel.keepalive_time = absl::Milliseconds(100);
    options.channel.keepalive_timeout = absl::Milliseconds(300);
    return options;
  }
};

TEST_F(SilentPathTest, ACallWithoutADeadlineGoesOnOverANewConnection) {
  ScriptedServer server;
  Forwarder path(server.target());
  Client client(Impatient(path.target()));
  ASSERT_TRUE(client.ServerInfo().ok());
  EXPECT_EQ(path.connections(), 1);
  path.Silence();
  const auto info = client.ServerInfo();
  EXPECT_TRUE(info.ok()) << info.status();
  EXPECT_GE(path.connections(), 2);
}

TEST_F(SilentPathTest, AStreamedProductGoesOnOverNewConnections) {
  StreamServer server;
  Forwarder path(server.target());
  for (const int channels : {1, 3}) {
    ClientOptions options = Impatient(path.target());
    options.route.transport = Transport::kStream;
    options.route.channels = channels;
    Client client(options);
    MatmulOptions matmul;
    matmul.output_type = DataType::kInt8;
    ASSERT_TRUE(client.Matmul(TwoByTwo(), matmul).ok());
    path.Silence();
    const auto product = client.Matmul(TwoByTwo(), matmul);
    EXPECT_TRUE(product.ok()) << product.status();
  }
}

TEST_F(SilentPathTest, AnUploadGoesOnOverANewConnection) {
  OperandsServer server;
  Forwarder path(server.target());
  Operands operands(Impatient(path.target()));
  ASSERT_TRUE(operands.Put(Source()).ok());
  path.Silence();
  const auto put = operands.Put(Source());
  EXPECT_TRUE(put.ok()) << put.status();
}

// Every variable that gRPC or another library may read.
class ProxyTest : public ::testing::Test {
 protected:
  ProxyTest() {
    for (const char* name : kNames) setenv(name, ("http://" + proxy_.target()).c_str(), 1);
  }
  ~ProxyTest() override {
    for (const char* name : kNames) unsetenv(name);
  }

  static constexpr const char* kNames[] = {"grpc_proxy", "https_proxy", "http_proxy", "all_proxy",
                                           "GRPC_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"};

  ClientOptions WithToken(const std::string& target) {
    ClientOptions options = OptionsFor(target);
    options.channel.token = "secret";
    options.retry.max_attempts = 1;
    return options;
  }

  Forwarder proxy_{""};
};

TEST_F(ProxyTest, NothingThatStaysOnThisHostOrIsPlainGoesThroughAProxy) {
  ScriptedServer server;
  const std::string port = server.target().substr(server.target().rfind(':'));
  // The last is no address of loopback, though it leads there.
  for (const std::string& target :
       {server.target(), "localhost" + port, "dns:///127.0.0.1" + port, "dns:localhost" + port,
        "ipv4:127.0.0.1" + port, "[::ffff:127.0.0.1]" + port, "0.0.0.0" + port}) {
    Client client(WithToken(target));
    CallOptions call;
    call.timeout = absl::Seconds(60);
    const auto info = client.ServerInfo(call);
    EXPECT_TRUE(info.ok()) << target << ": " << info.status();
  }
  EXPECT_EQ(proxy_.connections(), 0);
}

TEST_F(ProxyTest, TlsToAnotherHostGoesThroughItAndShowsNothing) {
  ClientOptions options = WithToken("0.0.0.0:50051");
  options.channel.tls.emplace();
  Client client(options);
  CallOptions call;
  call.timeout = absl::Milliseconds(300);
  EXPECT_FALSE(client.ServerInfo(call).ok());
  EXPECT_THAT(proxy_.received(), ::testing::StartsWith("CONNECT 0.0.0.0:50051 "));
  EXPECT_THAT(proxy_.received(), Not(HasSubstr("secret")));
  options.channel.target = "127.0.0.1:1";
  const int connections = proxy_.connections();
  EXPECT_FALSE(Client(options).ServerInfo(call).ok());
  EXPECT_EQ(proxy_.connections(), connections);
}

}  // namespace
}  // namespace gemmd::client
