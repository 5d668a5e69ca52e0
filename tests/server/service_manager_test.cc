#include "server/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

// A service manager at a path, or at an abstract name, which begins with a zero byte.
class Manager {
 public:
  explicit Manager(const std::string& name) : socket_(::socket(AF_UNIX, SOCK_DGRAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    EXPECT_LT(name.size(), sizeof address.sun_path);
    std::memcpy(address.sun_path, name.data(), std::min(name.size(), sizeof address.sun_path));
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&address), size), 0);
  }
  ~Manager() { close(socket_); }

  // Empty: nothing came.
  std::string Read() const {
    char bytes[256];
    const ssize_t got = recv(socket_, bytes, sizeof bytes, MSG_DONTWAIT);
    return got > 0 ? std::string(bytes, static_cast<std::size_t>(got)) : "";
  }

 private:
  const int socket_;
};

TEST(ServiceManager, IsToldAtItsPath) {
  // A socket's path has 107 bytes at most, and TempDir() may have more.
  const std::string path = absl::StrCat("/tmp/gemmd-notify-", getpid());
  const Manager manager(path);
  setenv("NOTIFY_SOCKET", path.c_str(), 1);
  TellServiceManager("READY=1");
  EXPECT_EQ(manager.Read(), "READY=1");
  TellServiceManager(ReloadingState());
  EXPECT_THAT(manager.Read(), ::testing::MatchesRegex("RELOADING=1\nMONOTONIC_USEC=[0-9]+"));
  unlink(path.c_str());
}

TEST(ServiceManager, IsToldAtItsAbstractName) {
  const std::string name = absl::StrCat("gemmd-notify-", getpid());
  const Manager manager(std::string(1, '\0') + name);
  setenv("NOTIFY_SOCKET", absl::StrCat("@", name).c_str(), 1);
  TellServiceManager("STOPPING=1");
  EXPECT_EQ(manager.Read(), "STOPPING=1");
}

TEST(ServiceManager, IsNotMissed) {
  unsetenv("NOTIFY_SOCKET");
  TellServiceManager("READY=1");
  const std::string names[] = {"", "/", "relative", "/no/such/socket", std::string(200, '/')};
  for (const std::string& name : names) {
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
    TellServiceManager("READY=1");
  }
}

}  // namespace
}  // namespace gemmd
