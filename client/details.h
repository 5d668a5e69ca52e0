// Typed details of a server's error, such as which operands are missing.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace gemmd::client {

// The prefix that google.protobuf.Any gives the names of types.
inline constexpr char kTypePrefix[] = "type.googleapis.com/";

// Puts a detail there, as FromGrpc() does.
template <typename Message>
void SetDetail(const Message& message, absl::Status& status) {
  status.SetPayload(absl::StrCat(kTypePrefix, Message::descriptor()->full_name()),
                    absl::Cord(message.SerializeAsString()));
}

// A detail of this type, which FromGrpc() keeps as a payload of the status under its type's URL.
template <typename Message>
std::optional<Message> DetailOf(const absl::Status& status) {
  const auto payload =
      status.GetPayload(absl::StrCat(kTypePrefix, Message::descriptor()->full_name()));
  Message message;
  if (!payload.has_value() || !message.ParseFromString(std::string(*payload))) return std::nullopt;
  return message;
}

// Marks an error that trying again does not cure: a certificate that is not trusted, for example.
inline constexpr char kLastingUrl[] = "gemmd/client/lasting";
inline void MarkLasting(absl::Status& status) { status.SetPayload(kLastingUrl, absl::Cord()); }
inline bool IsLasting(const absl::Status& status) {
  return status.GetPayload(kLastingUrl).has_value();
}

// Marks an error of a call that reached no server, because no connection could be made.
inline constexpr char kUnreachableUrl[] = "gemmd/client/unreachable";
inline void MarkUnreachable(absl::Status& status) {
  status.SetPayload(kUnreachableUrl, absl::Cord());
}
inline bool IsUnreachable(const absl::Status& status) {
  return status.GetPayload(kUnreachableUrl).has_value();
}

// Names the server that an error is of, where a client knows several.
inline constexpr char kServerUrl[] = "gemmd/client/server";
inline void MarkServer(const std::string& name, absl::Status& status) {
  status.SetPayload(kServerUrl, absl::Cord(name));
}
// Empty: it is of the client's only server, or of none.
inline std::string ServerOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kServerUrl);
  return payload ? std::string(*payload) : std::string();
}

}  // namespace gemmd::client
