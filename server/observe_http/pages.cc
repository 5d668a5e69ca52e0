#include "server/observe_http/pages.h"

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/text/address.h"
#include "base/text/quoted.h"
#include "server/observe_http/console.h"

namespace gemmd {
namespace {

HttpAnswer Text(HttpCode code, absl::string_view text) {
  HttpAnswer answer;
  answer.code = code;
  answer.body = absl::StrCat(text, "\n");
  return answer;
}

HttpAnswer Refusal(const absl::Status& status) {
  const HttpCode code = absl::IsUnauthenticated(status)    ? HttpCode::kUnauthorized
                        : absl::IsPermissionDenied(status) ? HttpCode::kForbidden
                                                           : HttpCode::kBadRequest;
  HttpAnswer answer = Text(code, status.message());
  if (code == HttpCode::kUnauthorized) answer.headers.emplace_back("WWW-Authenticate", "Bearer");
  return answer;
}

// Returns whether a Host header names this host. HTTP/1.0 needs none, and browsers always send one.
bool NamesThisHost(absl::string_view header) {
  if (header.empty()) return true;
  const HostPort named = SplitHostPort(header);
  // A header that is merged of two has more behind its colon.
  if (!std::all_of(named.port.begin(), named.port.end(), absl::ascii_isdigit)) return false;
  const absl::string_view host = named.host;
  return IsLoopback(host) || absl::EndsWithIgnoreCase(host, ".localhost");
}

}  // namespace

HttpAnswer Pages::Answer(const HttpRequest& request) const {
  if (sources_.is_loopback && !NamesThisHost(request.host)) {
    return Text(
        HttpCode::kForbidden,
        absl::StrCat("Host is ", Quoted(request.host),
                     "; it must be localhost or an address of loopback, as the listener's"));
  }
  if (request.path == "/healthz") return Text(HttpCode::kOk, "ok");
  if (request.path == "/readyz") {
    return sources_.is_draining() ? Text(HttpCode::kUnavailable, "draining")
                                  : Text(HttpCode::kOk, "ready");
  }
  if (request.path == "/") return Console();
  if (request.path == "/metrics" || request.path == "/console.json") {
    if (const absl::Status s = sources_.access->Check(request); !s.ok()) return Refusal(s);
    return request.path == "/metrics" ? Metrics(request) : Numbers();
  }
  return Text(HttpCode::kNotFound, "there are /, /console.json, /metrics, /healthz and /readyz");
}

HttpAnswer Pages::Console() {
  HttpAnswer answer;
  answer.content_type = "text/html; charset=utf-8";
  answer.body = std::string(ConsolePage());
  answer.headers.emplace_back("Content-Security-Policy", ConsolePolicy());
  answer.headers.emplace_back("Referrer-Policy", "no-referrer");
  return answer;
}

HttpAnswer Pages::Numbers() const {
  HttpAnswer answer;
  answer.content_type = "application/json";
  answer.body = sources_.console_numbers();
  return answer;
}

HttpAnswer Pages::Metrics(const HttpRequest& request) const {
  const ExpositionForm form = absl::StrContains(request.accept, "application/openmetrics-text")
                                  ? ExpositionForm::kOpenMetrics
                                  : ExpositionForm::kPrometheus;
  HttpAnswer answer;
  answer.content_type = std::string(ContentType(form));
  answer.body = WriteExposition(sources_.metrics(), form);
  return answer;
}

}  // namespace gemmd
