#include "server/trace/otlp_endpoint.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/text/address.h"
#include "base/text/quoted.h"

namespace gemmd {
namespace {

absl::Status Wrong(absl::string_view url, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("observe.otlp_endpoint is ", Quoted(url), ": ", why,
                   "; it must be http://HOST[:PORT][/PATH], to a collector of this host or one "
                   "beside it: spans are sent in plain text"));
}

bool IsPort(absl::string_view text) {
  constexpr int kMostPort = 65535;
  int port = 0;
  return absl::SimpleAtoi(text, &port) && port >= 1 && port <= kMostPort;
}

}  // namespace

std::string OtlpEndpoint::authority() const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return is_ipv6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

absl::StatusOr<OtlpEndpoint> ParseOtlpEndpoint(absl::string_view url) {
  absl::string_view rest = url;
  if (!absl::ConsumePrefix(&rest, "http://")) {
    return Wrong(url, absl::StartsWith(url, "https://") ? "there is no TLS to a collector"
                                                        : "it has no http://");
  }
  if (!std::all_of(url.begin(), url.end(), [](char c) { return c > ' ' && c <= '~'; })) {
    return Wrong(url, "it has characters that no URL has");
  }
  const absl::string_view address = rest.substr(0, rest.find('/'));
  const absl::string_view path = rest.substr(address.size());
  if (absl::StrContains(address, '@')) return Wrong(url, "it has a user name");
  if (absl::StrContains(path, '#')) return Wrong(url, "it has a fragment");
  const HostPort parts = SplitHostPort(address);
  if (parts.host.empty()) return Wrong(url, "it has no host");
  if (parts.has_port && !IsPort(parts.port)) return Wrong(url, "its port is none of 1 to 65535");
  OtlpEndpoint endpoint;
  endpoint.host = std::string(parts.host);
  endpoint.port = parts.has_port ? std::string(parts.port) : "4318";
  endpoint.target = path.empty() || path == "/" ? "/v1/traces" : std::string(path);
  return endpoint;
}

}  // namespace gemmd
