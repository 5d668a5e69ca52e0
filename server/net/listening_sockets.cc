#include "server/net/listening_sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/text/address.h"

namespace gemmd {
namespace {

absl::Status Refusal(const std::string& address, absl::string_view why) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address, ": ", why));
}

absl::Status SystemRefusal(const std::string& address) {
  return Refusal(address, std::strerror(errno));
}

void SetOption(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof value);
}

// Bound and listening, or -1 with errno.
int ListenOn(const sockaddr* address, socklen_t size) {
  const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (address->sa_family != AF_UNIX) {
    // Restarts do not wait for connections of the process before; connections inherit the other.
    SetOption(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  }
  if (address->sa_family == AF_INET6) {
    const auto* const v6 = reinterpret_cast<const sockaddr_in6*>(address);
    SetOption(fd, IPPROTO_IPV6, IPV6_V6ONLY, IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr) ? 0 : 1);
  }
  if (bind(fd, address, size) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

int PortOf(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size);
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                           : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
}

void SetPort(sockaddr* address, int port) {
  const in_port_t value = htons(static_cast<std::uint16_t>(port));
  if (address->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = value;
  } else {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = value;
  }
}

// A socket's file that nobody listens behind.
bool IsAbandoned(const sockaddr_un& name, socklen_t size) {
  struct stat file {};
  if (lstat(name.sun_path, &file) != 0 || !S_ISSOCK(file.st_mode)) return false;
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return false;
  const bool is_refused =
      connect(probe, reinterpret_cast<const sockaddr*>(&name), size) != 0 && errno == ECONNREFUSED;
  close(probe);
  return is_refused;
}

}  // namespace

ListeningSockets::ListeningSockets(ListeningSockets&& other) noexcept
    : sockets_(std::exchange(other.sockets_, {})),
      port_(other.port_),
      path_(std::exchange(other.path_, {})) {}

ListeningSockets::~ListeningSockets() {
  for (const int fd : sockets_) close(fd);
  if (!path_.empty()) unlink(path_.c_str());
}

absl::StatusOr<ListeningSockets> ListeningSockets::Listen(const std::string& address) {
  ListeningSockets listening;
  const absl::Status status = absl::StartsWith(address, "unix") ? listening.ListenOnUnix(address)
                                                                : listening.ListenOnHost(address);
  if (!status.ok()) return status;
  return listening;
}

absl::Status ListeningSockets::ListenOnUnix(const std::string& address) {
  absl::string_view name = address;
  const bool is_abstract = absl::ConsumePrefix(&name, "unix-abstract:");
  // unix:///path, as gRPC's clients may write it, is the same as unix:/path.
  if (absl::ConsumePrefix(&name, "unix:")) absl::ConsumePrefix(&name, "//");
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  // A name begins with a zero byte, a path ends with one.
  const std::size_t most = sizeof to.sun_path - 1;
  if (name.size() > most) {
    return Refusal(address,
                   absl::StrCat("its name has ", name.size(), " bytes, and the limit is ", most));
  }
  std::memcpy(to.sun_path + (is_abstract ? 1 : 0), name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + 1);
  if (!is_abstract && IsAbandoned(to, size)) unlink(to.sun_path);
  const int fd = ListenOn(reinterpret_cast<const sockaddr*>(&to), size);
  if (fd < 0) return SystemRefusal(address);
  sockets_.push_back(fd);
  if (!is_abstract) path_ = to.sun_path;
  return absl::OkStatus();
}

absl::Status ListeningSockets::ListenOnHost(const std::string& address) {
  const HostPort parts = SplitHostPort(address);
  const std::string port(parts.port);
  // IPv6's takes IPv4 too. If there is no IPv6, IPv4's alone is left.
  const bool is_any = parts.host == "0.0.0.0" || parts.host == "::";
  std::vector<std::string> hosts = {std::string(parts.host)};
  if (is_any) hosts = {"::", "0.0.0.0"};
  absl::Status status;
  for (const std::string& host : hosts) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0) {
      status = Refusal(address, gai_strerror(error));
      continue;
    }
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, freeaddrinfo);
    for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
      if (port_ != 0) SetPort(each->ai_addr, port_);  // the free one that the first took
      const int fd = ListenOn(each->ai_addr, each->ai_addrlen);
      if (fd < 0) {
        // A host may have addresses of a family that this machine does not run.
        const bool has_no_family = errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL;
        status = SystemRefusal(address);
        if (has_no_family) continue;
        return status;
      }
      sockets_.push_back(fd);
      port_ = PortOf(fd);
    }
    if (is_any && !sockets_.empty()) break;
  }
  return sockets_.empty() ? status : absl::OkStatus();
}

}  // namespace gemmd
