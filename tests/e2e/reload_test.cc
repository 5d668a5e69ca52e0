// SIGHUP changes the options that config.proto marks, in a server that goes on, and names the
// others.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "gemmd/v1/operands.grpc.pb.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "server/options/config.pb.h"
#include "server/options/config_text.h"
#include "tests/server/net/sockets.h"
#include "tests/testing/server_process.h"
#include "tests/testing/wire.h"

namespace gemmd {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using grpc::StatusCode;
using testing::Socket;

// A server whose options are in a file.
class Running {
 public:
  explicit Running(const std::string& options, std::string flag = "")
      : flag_(std::move(flag)), server_({"--config=" + Written(options)}) {}

  void Reload(const std::string& options) {
    Written(options);
    server_.Signal(SIGHUP);
  }
  // Reloads options of which nothing but the flag has changed, and waits until they are in force.
  void Become(const std::string& options) {
    Reload(options);
    const std::string line = Await("options_reloaded");
    EXPECT_TRUE(absl::StrContains(line, absl::StrCat("\"", flag_, "\""))) << line;
  }
  // Returns the line of that event, or of the refusal, after which it does not come.
  std::string Await(const std::string& event) {
    while (true) {
      std::string line = server_.AwaitLine("\"options_");
      const bool is_last = line.empty() || absl::StrContains(line, "options_unchanged");
      if (is_last || absl::StrContains(line, event)) return line;
    }
  }

  testing::ServerProcess& server() { return server_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  int port() const {
    return std::atoi(server_.address().substr(server_.address().rfind(':') + 1).c_str());
  }

  // A product of n x n, whose result stays where `handle` is asked for.
  grpc::Status Multiply(std::uint64_t n, std::string* handle = nullptr) const {
    v1::MatmulRequest request = testing::ZeroRequest(n);
    if (handle != nullptr) request.mutable_header()->mutable_keep_result();
    grpc::ClientContext context;
    v1::MatmulResponse response;
    grpc::Status status = v1::Gemm::NewStub(channel_)->Matmul(&context, request, &response);
    if (handle != nullptr) *handle = response.handle();
    return status;
  }
  // The status of an upload that sends nothing.
  grpc::Status SilentUpload() const {
    grpc::ClientContext context;
    v1::UploadResponse response;
    return v1::Operands::NewStub(channel_)->Upload(&context, &response)->Finish();
  }
  std::uint64_t LargestPieceOfDownload(const std::string& handle) const {
    grpc::ClientContext context;
    v1::DownloadRequest request;
    request.set_handle(handle);
    const auto stub = v1::Operands::NewStub(channel_);
    const auto call = stub->Download(&context, request);
    std::uint64_t largest = 0;
    v1::DownloadResponse response;
    while (call->Read(&response)) {
      largest = std::max<std::uint64_t>(largest, response.chunk().data().size());
    }
    EXPECT_TRUE(call->Finish().ok());
    return largest;
  }

 private:
  static std::string Written(const std::string& options) {
    const std::string path = ::testing::TempDir() + "/gemmd.textproto";
    std::ofstream(path) << options;
    return path;
  }

  const std::string flag_;
  testing::ServerProcess server_;
  const std::shared_ptr<grpc::Channel> channel_ = server_.NewChannel();
};

// A session that is open when this is made.
class Session {
 public:
  explicit Session(const Running& running)
      : stub_(v1::Gemm::NewStub(running.channel())), call_(stub_->MatmulStream(&context_)) {
    v1::MatmulStreamRequest open;
    open.mutable_open();
    v1::MatmulStreamResponse opened;
    EXPECT_TRUE(call_->Write(open) && call_->Read(&opened) && opened.has_opened());
  }
  ~Session() {
    context_.TryCancel();
    v1::MatmulStreamResponse rest;
    while (call_->Read(&rest)) {
    }
    call_->Finish();
  }

  // Without its payload it waits for that.
  void Begin(std::uint64_t id, std::uint64_t n, bool has_payload) {
    const v1::MatmulRequest whole = testing::ZeroRequest(n);
    v1::MatmulStreamRequest request;
    request.mutable_begin()->set_request_id(id);
    *request.mutable_begin()->mutable_header() = whole.header();
    for (const v1::Chunk& chunk : whole.payload()) {
      if (!has_payload) break;
      *request.mutable_begin()->add_payload() = chunk;
      request.mutable_begin()->mutable_payload()->rbegin()->set_request_id(id);
    }
    EXPECT_TRUE(call_->Write(request));
  }
  v1::MatmulStreamResponse::Finished AwaitFinished() {
    v1::MatmulStreamResponse response;
    while (call_->Read(&response)) {
      if (response.has_finished()) return response.finished();
    }
    ADD_FAILURE() << "the stream has ended";
    return {};
  }
  // Returns the bytes of the largest piece of the result of a product of n x n.
  std::uint64_t LargestPieceOf(std::uint64_t n) {
    Begin(1, n, true);
    std::uint64_t largest = 0;
    std::uint64_t received = 0;
    v1::MatmulStreamResponse response;
    while (received < 4 * n * n && call_->Read(&response)) {
      std::vector<v1::Chunk> pieces = {response.chunk()};
      for (const v1::Chunk& each : response.finished().payload()) pieces.push_back(each);
      for (const v1::Chunk& each : pieces) {
        largest = std::max<std::uint64_t>(largest, each.data().size());
        received += each.data().size();
      }
    }
    return largest;
  }

