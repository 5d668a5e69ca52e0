#include "server/rpc/calls/live_calls.h"

#include <grpc/grpc.h>
#include <grpc/support/alloc.h>

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "server/rpc/calls/peer.h"

namespace gemmd {
namespace {

using nlohmann::json;

// Channelz answers with its messages (grpc/channelz/v1/channelz.proto) as JSON, and with none where
// it does not know what was asked for: an empty object here. Takes the text.
json Parse(char* text) {
  if (text == nullptr) return json::object();
  json parsed = json::parse(text, nullptr, false);
  gpr_free(text);
  return parsed.is_object() ? parsed : json::object();
}

// A 64-bit number, which that form writes as a string, and leaves out where it is 0.
std::int64_t NumberOf(const json& message, const char* name) {
  std::int64_t number = 0;
  if (!absl::SimpleAtoi(message.value(name, "0"), &number)) return 0;
  return number;
}

const json& MemberOf(const json& message, const char* name) {
  static const json* const kNone = new json(json::object());
  const auto found = message.find(name);
  return found == message.end() ? *kNone : *found;
}

}  // namespace

ChannelzCalls::ChannelzCalls() {
  bool is_last = false;
  while (!is_last) {
    const json page = Parse(grpc_channelz_get_servers(server_ + 1));
    for (const json& each : MemberOf(page, "server")) {
      server_ = std::max(server_, NumberOf(MemberOf(each, "ref"), "serverId"));
    }
    is_last = MemberOf(page, "server").empty() || page.value("end", false);
  }
}

std::uint64_t ChannelzCalls::Unended() const {
  const json answer = Parse(grpc_channelz_get_server(server_));
  const json& data = MemberOf(MemberOf(answer, "server"), "data");
  const std::int64_t unended = NumberOf(data, "callsStarted") - NumberOf(data, "callsSucceeded") -
                               NumberOf(data, "callsFailed");
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, unended));
}

std::uint64_t ChannelzCalls::Count() { return never_ended_.LiveOf(Unended()); }

std::vector<LiveCalls::OfConnection> ChannelzCalls::ByConnection() {
  std::vector<OfConnection> connections;
  const std::uint64_t unended = Unended();
  std::uint64_t all = 0;
  std::int64_t next = 0;
  bool is_last = false;
  while (!is_last) {
    constexpr std::intptr_t kUsualNumber = 0;
    const json page = Parse(grpc_channelz_get_server_sockets(server_, next, kUsualNumber));
    for (const json& each : MemberOf(page, "socketRef")) {
      const std::int64_t socket = NumberOf(each, "socketId");
      next = std::max(next, socket + 1);
      const json answer = Parse(grpc_channelz_get_socket(socket));
      const json& data = MemberOf(MemberOf(answer, "socket"), "data");
      const std::int64_t answered = NumberOf(data, "streamsSucceeded");
      const std::int64_t unended =
          NumberOf(data, "streamsStarted") - answered - NumberOf(data, "streamsFailed");
      const auto calls = static_cast<std::uint64_t>(std::max<std::int64_t>(0, unended));
      all += calls;
      const std::string name = each.value("name", "");
      const bool is_served = answered != 0 || NumberOf(data, "messagesSent") != 0;
      connections.push_back({socket, NamedPeer(std::string(absl::StripPrefix(name, "chttp2 "))),
                             calls, static_cast<std::uint64_t>(answered), is_served});
    }
    is_last = MemberOf(page, "socketRef").empty() || page.value("end", false);
  }
  never_ended_.Counted(unended, all);
  return connections;
}

}  // namespace gemmd
