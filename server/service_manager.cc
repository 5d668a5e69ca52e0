#include "server/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "absl/strings/str_cat.h"

namespace gemmd {

void TellServiceManager(absl::string_view state) {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr) return;
  const std::size_t bytes = std::strlen(path);
  sockaddr_un address{};
  // "@" stands for the zero byte with which abstract names begin.
  if (bytes < 2 || bytes >= sizeof address.sun_path || (path[0] != '/' && path[0] != '@')) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path, bytes);
  if (path[0] == '@') address.sun_path[0] = '\0';
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + bytes);
  // A manager that does not listen misses the state; the server goes on.
  static_cast<void>(sendto(socket, state.data(), state.size(), MSG_NOSIGNAL,
                           reinterpret_cast<const sockaddr*>(&address), size));
  close(socket);
}

std::string ReloadingState() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::int64_t us = std::int64_t{now.tv_sec} * 1000000 + now.tv_nsec / 1000;
  return absl::StrCat("RELOADING=1\nMONOTONIC_USEC=", us);
}

}  // namespace gemmd