 private:
  grpc::ClientContext context_;
  const std::unique_ptr<v1::Gemm::Stub> stub_;
  const std::unique_ptr<grpc::ClientReaderWriter<v1::MatmulStreamRequest, v1::MatmulStreamResponse>>
      call_;
};

void Calls(const std::string& flag) {
  Running running("", flag);
  Session held(running);
  running.Become("limits { calls: 2 }");
  const grpc::Status refused = running.Multiply(4);
  EXPECT_EQ(refused.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.error_message(),
            "1 calls of address 127.0.0.1 are in progress, and the limit is 1 (limits.calls)");
  held.Begin(1, 4, true);
  EXPECT_EQ(held.AwaitFinished().code(), 0U) << "it came before";
}

void RequestsPerSession(const std::string& flag) {
  Running running("", flag);
  Session before(running);
  running.Become("limits { requests_per_session: 1 }");
  Session after(running);
  for (Session* each : {&before, &after}) {
    each->Begin(1, 4, false);
    each->Begin(2, 4, true);
  }
  EXPECT_EQ(before.AwaitFinished().code(), 0U);
  EXPECT_EQ(after.AwaitFinished().code(), static_cast<unsigned>(StatusCode::RESOURCE_EXHAUSTED));
}

void ChunkBytes(const std::string& flag) {
  Running running("", flag);
  std::string handle;
  ASSERT_TRUE(running.Multiply(64, &handle).ok());
  Session before(running);
  running.Become("limits { chunk_bytes: 4096 }");
  EXPECT_EQ(before.LargestPieceOf(64), 16384U);
  EXPECT_EQ(Session(running).LargestPieceOf(64), 4096U);
  EXPECT_EQ(running.LargestPieceOfDownload(handle), 4096U);
}

// The error of a client that sends nothing names the limit that it had.
void ExpectStalled(const Running& running, const std::string& limit) {
  const grpc::Status status = running.SilentUpload();
  EXPECT_EQ(status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(absl::StrContains(status.error_message(), limit)) << status.error_message();
  Session session(running);
  session.Begin(1, 4, false);
  const std::string message = session.AwaitFinished().message();
  EXPECT_TRUE(absl::StrContains(message, limit)) << message;
}

void StallTimeoutMs(const std::string& flag) {
  Running running("limits { stall_timeout_ms: 3600000 }", flag);
  running.Become("limits { stall_timeout_ms: 100 }");
  ExpectStalled(running, "for more than 100ms (limits.stall_timeout_ms)");
}

void MinBytesPerSecond(const std::string& flag) {
  Running running("limits { stall_timeout_ms: 100 }", flag);
  running.Become("limits { stall_timeout_ms: 100 min_bytes_per_second: 5000 }");
  ExpectStalled(running, "slower than 5000 bytes per second");
}

// Connections of 127.0.0.2, which the server has taken.
std::vector<Socket> ConnectFrom2(const Running& running, int count) {
  std::vector<Socket> sockets;
  for (int i = 0; i < count; ++i) {
    sockets.push_back(testing::NewClient());
    testing::Connect(sockets.back(), running.port(), 2);
  }
  // They are taken in their order, and this one's connection is the last.
  EXPECT_TRUE(running.Multiply(4).ok());
  return sockets;
}

void Connections(const std::string& flag) {
  Running running("", flag);
  const std::vector<Socket> open = ConnectFrom2(running, 4);
  running.Become("limits { connections: 5 }");
  const Socket refused = testing::NewClient();
  testing::Connect(refused, running.port(), 3);
  EXPECT_TRUE(testing::IsClosedByPeer(refused));
  EXPECT_NE(running.server().AwaitLine("the limit of open connections is 5, 5 are taken"), "");
  EXPECT_TRUE(running.Multiply(4).ok()) << "over one of them";
}

void ConnectionsPerPeer(const std::string& flag) {
  Running running("", flag);
  const std::vector<Socket> open = ConnectFrom2(running, 4);
  running.Become("limits { connections_per_peer: 2 }");
  const Socket refused = testing::NewClient();
  testing::Connect(refused, running.port(), 2);
  EXPECT_TRUE(testing::IsClosedByPeer(refused));
  const std::string line = running.server().AwaitLine("connection_refused");
  EXPECT_TRUE(absl::StrContains(
      line, "the share of address 127.0.0.2 of open connections is 2, 4 are taken"))
      << line;
  EXPECT_TRUE(running.Multiply(4).ok());
}

// The server says one refusal in a while, so a client goes on until it says why.
void ConnectionsPerSecond(const std::string& flag) {
  Running running("limits { connections_per_peer: 2 connections_per_second: 0 }", flag);
  running.Become("limits { connections_per_peer: 2 connections_per_second: 1 }");
  std::atomic<bool> is_told{false};
  std::thread client([&] {
    while (!is_told) {
      const Socket next = testing::NewClient();
      const timeval moment{0, 10000};
      setsockopt(next.fd(), SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof moment);
      testing::Connect(next, running.port(), 2);
      testing::IsClosedByPeer(next);
    }
  });
  EXPECT_NE(running.server().AwaitLine("127.0.0.2 opens more than 1 connections a second"), "");
  is_told = true;
  client.join();
}

// Keeps a matrix of 4096 bytes, whether the limits then allow it or not, and is refused another.
void ExpectNoMoreOperands(const std::string& flag, const std::string& before,
                          const std::string& after, const std::string& why) {
  Running running(before, flag);
  std::string kept;
  ASSERT_TRUE(running.Multiply(32, &kept).ok());
  running.Become(after);
  std::string other;
  const grpc::Status refused = running.Multiply(32, &other);
  EXPECT_TRUE(absl::StrContains(refused.error_message(), why)) << refused.error_message();
  EXPECT_EQ(running.LargestPieceOfDownload(kept), 4096U);
}

void OperandsMemoryBytes(const std::string& flag) {
  ExpectNoMoreOperands(flag, "operands { tenant_percent: 100 }",
                       "operands { tenant_percent: 100 memory_bytes: 1000 }",
                       "the limit of bytes of operands is 1000, and this takes 4096");
}

void OperandsTenantBytes(const std::string& flag) {
  ExpectNoMoreOperands(flag, "", "operands { tenant_bytes: 2000 }",
                       "the tenant's share of bytes of operands is 2000, and this takes 4096");
}

void OperandsTenantPercent(const std::string& flag) {
  ExpectNoMoreOperands(flag, "operands { memory_bytes: 100000 }",
                       "operands { memory_bytes: 100000 tenant_percent: 3 }",
                       "the tenant's share of bytes of operands is 3000, and this takes 4096");
}

void OperandsMaxOperands(const std::string& flag) {
  ExpectNoMoreOperands(flag, "", "operands { max_operands: 1 }",
                       "of operands and names is 1, 1 are taken, and this takes 1");
}

void LogLevel(const std::string& /*flag*/) {
  Running running("");
  running.Reload("log { level: \"warning\" } cuda { memory_percent: 50 }");
  EXPECT_TRUE(absl::StrContains(running.Await("options_need_restart"), "--cuda.memory-percent"));
  running.server().Signal(SIGTERM);
  running.server().WaitForExit();
  EXPECT_FALSE(absl::StrContains(running.server().log(), "options_reloaded"));
}

// A product that takes longer than a millisecond.
constexpr std::uint64_t kSlow = 1024;

void LogSlowMs(const std::string& flag) {
  Running running("", flag);
  running.Become("log { slow_ms: 1 }");
  ASSERT_TRUE(running.Multiply(kSlow).ok());
  EXPECT_NE(running.server().AwaitLine("slow_request"), "");
}

// Ten at once, and then one each second, is what there were.
void LogSlowPerSecond(const std::string& flag) {
  Running running("log { slow_ms: 1 slow_per_second: 1 }", flag);
  running.Become("log { slow_ms: 1 slow_per_second: 1000 }");
  constexpr int kProducts = 20;
  for (int i = 0; i < kProducts; ++i) ASSERT_TRUE(running.Multiply(kSlow).ok());
  for (int i = 0; i < kProducts; ++i) {
    const std::string line = running.server().AwaitLine("slow_request");
    EXPECT_TRUE(absl::StrContains(line, "\"left_out\":0")) << line;
  }
}

// The proofs that options are in force, by their flags.
using Proof = void (*)(const std::string& flag);
const std::map<std::string, Proof>& Proofs() {
  static const auto* const proofs = new std::map<std::string, Proof>{
      {"--limits.calls", Calls},
      {"--limits.requests-per-session", RequestsPerSession},
      {"--limits.chunk-bytes", ChunkBytes},
      {"--limits.stall-timeout-ms", StallTimeoutMs},
      {"--limits.min-bytes-per-second", MinBytesPerSecond},
      {"--limits.connections", Connections},
      {"--limits.connections-per-peer", ConnectionsPerPeer},
      {"--limits.connections-per-second", ConnectionsPerSecond},
      {"--operands.memory-bytes", OperandsMemoryBytes},
      {"--operands.tenant-bytes", OperandsTenantBytes},
      {"--operands.tenant-percent", OperandsTenantPercent},
      {"--operands.max-operands", OperandsMaxOperands},
      {"--log.level", LogLevel},
      {"--log.slow-ms", LogSlowMs},
      {"--log.slow-per-second", LogSlowPerSecond},
  };
  return *proofs;
}

std::vector<std::string> Choices(const FieldDescriptor* field) {
  std::vector<std::string> choices;
  for (int i = 0; i < field->options().ExtensionSize(config::choice); ++i) {
    choices.push_back(field->options().GetExtension(config::choice, i));
  }
  return choices;
}

// Gives an option another value, and one that it may have.
void Change(const FieldDescriptor* field, Message* holder) {
  const auto* reflection = holder->GetReflection();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
    const std::int64_t value = field->default_value_int64();
    const bool is_most = value == field->options().GetExtension(config::max);
    return reflection->SetInt64(holder, field, is_most ? value - 1 : value + 1);
  }
  std::string value = "127.0.0.1:1";                           // which may be an address or a path
  if (field->name() == "proxy_protocol") value = "127.0.0.1";  // of hosts, without ports
  for (const std::string& each : Choices(field)) {
    if (each != field->default_value_string()) value = each;
  }
  reflection->SetString(holder, field, value);
}

// Changes all options that are marked, or all that are not.
void ChangeAll(bool reloads, Message* message) {
  for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message->GetDescriptor()->field(i);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      ChangeAll(reloads, message->GetReflection()->MutableMessage(message, field));
    } else if (field->options().GetExtension(config::reloads) == reloads) {
      Change(field, message);
    }
  }
}

