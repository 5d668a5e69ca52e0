// HTTP/1.1 by hand, for what no client library sends.
#pragma once

#include <openssl/ssl.h>

#include <map>
#include <string>

namespace gemmd::testing {

struct HttpTls {
  std::string roots;        // a PEM file
  std::string certificate;  // PEM files; empty: none is shown
  std::string key;
};

struct HttpResult {
  int code = 0;                                // 0: no whole answer came
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

// A connection whose client does what it likes.
class HttpConnection {
 public:
  // Connects to HOST:PORT with a numeric IPv4 host; `source`: the client's address, empty: the
  // system's choice. A server that refuses closes, which what follows then says.
  explicit HttpConnection(const std::string& address, const std::string& source = "",
                          const HttpTls* tls = nullptr, int receive_buffer = 0);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  bool Write(const std::string& bytes);
  // Reads one answer, with as much body as it announces; none where `has_body` is false.
  HttpResult ReadAnswer(bool has_body = true);
  // All that comes until the server closes.
  std::string ReadToEnd();

 private:
  bool Receive(std::string* bytes);

  int file_ = -1;
  SSL_CTX* context_ = nullptr;
  SSL* tls_ = nullptr;
  std::string unread_;
};

// One GET over a connection of its own. `headers`: whole lines, each with "\r\n".
HttpResult HttpGet(const std::string& address, const std::string& path,
                   const std::string& headers = "", const HttpTls* tls = nullptr,
                   const std::string& source = "");

}  // namespace gemmd::testing
