// A port that takes connections and never says a word.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace gemmd::testing {

// The kernel completes connections to it, up to its backlog; nobody reads what they send. If no
// port can be had, target() names port 0, to which no one connects.
class SilentListener {
 public:
  SilentListener() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (bind(socket_, any, size) == 0 && listen(socket_, 16) == 0 &&
        getsockname(socket_, any, &size) == 0) {
      port_ = ntohs(address.sin_port);
    }
  }
  SilentListener(const SilentListener&) = delete;
  SilentListener& operator=(const SilentListener&) = delete;
  ~SilentListener() { close(socket_); }

  std::string target() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  int socket_;
  int port_ = 0;
};

}  // namespace gemmd::testing
