#include "server/observe_http/http_target.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace gemmd {
namespace {

// The length of "http://" or "https://", in any case; 0: the target does not begin so.
std::size_t SchemeBytes(absl::string_view target) {
  for (const absl::string_view scheme : {"http://", "https://"}) {
    if (absl::StartsWithIgnoreCase(target, scheme)) return scheme.size();
  }
  return 0;
}

}  // namespace

absl::StatusOr<HttpTarget> ReadHttpTarget(absl::string_view target,
                                          const std::vector<std::string>& hosts, bool needs_host) {
  if (hosts.size() > 1 || (needs_host && hosts.empty())) {
    return absl::InvalidArgumentError(
        absl::StrCat("a request has one Host header; this one has ", hosts.size()));
  }
  HttpTarget read;
  if (!hosts.empty()) read.host = hosts.front();
  if (const std::size_t scheme = SchemeBytes(target); scheme != 0) {
    target.remove_prefix(scheme);
    const absl::string_view host = target.substr(0, target.find_first_of("/?"));
    if (host.empty() || absl::StrContains(host, "@")) {
      return absl::InvalidArgumentError("a request's target names a host, without a user");
    }
    read.host = std::string(host);
    target.remove_prefix(host.size());
    if (target.empty() || target.front() == '?') {
      read.path = "/";
      return read;
    }
  }
  if (target.empty() || target.front() != '/') {
    return absl::InvalidArgumentError(
        "a request's target is a path, which begins with /, or a URL");
  }
  read.path = std::string(target.substr(0, target.find('?')));
  return read;
}

}  // namespace gemmd
