// Attacks on the HTTP listener: a client that watches is served beside them, and so are products.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/abuse/abuse_fixture.h"
#include "tests/testing/http_client.h"

namespace gemmd {
namespace {

using testing::HttpConnection;
using testing::HttpGet;

constexpr int kConnections = 16;
constexpr char kWatcher[] = "127.0.0.2";

class HttpTest : public testing::AbuseFixture {
 protected:
  HttpTest()
      : AbuseFixture({"--observe.listen=127.0.0.1:0",
                      absl::StrCat("--observe.connections=", kConnections),
                      "--observe.timeout-ms=1000", "--limits.connections-per-second=0"}) {}

  // Asks from an address of its own.
  void ExpectServed() const {
    const testing::HttpResult page =
        HttpGet(server_.observe_address(), "/metrics", "", nullptr, kWatcher);
    EXPECT_EQ(page.code, 200);
    EXPECT_NE(page.body.find("gemmd_requests_received_total"), std::string::npos);
  }
};

// A byte of a header now and then keeps no connection.
TEST_F(HttpTest, SlowHeadersAreCutOff) {
  std::vector<std::thread> slow;
  for (int i = 0; i < kConnections; ++i) {
    slow.emplace_back([this] {
      HttpConnection connection(server_.observe_address());
      connection.Write("GET /metrics HTTP/1.1\r\n");
      while (connection.Write("a: b\r\n")) {  // until it is closed
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    });
  }
  for (int i = 0; i < 20; ++i) ExpectServed();
  for (std::thread& each : slow) each.join();
  ExpectServed();
}

TEST_F(HttpTest, HugeHeadersAreRefusedBeforeTheyAreHeld) {
  const std::string piece(1 << 16, 'x');
  for (int i = 0; i < 64; ++i) {
    HttpConnection connection(server_.observe_address());
    connection.Write("GET /metrics HTTP/1.1\r\nX: ");
    for (int j = 0; j < 160 && connection.Write(piece); ++j) {  // 10 MiB, unless it is closed
    }
  }
  ExpectServed();
}

TEST_F(HttpTest, ConnectionsThatAreHeldLeaveRoomForOthers) {
  std::vector<std::unique_ptr<HttpConnection>> held;
  for (int i = 0; i < 20 * kConnections; ++i) {
    held.push_back(std::make_unique<HttpConnection>(server_.observe_address()));
    if (i % kConnections == 0) ExpectServed();
  }
}

// Answers that nobody reads: those of a connection wait until the next request is read, and that
// waits for them.
TEST_F(HttpTest, AnswersThatAreNotReadHoldOneEach) {
  std::vector<std::unique_ptr<HttpConnection>> held;
  constexpr int kSmall = 4096;
  for (int i = 0; i < kConnections; ++i) {
    held.push_back(
        std::make_unique<HttpConnection>(server_.observe_address(), "", nullptr, kSmall));
    for (int j = 0; j < 100; ++j)
      held.back()->Write("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  for (int i = 0; i < 10; ++i) ExpectServed();
}

// Bytes that are not HTTP do no harm.
TEST_F(HttpTest, GarbageIsNoHarm) {
  for (int i = 0; i < 200; ++i) {
    std::string bytes;
    std::uint32_t state = 2654435761U * static_cast<std::uint32_t>(i + 1);
    for (int j = 0; j < 300; ++j) {
      state = state * 1664525U + 1013904223U;
      bytes += static_cast<char>(state >> 24U);
    }
    HttpConnection connection(server_.observe_address());
    connection.Write(bytes);
  }
  ExpectServed();
}

}  // namespace
}  // namespace gemmd
