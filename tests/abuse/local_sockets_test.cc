// Attacks over a Unix socket, whose connections have no address: they are one peer together.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/abuse/attacks.h"
#include "tests/abuse/polite_client.h"
#include "tests/abuse/raw_http2.h"
#include "tests/testing/server_process.h"
#include "tests/testing/unique_name.h"

namespace gemmd {
namespace {

constexpr char kStream[] = "/gemmd.v1.Gemm/MatmulStream";

class LocalSocketsTest : public ::testing::Test {
 protected:
  explicit LocalSocketsTest(const std::string& flag)
      : server_({testing::UniqueName("--listen=unix:/tmp/gemmd-"), "--cpu.threads=1", flag}) {
    polite_.Multiply();
  }
  void TearDown() override {
    while (polite_.answered < 2 && polite_.errors.empty()) polite_.Multiply();
    EXPECT_EQ(polite_.errors, std::vector<std::string>());
    EXPECT_EQ(polite_.answered, 2);
  }

  testing::ServerProcess server_;
  testing::PoliteClient polite_{server_.address()};
};

// The fixture's client has one of them.
class FewConnectionsTest : public LocalSocketsTest {
 protected:
  FewConnectionsTest() : LocalSocketsTest("--limits.connections-per-peer=4") {}
};

TEST_F(FewConnectionsTest, AreLimitedAsOnePeer) {
  std::vector<std::unique_ptr<testing::RawConnection>> connections;
  for (int i = 0; i < 3; ++i) {
    connections.push_back(std::make_unique<testing::RawConnection>(server_.address()));
  }
  testing::RawConnection refused(server_.address());
  std::string answer;
  while (refused.Receive(&answer)) {
  }
  EXPECT_EQ(answer, "");
  const std::uint32_t call = connections.back()->Begin("/no.such.Service/Method");
  EXPECT_EQ(testing::RawHeader(connections.back()->ReceiveEnd(call), "grpc-status"), "12");
}

class IdleConnectionsTest : public LocalSocketsTest {
 protected:
  IdleConnectionsTest() : LocalSocketsTest("--limits.connection-idle-ms=1000") {}
};

TEST_F(IdleConnectionsTest, AreClosed) {
  testing::RawConnection connection(server_.address());
  std::string answer;
  while (connection.Receive(&answer)) {
  }
}

class AgedConnectionsTest : public LocalSocketsTest {
 protected:
  AgedConnectionsTest() : LocalSocketsTest("--limits.connection-age-ms=1000") {}
};

TEST_F(AgedConnectionsTest, AreToldToGo) {
  testing::RawConnection connection(server_.address());
  connection.Begin(kStream);
  const std::string go_away("\x07\0", 2);  // a frame's type and flags
  std::string answer;
  while (answer.find(go_away) == std::string::npos && connection.Receive(&answer)) {
  }
  EXPECT_NE(answer.find(go_away), std::string::npos);
}

class FewCallsTest : public LocalSocketsTest {
 protected:
  FewCallsTest() : LocalSocketsTest("--limits.calls=16") {}
};

// Thirteen calls come, in an order that gRPC chooses, and eight may. So five are refused, and one
// at least is the other connection's, which has nine.
TEST_F(FewCallsTest, HalfOfTheCallsAreTheirs) {
  testing::RawConnection one(server_.address());
  testing::RawConnection other(server_.address());
  for (int i = 0; i < 4; ++i) one.Begin(kStream);
  for (int i = 0; i < 9; ++i) other.Begin(kStream);
  const std::string answer = other.ReceiveEnd(0);
  EXPECT_EQ(testing::RawHeader(answer, "grpc-status"), "8");
  EXPECT_NE(testing::RawHeader(answer, "grpc-message").find("calls of address unix"),
            std::string::npos)
      << testing::RawHeader(answer, "grpc-message");
}

class ResetCallsTest : public LocalSocketsTest {
 protected:
  ResetCallsTest() : LocalSocketsTest("--limits.stall-timeout-ms=1000") {}
};

TEST_F(ResetCallsTest, EndTheirConnection) {
  testing::RawConnection connection(server_.address());
  int sent = 0;
  while (sent < 1000000 && connection.BeginAndReset(testing::kMatmul, 100)) sent += 100;
  EXPECT_LT(sent, 1000000);
}

class UnreadAnswersTest : public LocalSocketsTest {
 protected:
  UnreadAnswersTest() : LocalSocketsTest("--limits.stall-timeout-ms=1000") {}
};

// The answers have more bytes than the system takes for a local socket.
TEST_F(UnreadAnswersTest, EndTheirConnection) {
  testing::RawConnection::Options options;
  options.stream_window = options.window = 0x7fffffff;
  testing::RawConnection connection(server_.address(), options);
  for (int i = 0; i < 4; ++i) {
    connection.Send(connection.Begin(testing::kMatmul),
                    testing::OuterProduct(testing::kMatmul, 512), true);
  }
  connection.AwaitClose();
}

}  // namespace
}  // namespace gemmd
