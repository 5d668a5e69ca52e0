#include "client/blas/credentials.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace gemmd::blas {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;

// Reads a file; nothing where none is named.
bool ReadFile(const char* name, const char* path, std::string& contents) {
  contents.clear();
  if (path == nullptr) return true;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t got = file < 0 ? -1 : 1;
  char part[4096];
  while (got > 0 && contents.size() < kMostBytes) {
    got = read(file, part, sizeof(part));
    if (got > 0) contents.append(part, static_cast<std::size_t>(got));
  }
  const int error = errno;
  if (file >= 0) close(file);
  if (got == 0) return true;
  Say("%s is \"%s\": %s; all is computed here", name, path,
      got < 0 ? std::strerror(error) : "it is longer than 1 MiB");
  return false;
}

// Knows fewer spellings than IsLocalAddress() of base/text/address.h, which needs Abseil: an
// address of another spelling is another host's. A name that begins like an address is no address.
bool IsOnThisHost(std::string_view server) {
  for (const std::string_view scheme : {"unix:", "unix-abstract:"}) {
    if (server.substr(0, scheme.size()) == scheme) return true;
  }
  const std::string host(server.substr(0, server.rfind(':')));
  in_addr address{};
  return host == "localhost" || host == "[::1]" ||
         (inet_pton(AF_INET, host.c_str(), &address) == 1 && ntohl(address.s_addr) >> 24 == 127);
}

bool ReadToken(const Settings& settings, std::string& token) {
  constexpr char kName[] = "GEMMD_BLAS_TOKEN_FILE";
  if (settings.token_file == nullptr) return true;
  if (!settings.tls && !IsOnThisHost(settings.server)) {
    Say("%s would be sent to %s in plain text, without GEMMD_BLAS_TLS=1: all is computed here",
        kName, settings.server);
    return false;
  }
  if (!ReadFile(kName, settings.token_file, token)) return false;
  token.erase(token.find_last_not_of(" \t\r\n") + 1);
  const bool is_token = !token.empty() && std::all_of(token.begin(), token.end(),
                                                      [](char c) { return c > ' ' && c <= '~'; });
  if (!is_token) {
    Say("%s is \"%s\", which holds no token: all is computed here", kName, settings.token_file);
  }
  return is_token;
}

}  // namespace

bool ReadCredentials(const Settings& settings, Credentials& credentials) {
  return ReadToken(settings, credentials.token) &&
         ReadFile("GEMMD_BLAS_TLS_ROOT_CERTS", settings.tls_root_certs,
                  credentials.root_certificates) &&
         ReadFile("GEMMD_BLAS_TLS_CLIENT_CERT", settings.tls_client_cert,
                  credentials.client_certificate) &&
         ReadFile("GEMMD_BLAS_TLS_CLIENT_KEY", settings.tls_client_key, credentials.client_key);
}

}  // namespace gemmd::blas
