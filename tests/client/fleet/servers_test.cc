// A client of several servers, against servers that answer as a script says.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "client/client.h"
#include "client/details.h"
#include "client/operands.h"
#include "gemmd/v1/operands.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/health_check_service_interface.h"
#include "gtest/gtest.h"
#include "tests/client/testing/recording_timer.h"
#include "tests/client/testing/scripted_server.h"

namespace gemmd::client {
namespace {

using ::gemmd::testing::Answer;
using ::gemmd::testing::Fail;
using ::gemmd::testing::RecordingTimer;
using ::gemmd::testing::ScriptedServer;
using grpc::StatusCode;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Matrix Int8(std::string bytes) {
  return *Matrix::Create(MatrixFormat{DataType::kInt8, 2, 2, Order::kRowMajor, 0},
                         std::move(bytes));
}

MatmulInputs TwoByTwo() { return MatmulInputs{Int8("aaaa"), Int8("bbbb")}; }

class ServersTest : public ::testing::Test {
 protected:
  ClientOptions Options() {
    ClientOptions options;
    options.servers = {one_.target(), two_.target()};
    options.retry.jitter = 0;
    options.timer = timer_;
    options.fleet.now = [this] { return now_; };
    return options;
  }

  std::size_t requests() const { return one_.requests().size() + two_.requests().size(); }

