#include "tests/testing/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace gemmd::testing {
namespace {

sockaddr_in AddressOf(const std::string& host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) std::abort();
  return address;
}

}  // namespace

HttpConnection::HttpConnection(const std::string& address, const std::string& source,
                               const HttpTls* tls, int receive_buffer)
    : file_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (receive_buffer != 0) {
    setsockopt(file_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  }
  if (!source.empty()) {
    const sockaddr_in own = AddressOf(source, 0);
    if (bind(file_, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0) std::abort();
  }
  const std::size_t colon = address.rfind(':');
  const sockaddr_in server = AddressOf(
      address.substr(0, colon), static_cast<std::uint16_t>(std::atoi(address.c_str() + colon + 1)));
  if (connect(file_, reinterpret_cast<const sockaddr*>(&server), sizeof server) != 0) return;
  if (tls == nullptr) return;
  context_ = SSL_CTX_new(TLS_client_method());
  SSL_CTX_load_verify_locations(context_, tls->roots.c_str(), nullptr);
  SSL_CTX_set_verify(context_, SSL_VERIFY_PEER, nullptr);
  if (!tls->certificate.empty()) {
    SSL_CTX_use_certificate_chain_file(context_, tls->certificate.c_str());
    SSL_CTX_use_PrivateKey_file(context_, tls->key.c_str(), SSL_FILETYPE_PEM);
  }
  tls_ = SSL_new(context_);
  SSL_set_fd(tls_, file_);
  SSL_set1_host(tls_, "gemmd.test");
  static_cast<void>(SSL_connect(tls_));  // what follows fails where it did
}

HttpConnection::~HttpConnection() {
  if (tls_ != nullptr) SSL_free(tls_);
  if (context_ != nullptr) SSL_CTX_free(context_);
  close(file_);
}

bool HttpConnection::Write(const std::string& bytes) {
  for (std::size_t sent = 0; sent < bytes.size();) {
    const auto left = bytes.size() - sent;
    const auto count = tls_ != nullptr
                           ? SSL_write(tls_, bytes.data() + sent, static_cast<int>(left))
                           : send(file_, bytes.data() + sent, left, MSG_NOSIGNAL);
    if (count <= 0) return false;
    sent += static_cast<std::size_t>(count);
  }
  return true;
}

bool HttpConnection::Receive(std::string* bytes) {
  char buffer[4096];
  const auto count = tls_ != nullptr ? SSL_read(tls_, buffer, sizeof buffer)
                                     : recv(file_, buffer, sizeof buffer, 0);
  if (count <= 0) return false;
  bytes->append(buffer, static_cast<std::size_t>(count));
  return true;
}

HttpResult HttpConnection::ReadAnswer(bool has_body) {
  std::size_t end = 0;
  while ((end = unread_.find("\r\n\r\n")) == std::string::npos) {
    if (!Receive(&unread_)) return {};
  }
  HttpResult result;
  const std::vector<std::string> lines = absl::StrSplit(unread_.substr(0, end), "\r\n");
  unread_.erase(0, end + 4);
  constexpr std::size_t kCodeAt = 9;  // after "HTTP/1.1 "
  if (lines[0].size() > kCodeAt) result.code = std::atoi(lines[0].c_str() + kCodeAt);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(lines[i], absl::MaxSplits(": ", 1));
    result.headers[absl::AsciiStrToLower(parts.first)] = parts.second;
  }
  std::size_t bytes = 0;
  if (!has_body || !absl::SimpleAtoi(result.headers["content-length"], &bytes)) return result;
  while (unread_.size() < bytes) {
    if (!Receive(&unread_)) return {};
  }
  result.body = unread_.substr(0, bytes);
  unread_.erase(0, bytes);
  return result;
}

std::string HttpConnection::ReadToEnd() {
  while (Receive(&unread_)) {
  }
  return std::move(unread_);
}

HttpResult HttpGet(const std::string& address, const std::string& path, const std::string& headers,
                   const HttpTls* tls, const std::string& source) {
  HttpConnection connection(address, source, tls);
  connection.Write(absl::StrCat(
      "GET ", path, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", headers, "\r\n"));
  return connection.ReadAnswer();
}

}  // namespace gemmd::testing
