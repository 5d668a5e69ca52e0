#include "client/status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/details.h"
#include "gemmd/v1/status.pb.h"

namespace gemmd::client {
namespace {

// "... message larger than max (33554451 vs. 4194304)" -> both numbers, where they are
// written so: the text is gRPC's and may change.
std::optional<std::pair<std::uint64_t, std::uint64_t>> SizeAndLimit(absl::string_view message) {
  const std::size_t open = message.rfind('(');
  if (open == absl::string_view::npos) return std::nullopt;
  absl::string_view numbers = absl::StripSuffix(message.substr(open + 1), ")");
  const std::vector<absl::string_view> parts = absl::StrSplit(numbers, " vs. ");
  std::pair<std::uint64_t, std::uint64_t> result;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &result.first) ||
      !absl::SimpleAtoi(parts[1], &result.second)) {
    return std::nullopt;
  }
  return result;
}

absl::Status MessageOverLimit(const std::string& message) {
  const auto numbers = SizeAndLimit(message);
  const std::string what =
      numbers ? absl::StrCat("the request is a message of ", numbers->first,
                             " bytes, but the server accepts at most ", numbers->second)
              : absl::StrCat("the request is a message above the server's limit (", message, ")");
  return absl::InvalidArgumentError(
      absl::StrCat(what,
                   ": inline operands are bounded by ServerInfo.limits.message_bytes; "
                   "stream it, or split the product"));
}

struct Cause {
  absl::string_view words;  // gRPC's
  absl::string_view text;
  bool is_lasting;  // trying again does not help
};

// The most likely cause of a connection that could not be made; null if gRPC's message suggests
// none. With TLS 1.3 a client has finished its part of the handshake when its own certificate is
// refused, and all that it sees of the refusal is the end of the connection.
const Cause* CauseOf(absl::string_view message) {
  static constexpr Cause kKnown[] = {
      {"certificate verify failed",
       "the server's certificate is of no authority that is trusted here, or is out of its time",
       true},
      {"is not in peer certificate",
       "the server's certificate has another name than the one it was called by; expect that one "
       "if it is right",
       true},
      {"wrong version number", "the server answers in plaintext, and was called with TLS", true},
      {"Socket closed",
       "the server ended the connection while it was made: it wants TLS, or a client certificate, "
       "or takes this one for expired, revoked or of an authority that it does not know; its log "
       "has the reason",
       false},
      {"empty address list",
       "the root certificates, or the client's certificate and key, are no PEM or do not belong "
       "together",
       false},
  };
  for (const Cause& each : kKnown) {
    if (absl::StrContains(message, each.words)) return &each;
  }
  return nullptr;
}

// The most likely proxy's doing; empty if gRPC's message suggests none. gemmd itself answers every
// refusal by a status.
absl::string_view ProxysDoing(absl::string_view message) {
  if (absl::StrContains(message, "http2 header with status: 413")) {
    return "a proxy on the way takes no message or stream of so many bytes (docs/proxies.md)";
  }
  if (absl::StrContains(message, "Received RST_STREAM")) {
    return "perhaps a proxy on the way, which takes no stream of so many bytes or of so long "
           "(docs/proxies.md)";
  }
  return {};
}

// Returns whether it says that no connection could be made.
bool SaysUnreachable(const grpc::Status& status) {
  const std::string& message = status.error_message();
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         (absl::StrContains(message, "failed to connect to all addresses") ||
          absl::StartsWith(message, "DNS resolution failed") ||
          absl::StartsWith(message, "empty address list"));
}

std::string WithCause(const std::string& message, const Cause* cause) {
  const absl::string_view text = cause != nullptr ? cause->text : ProxysDoing(message);
  return text.empty() ? message : absl::StrCat(message, ": ", text);
}

}  // namespace

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
      absl::StrContains(status.error_message(), "message larger than max")) {
    return MessageOverLimit(status.error_message());
  }
  if (status.error_code() == grpc::StatusCode::CANCELLED) {
    // This library cancels nothing, so it was the server's gRPC, which cancels what reaches it
    // while it shuts down.
    return absl::UnavailableError(
        absl::StrCat("the server ended before it took the request: ", status.error_message()));
  }
  // Both number their codes as google.rpc.Code does.
  const bool is_unreachable = SaysUnreachable(status);
  const Cause* const cause = is_unreachable ? CauseOf(status.error_message()) : nullptr;
  absl::Status told(static_cast<absl::StatusCode>(status.error_code()),
                    WithCause(status.error_message(), cause));
  if (is_unreachable) MarkUnreachable(told);
  if (cause != nullptr && cause->is_lasting) MarkLasting(told);
  v1::StatusDetails details;
  if (details.ParseFromString(status.error_details())) {
    for (const google::protobuf::Any& each : details.details()) {
      told.SetPayload(each.type_url(), absl::Cord(each.value()));
    }
  }
  return told;
}

absl::Status AnswerWasLost() {
  return absl::UnavailableError("the connection ended before the answer had come");
}

}  // namespace gemmd::client
