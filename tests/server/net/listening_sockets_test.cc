#include "server/net/listening_sockets.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/net/sockets.h"
#include "tests/testing/unique_name.h"

namespace gemmd {
namespace {

using ::testing::HasSubstr;
using testing::Socket;

int ConnectToUnix(const std::string& path) {
  const Socket client(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, path.data(), path.size());
  return connect(client.fd(), reinterpret_cast<sockaddr*>(&name), sizeof name);
}

TEST(ListeningSockets, TakeAFreePort) {
  const auto listening = ListeningSockets::Listen("127.0.0.1:0");
  ASSERT_TRUE(listening.ok()) << listening.status();
  EXPECT_GT(listening->port(), 0);
  const Socket client = testing::NewClient();
  testing::Connect(client, listening->port());
}

TEST(ListeningSockets, OfANameHaveOnePort) {
  const auto listening = ListeningSockets::Listen("localhost:0");
  ASSERT_TRUE(listening.ok()) << listening.status();
  EXPECT_GE(listening->sockets().size(), 1U);
  const Socket client = testing::NewClient();
  testing::Connect(client, listening->port());
}

TEST(ListeningSockets, OfAnyAddressTakeIPv4) {
  for (const char* any : {"0.0.0.0:0", "[::]:0"}) {
    const auto listening = ListeningSockets::Listen(any);
    ASSERT_TRUE(listening.ok()) << listening.status();
    const Socket client = testing::NewClient();
    testing::Connect(client, listening->port());
  }
}

TEST(ListeningSockets, ShareNoPort) {
  const auto first = ListeningSockets::Listen("127.0.0.1:0");
  ASSERT_TRUE(first.ok());
  const std::string address = "127.0.0.1:" + std::to_string(first->port());
  const auto second = ListeningSockets::Listen(address);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("cannot listen on " + address + ": Address already in use"));
}

TEST(ListeningSockets, SayWhichHostIsUnknown) {
  const auto listening = ListeningSockets::Listen("no-such-host.invalid:0");
  EXPECT_THAT(std::string(listening.status().message()), HasSubstr("no-such-host.invalid:0"));
}

TEST(ListeningSockets, OfAPathReplaceAnAbandonedFileAndLeaveNone) {
  ASSERT_EQ(chdir(::testing::TempDir().c_str()), 0);  // whose own path may be too long
  const std::string path = "listening";
  struct stat file {};
  {
    const auto listening = ListeningSockets::Listen("unix:" + path);
    ASSERT_TRUE(listening.ok()) << listening.status();
    EXPECT_EQ(ConnectToUnix(path), 0);
    const auto second = ListeningSockets::Listen("unix:" + path);
    EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable) << second.status();
    EXPECT_EQ(ConnectToUnix(path), 0);  // the first one's is still there
  }
  EXPECT_NE(lstat(path.c_str(), &file), 0);
  {
    // A server that was killed leaves the socket so.
    const Socket gone(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::memcpy(name.sun_path, path.data(), path.size());
    ASSERT_EQ(bind(gone.fd(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  }
  ASSERT_EQ(lstat(path.c_str(), &file), 0);
  EXPECT_TRUE(ListeningSockets::Listen("unix:" + path).ok());
}

TEST(ListeningSockets, RefuseALongPath) {
  const auto listening = ListeningSockets::Listen("unix:/" + std::string(200, 'x'));
  EXPECT_THAT(std::string(listening.status().message()),
              HasSubstr("its name has 201 bytes, and the limit is 107"));
}

TEST(ListeningSockets, OfAnAbstractNameLeaveNoFile) {
  const std::string name = testing::UniqueName("gemmd-test-");
  const auto listening = ListeningSockets::Listen("unix-abstract:" + name);
  ASSERT_TRUE(listening.ok()) << listening.status();
  EXPECT_FALSE(ListeningSockets::Listen("unix-abstract:" + name).ok());
}

}  // namespace
}  // namespace gemmd
