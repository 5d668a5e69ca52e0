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
  absl::Status told(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  v1::StatusDetails details;
  if (details.ParseFromString(status.error_details())) {
    for (const google::protobuf::Any& each : details.details()) {
      told.SetPayload(each.type_url(), absl::Cord(each.value()));
    }
  }
  return told;
}

}  // namespace gemmd::client
