// Tests the sender against collectors that do what they should not.
#include "server/trace/http_span_sender.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

using Kind = SendOutcome::Kind;
using std::chrono::milliseconds;

constexpr milliseconds kLong(60'000);
constexpr milliseconds kShort(50);

// One connection, which a function has.
class Collector {
 public:
  explicit Collector(std::function<void(int)> serve) : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 8), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    if (serve == nullptr) return;
    thread_ = std::thread([this, serve = std::move(serve)] {
      const int fd = accept(listener_, nullptr, nullptr);
      if (fd < 0) return;
      serve(fd);
      close(fd);
    });
  }
  ~Collector() {
    shutdown(listener_, SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    close(listener_);
  }

  OtlpEndpoint endpoint() const { return {"127.0.0.1", absl::StrCat(port_), "/v1/traces"}; }

 private:
  const int listener_;
  int port_ = 0;
  std::thread thread_;
};

// Reads headers and as much body as they say, or until the other side ends.
std::string ReadRequest(int fd) {
  std::string text;
  char buffer[4096];
  std::size_t whole = std::string::npos;
  while (text.size() < whole) {
    const ssize_t count = read(fd, buffer, sizeof buffer);
    if (count <= 0) break;
    text.append(buffer, static_cast<std::size_t>(count));
    const std::size_t end = text.find("\r\n\r\n");
    const std::size_t at = text.find("Content-Length: ");
    if (end == std::string::npos || at == std::string::npos) continue;
    whole = end + 4 + std::stoul(text.substr(at + 16));
  }
  return text;
}

void Say(int fd, const std::string& text) {
  static_cast<void>(!send(fd, text.data(), text.size(), MSG_NOSIGNAL));
}

void AwaitEnd(int fd) {
  char byte = 0;
  while (read(fd, &byte, 1) > 0) continue;
}

SendOutcome SendTo(const Collector& collector, const std::string& body, milliseconds timeout) {
  HttpSpanSender sender(collector.endpoint());
  return sender.Send(body, timeout);
}

SendOutcome AnsweredWith(const std::string& answer) {
  const Collector collector([&answer](int fd) {
    ReadRequest(fd);
    Say(fd, answer);
  });
  return SendTo(collector, "{}", kLong);
}

TEST(HttpSpanSenderTest, PostsTheBody) {
  std::string request;
  const std::string body(1 << 20, 'b');
  {
    const Collector collector([&request](int fd) {
      request = ReadRequest(fd);
      Say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
    });
    EXPECT_EQ(SendTo(collector, body, kLong).kind, Kind::kTaken);
  }
  EXPECT_TRUE(absl::StartsWith(request, "POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1:"))
      << request.substr(0, 100);
  EXPECT_TRUE(absl::StrContains(request, "Content-Type: application/json\r\n"));
  EXPECT_TRUE(absl::EndsWith(request, "\r\n\r\n" + body));
}

TEST(HttpSpanSenderTest, KnowsWhichCodesAreWorthAnotherTry) {
  const auto answer = [](const char* code) {
    return AnsweredWith(absl::StrCat("HTTP/1.1 ", code, "\r\nContent-Length: 0\r\n\r\n")).kind;
  };
  for (const char* code : {"200 OK", "202 Accepted"}) EXPECT_EQ(answer(code), Kind::kTaken);
  for (const char* code : {"429 Slow down", "502 x", "503 x", "504 x"}) {
    EXPECT_EQ(answer(code), Kind::kTryAgain) << code;
  }
  for (const char* code : {"301 Moved", "400 x", "401 x", "404 x", "500 x", "501 x"}) {
    EXPECT_EQ(answer(code), Kind::kRefused) << code;
  }
}

TEST(HttpSpanSenderTest, ReadsHowManyWereRejected) {
  const std::string body = R"({"partialSuccess":{"rejectedSpans":"2"}})";
  const SendOutcome outcome = AnsweredWith(
      absl::StrCat("HTTP/1.1 200 OK\r\nContent-Length: ", body.size(), "\r\n\r\n", body));
  EXPECT_EQ(outcome.kind, Kind::kTaken);
  EXPECT_EQ(outcome.rejected_spans, 2U);
}

TEST(HttpSpanSenderTest, WhatIsNoAnswerIsTriedAgain) {
  EXPECT_EQ(AnsweredWith("").kind, Kind::kTryAgain) << "it hangs up";
  EXPECT_EQ(AnsweredWith("garbage\n\n\n").kind, Kind::kTryAgain);
  EXPECT_EQ(AnsweredWith(std::string(100, '\0')).kind, Kind::kTryAgain);
  EXPECT_EQ(AnsweredWith("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ndies").kind, Kind::kTryAgain);
  EXPECT_EQ(AnsweredWith("HTTP/1.1 200 OK\r\nX: " + std::string(20'000, 'x')).kind,
            Kind::kTryAgain);
  EXPECT_EQ(AnsweredWith("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n").kind,
            Kind::kTryAgain);
}

TEST(HttpSpanSenderTest, OneThatRefusesConnectionsIsTriedAgain) {
  OtlpEndpoint endpoint;
  {
    const Collector collector(nullptr);
    endpoint = collector.endpoint();
  }
  HttpSpanSender sender(endpoint);
  EXPECT_EQ(sender.Send("{}", kLong).kind, Kind::kTryAgain);
  EXPECT_EQ(sender.Send("{}", kLong).kind, Kind::kTryAgain) << "and again";
}

TEST(HttpSpanSenderTest, WaitsNoLongerThanItMay) {
  const Collector stalls([](int fd) { AwaitEnd(fd); });
  EXPECT_EQ(SendTo(stalls, "{}", kShort).kind, Kind::kTryAgain);
  // The body is more than the system's buffers hold, and nobody reads.
  const Collector reads_nothing(nullptr);
  EXPECT_EQ(SendTo(reads_nothing, std::string(64 << 20, 'x'), kShort).kind, Kind::kTryAgain);
  const Collector dribbles([](int fd) {
    const std::string answer = "HTTP/1.1 200 OK\r\nX: y";
    for (std::size_t i = 0; i < answer.size(); ++i) Say(fd, answer.substr(i, 1));
    AwaitEnd(fd);
  });
  EXPECT_EQ(SendTo(dribbles, "{}", kShort).kind, Kind::kTryAgain);
}

TEST(HttpSpanSenderTest, ASlowAnswerIsAnAnswer) {
  const Collector collector([](int fd) {
    ReadRequest(fd);
    const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    for (std::size_t i = 0; i < answer.size(); ++i) {
      Say(fd, answer.substr(i, 1));
      std::this_thread::yield();
    }
  });
  EXPECT_EQ(SendTo(collector, "{}", kLong).kind, Kind::kTaken);
}

TEST(HttpSpanSenderTest, IsInterrupted) {
  std::atomic<HttpSpanSender*> interrupted{nullptr};
  const Collector collector([&interrupted](int fd) {
    ReadRequest(fd);
    interrupted.load()->Interrupt();
    AwaitEnd(fd);
  });
  HttpSpanSender sender(collector.endpoint());
  interrupted = &sender;
  EXPECT_EQ(sender.Send("{}", kLong).kind, Kind::kTryAgain);
  EXPECT_EQ(sender.Send("{}", kLong).kind, Kind::kTryAgain) << "for ever";
}

}  // namespace
}  // namespace gemmd