  ScriptedServer one_;
  ScriptedServer two_;
  std::shared_ptr<RecordingTimer> timer_ = std::make_shared<RecordingTimer>();
  absl::Time now_ = absl::FromUnixSeconds(1000);
};

TEST_F(ServersTest, ProductsGoInTurnAndSayWhere) {
  Client client(Options());
  for (ScriptedServer* server : {&one_, &two_}) {
    server->Then(Answer(2, 2, "abcd"));
    const auto product = client.Matmul(TwoByTwo());
    ASSERT_TRUE(product.ok()) << product.status();
    EXPECT_EQ(product->receipt.address, server->target());
    EXPECT_EQ(product->receipt.client.attempts, 1);
  }
  Client alone([this] {
    ClientOptions options = Options();
    options.servers = {one_.target()};
    return options;
  }());
  one_.Then(Answer(2, 2, "abcd"));
  EXPECT_EQ(alone.Matmul(TwoByTwo())->receipt.address, "");
}

TEST_F(ServersTest, AfterUnavailableAnotherIsAskedAtOnce) {
  Client client(Options());
  one_.Then(Fail(StatusCode::UNAVAILABLE, "the device is lost"));
  two_.Then(Answer(2, 2, "abcd"));
  const auto product = client.Matmul(TwoByTwo());
  ASSERT_TRUE(product.ok()) << product.status();
  EXPECT_EQ(product->receipt.address, two_.target());
  EXPECT_EQ(product->receipt.client.attempts, 2);
  EXPECT_THAT(timer_->delays, Each(absl::ZeroDuration()));
}

TEST_F(ServersTest, AttemptsAreNoMoreThanOfOneServerAndTheErrorNamesTheLast) {
  ClientOptions options = Options();
  options.retry.max_attempts = 4;
  Client client(options);
  for (int i = 0; i < 3; ++i) {
    one_.Then(Fail(StatusCode::UNAVAILABLE, "one"));
    two_.Then(Fail(StatusCode::UNAVAILABLE, "two"));
  }
  const absl::Status status = client.Matmul(TwoByTwo()).status();
  EXPECT_EQ(requests(), 4u);
  EXPECT_EQ(status.message(), "two");
  EXPECT_EQ(ServerOf(status), two_.target());
  // Both were met: only then a wait.
  EXPECT_THAT(timer_->delays,
              ElementsAre(absl::ZeroDuration(), absl::Milliseconds(100), absl::ZeroDuration()));
  options.retry.max_attempts = 1;
  Client impatient(options);
  one_.Then(Fail(StatusCode::UNAVAILABLE, "one"));
  two_.Then(Fail(StatusCode::UNAVAILABLE, "two"));
  const std::size_t before = requests();
  EXPECT_FALSE(impatient.Matmul(TwoByTwo()).ok());
  EXPECT_EQ(requests(), before + 1);
}

TEST_F(ServersTest, ACallGoesFirstWhereItsCallerWishesAndElsewhereThen) {
  Client client(Options());
  const auto multiply = [&](const CallOptions& call) {
    const auto product = client.Matmul(TwoByTwo(), {}, call);
    EXPECT_TRUE(product.ok()) << product.status();
    return product.ok() ? product->receipt.address : std::string();
  };
  for (ScriptedServer* server : {&two_, &two_, &one_, &one_}) {
    const ScriptedServer& other = server == &one_ ? two_ : one_;
    server->Then(Answer(2, 2, "abcd"));
    CallOptions call;
    call.first = server->target();
    EXPECT_EQ(multiply(call), server->target());
    server->Then(Answer(2, 2, "abcd"));
    call.first.clear();
    call.avoided = {other.target()};
    EXPECT_EQ(multiply(call), server->target());
  }
  CallOptions call;
  call.first = one_.target();
  one_.Then(Fail(StatusCode::UNAVAILABLE, "one"));
  two_.Then(Answer(2, 2, "abcd"));
  EXPECT_EQ(multiply(call), two_.target());
  // All are avoided: none is.
  one_.Then(Answer(2, 2, "abcd"));
  call.avoided = {one_.target(), two_.target()};
  EXPECT_EQ(multiply(call), one_.target());
  EXPECT_THAT(timer_->delays, Each(absl::ZeroDuration()));
}

TEST_F(ServersTest, ARefusalIsAnAnswerAndAFullServerIsWaitedFor) {
  Client client(Options());
  one_.Then(Fail(StatusCode::INVALID_ARGUMENT, "no"));
  EXPECT_EQ(ServerOf(client.Matmul(TwoByTwo()).status()), one_.target());
  two_.Then(Fail(StatusCode::RESOURCE_EXHAUSTED, "full", "70"));
  one_.Then(Answer(2, 2, "abcd"));
  EXPECT_TRUE(client.Matmul(TwoByTwo()).ok());
  EXPECT_THAT(timer_->delays, ElementsAre(absl::Milliseconds(70)));
}

TEST_F(ServersTest, AServerThatFailsIsLeftOutForAWhile) {
  ClientOptions options = Options();
  options.fleet.policy.failures = 2;
  Client client(options);
  for (int i = 0; i < 2; ++i) one_.Then(Fail(StatusCode::UNAVAILABLE, "one"));
  for (int i = 0; i < 9; ++i) two_.Then(Answer(2, 2, "abcd"));
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(client.Matmul(TwoByTwo()).ok());
  EXPECT_EQ(one_.requests().size(), 2u);
  EXPECT_TRUE(client.States()[0].is_ejected);
  EXPECT_EQ(client.States()[0].failures, 2u);
  now_ += absl::Seconds(1);
  for (int i = 0; i < 9; ++i) one_.Then(Answer(2, 2, "abcd"));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(client.Matmul(TwoByTwo()).ok());
  EXPECT_EQ(one_.requests().size(), 3u);
  for (const ServerState& state : client.States()) EXPECT_EQ(state.in_flight, 0);
}

TEST_F(ServersTest, ADeadServerIsPassedByEveryCall) {
  ClientOptions options = Options();
  options.servers = {"127.0.0.1:1", two_.target()};
  Client client(options);
  two_.Then(Answer(2, 2, "abcd"));
  ASSERT_TRUE(client.Matmul(TwoByTwo()).ok());
  two_.server_info.set_version("2.0");
  const auto info = client.ServerInfo();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->version(), "2.0");
  CallOptions call;
  call.server = "127.0.0.1:1";
  call.timeout = absl::Milliseconds(500);
  const absl::Status status = client.ServerInfo(call).status();
  EXPECT_EQ(ServerOf(status), "127.0.0.1:1") << status;
}

TEST_F(ServersTest, AnInPlaceProductIsNotTriedElsewhere) {
  Client client(Options());
  one_.Then(Fail(StatusCode::UNAVAILABLE, "one"));
  std::string memory(16, 'c');
  const MatrixFormat format{DataType::kInt8, 2, 2, Order::kRowMajor, 0};
  const SharedPlace place{v1::SharedMemory(), Bytes(memory)};
  MatmulOptions options;
  options.beta = 1;
  options.destination = place;
  CallOptions call;
  call.server = one_.target();
  const auto product =
      client.Matmul({Int8("aaaa"), Int8("bbbb"), SharedOperand{place, format}}, options, call);
  EXPECT_THAT(product.status().ToString(), HasSubstr("it was not tried again"));
  EXPECT_EQ(requests(), 1u);
}

TEST_F(ServersTest, ABadListIsRefusedByTheEntry) {
  for (const auto& [servers, words] :
       {std::pair(std::vector<std::string>{"a:1", "", "b"}, "entry 2 of servers is \"\""),
        std::pair(std::vector<std::string>{"a:1", "a:1"}, "which is the server of entry 1"),
        std::pair(std::vector<std::string>{"a:0"}, "servers is \"a:0\", whose port is")}) {
    ClientOptions options = Options();
    options.servers = servers;
    Client client(options);
    const absl::Status status = client.Matmul(TwoByTwo()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
    Operands operands(options);
    EXPECT_EQ(operands.List().status(), status);
  }
}

TEST_F(ServersTest, ANameWithoutAddressesIsUnavailableAndAskedAgain) {
  ClientOptions options = Options();
  options.servers = {"dns:///nowhere"};
  options.retry.max_attempts = 3;
  options.fleet.resolve = [](const NameAndPort& name) -> absl::StatusOr<std::vector<std::string>> {
    return absl::UnavailableError("DNS resolution failed for " + name.name);
  };
  Client client(options);
  const absl::Status status = client.Matmul(TwoByTwo()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "DNS resolution failed for nowhere");
  EXPECT_EQ(timer_->delays.size(), 2u);
}

TEST_F(ServersTest, ANameIsLookedUpWhereItsServerSaysThatItDoesNotServe) {
  grpc::EnableDefaultHealthCheckService(true);
  v1::Operands::Service service;  // without a service gRPC makes no server
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  grpc::EnableDefaultHealthCheckService(false);
  server->GetHealthCheckService()->SetServingStatus(false);
  absl::Notification is_looked_up_again;
  int looks = 0;
  ClientOptions options = Options();
  options.servers = {"dns:///gpu"};
  options.fleet.look_pause = absl::ZeroDuration();
  options.fleet.resolve = [&](const NameAndPort&) -> absl::StatusOr<std::vector<std::string>> {
    if (++looks == 2) is_looked_up_again.Notify();
    return std::vector<std::string>{absl::StrCat("127.0.0.1:", port)};
  };
  {
    const Client client(options);
    is_looked_up_again.WaitForNotification();  // and no call has failed
  }
  server->Shutdown();
}

std::string AffinityIn(const grpc::ServerContext& context) {
  const auto found = context.client_metadata().find("gemmd-affinity");
  if (found == context.client_metadata().end()) return "";
  return std::string(found->second.data(), found->second.size());
}

TEST_F(ServersTest, TheAffinityHeaderIsTheDigestWhereItIsAskedFor) {
  std::vector<std::string> headers;
  for (const bool is_on : {false, true}) {
    ClientOptions options = Options();
    options.servers.clear();
    options.channel.target = one_.target();
    options.affinity_header = is_on;
    Client client(options);
    for (Operand b : {Operand(Int8("bbbb")), Operand(OperandName{{}, std::string(32, '\x0f')})}) {
      one_.Then([&headers](auto& context, const auto& request, auto& response) {
        headers.push_back(AffinityIn(context));
        return Answer(2, 2, "abcd")(context, request, response);
      });
      ASSERT_TRUE(client.Matmul({Int8("aaaa"), std::move(b)}).ok());
    }
  }
  std::string digest;
  for (int i = 0; i < 32; ++i) digest += "0f";
  EXPECT_THAT(headers, ElementsAre("", "", "", digest));
}

// Keeps nothing, and remembers the header of each call.
class HeaderService final : public v1::Operands::Service {
 public:
  HeaderService() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~HeaderService() override { server_->Shutdown(absl::ToChronoTime(absl::Now())); }

  std::string target() const { return absl::StrCat("127.0.0.1:", port_); }
  std::vector<std::string> Take() { return std::exchange(calls_, {}); }

 private:
  grpc::Status FindMissing(grpc::ServerContext* context, const v1::FindMissingRequest* request,
                           v1::FindMissingResponse* response) override {
    *response->mutable_missing() = request->digests();
    return Remember("FindMissing", *context, grpc::Status::OK);
  }
  grpc::Status Upload(grpc::ServerContext* context, grpc::ServerReader<v1::UploadRequest>* reader,
                      v1::UploadResponse*) override {
    v1::UploadRequest request;
    while (reader->Read(&request)) {
    }
    return Remember("Upload", *context, kNo);
  }
  grpc::Status Get(grpc::ServerContext* context, const v1::GetRequest*, v1::GetResponse*) override {
    return Remember("Get", *context, kNo);
  }
  grpc::Status Download(grpc::ServerContext* context, const v1::DownloadRequest*,
                        grpc::ServerWriter<v1::DownloadResponse>*) override {
    return Remember("Download", *context, kNo);
  }
  grpc::Status SetName(grpc::ServerContext* context, const v1::SetNameRequest*,
                       v1::SetNameResponse*) override {
    return Remember("SetName", *context, kNo);
  }
  grpc::Status Renew(grpc::ServerContext* context, const v1::RenewRequest*,
                     v1::RenewResponse*) override {
    return Remember("Renew", *context, kNo);
  }
  grpc::Status Release(grpc::ServerContext* context, const v1::ReleaseRequest*,
                       v1::ReleaseResponse*) override {
    return Remember("Release", *context, kNo);
  }
  // One call after another comes here.
  grpc::Status Remember(const char* method, const grpc::ServerContext& context,
                        grpc::Status status) {
    calls_.push_back(absl::StrCat(method, " ", AffinityIn(context)));
    return status;
  }

  const grpc::Status kNo = grpc::Status(StatusCode::FAILED_PRECONDITION, "it was seen");
  int port_ = 0;
  std::vector<std::string> calls_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(ServersTest, CallsAboutAMatrixHaveTheAffinityHeader) {
  HeaderService service;
  ClientOptions options = Options();
  options.servers.clear();
  options.channel.target = service.target();
  options.affinity_header = true;
  Operands operands(options);
  const absl::StatusOr<OperandSource> source = OperandSource::Create(Int8("aaaa"));
  ASSERT_TRUE(source.ok()) << source.status();
  const std::string digest = absl::BytesToHexString(source->digest());
  EXPECT_FALSE(operands.Put(*source).ok());
  EXPECT_THAT(service.Take(), ElementsAre("FindMissing " + digest, "Upload " + digest));
  const OperandName name{{}, std::string(source->digest())};
  EXPECT_FALSE(operands.Describe(name).ok());
  EXPECT_FALSE(operands.Get(name).ok());
  EXPECT_FALSE(operands.SetName(name, "w").ok());
  EXPECT_FALSE(operands.Renew(name).ok());
  EXPECT_FALSE(operands.Release(name).ok());
  EXPECT_THAT(service.Take(),
              ElementsAre("Get " + digest, "Download " + digest, "SetName " + digest,
                          "Renew " + digest, "Release " + digest));
}

}  // namespace
}  // namespace gemmd::client
