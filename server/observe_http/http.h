// Requests and answers of HTTP as values: what pages know of it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "server/auth/identity.h"

namespace gemmd {

enum class HttpCode : std::uint16_t {
  kOk = 200,
  kBadRequest = 400,
  kUnauthorized = 401,
  kForbidden = 403,
  kNotFound = 404,
  kMethodNotAllowed = 405,
  kHeadersTooLarge = 431,
  kUnavailable = 503,
};

// A GET or a HEAD; nothing else comes to a page.
struct HttpRequest {
  std::string path;    // without what follows a "?"
  std::string accept;  // of the header; empty: anything
  std::string host;    // of the target or the header; empty: none came
  // The values of all headers of that name, in their order.
  std::vector<std::string> authorization;
  std::string peer;               // as EndpointOf() names it
  CallerCredentials certificate;  // what the TLS handshake has shown, and nothing else
};

struct HttpAnswer {
  HttpCode code = HttpCode::kOk;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // further ones
};

}  // namespace gemmd