config::ServerConfig Changed(bool reloads) {
  config::ServerConfig config;
  ChangeAll(reloads, &config);
  return config;
}

TEST(Reload, EachOptionThatIsMarkedChangesInAServerThatRuns) {
  const std::vector<std::string> marked = DifferingFlags(config::ServerConfig(), Changed(true));
  EXPECT_EQ(marked.size(), Proofs().size());
  for (const std::string& flag : marked) {
    SCOPED_TRACE(flag);
    const auto found = Proofs().find(flag);
    ASSERT_NE(found, Proofs().end()) << "prove that it does";
    found->second(flag);
  }
}

TEST(Reload, AllOthersAreNamed) {
  Running running("");
  config::ServerConfig others = Changed(false);
  others.clear_listen();  // of the command line, which wins
  running.Reload(ConfigText(others));
  const std::string line = running.Await("options_need_restart");
  const std::string flags = absl::StrJoin(DifferingFlags(config::ServerConfig(), others), ", ");
  EXPECT_TRUE(absl::StrContains(line, absl::StrCat("\"", flags, "\""))) << line;
  EXPECT_TRUE(running.Multiply(4).ok());
}

TEST(Reload, AFileOfWhichAPartIsWrongChangesNothing) {
  Running running("", "--limits.calls");
  Session held(running);
  for (const std::string wrong : {"nonsense: 1", "limits { chunk_bytes: 1 }",
                                  "tls { key_file: \"x\" }", "listen: \"x\" insecure: \"x\""}) {
    running.Reload("limits { calls: 2 } " + wrong);
    EXPECT_NE(running.Await("options_unchanged"), "");
    EXPECT_TRUE(running.Multiply(4).ok()) << wrong;
  }
  running.Become("limits { calls: 2 }");
  EXPECT_FALSE(running.Multiply(4).ok());
}

TEST(Reload, ProductsGoOnWhileLimitsChange) {
  Running running("", "--limits.stall-timeout-ms, --limits.connections");
  Session held(running);
  for (int i = 1; i <= 20; ++i) {
    running.Become(
        absl::StrCat("limits { stall_timeout_ms: ", 60000 + i, " connections: ", 100 + i, " }"));
    held.Begin(i, 4, true);
    EXPECT_EQ(held.AwaitFinished().code(), 0U);
    EXPECT_TRUE(running.Multiply(4).ok());
  }
}

}  // namespace
}  // namespace gemmd
