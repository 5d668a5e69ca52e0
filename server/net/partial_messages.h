// Estimates what gRPC keeps of messages, and of headers, that are not whole yet.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "server/observe/clock.h"
#include "server/transfer/progress.h"

namespace gemmd {

// The bytes that came over a connection since it was opened, and those its client acknowledged.
struct ConnectionTraffic {
  std::uint64_t received = 0;
  std::uint64_t sent = 0;
};

// The estimate for one connection: a value, which looks at the connection now and then. gRPC says
// nothing of a message until it is whole, and one may have four gibibytes before gRPC finds it too
// large; nor of a call until its headers are whole, which may have 16 MiB. So this counts the bytes
// that came and that nothing explains. Explanations are generous, because who is wronged loses a
// connection: for a client that is as gRPC's are, the estimate may be too low and is not too high.
//
//   a message     its bytes, a 64th more for frames and TLS, and 128
//   a call        its headers as they are, not as HPACK packs them, and 512
//   an answer     a 64th of what was sent, for the client's window updates
//   a second      128 bytes, for pings
//   a call's end  all that came since before it began, if it ended within a message: gRPC drops
//                 what it kept for that call, and for ten seconds what was under way to it
//   no call       all, where there was one
class PartialMessages {
 public:
  // Below this a connection is not asked for progress.
  static constexpr std::uint64_t kFewBytes = 1 << 18;
  static constexpr std::uint64_t kAnyBytes = ~std::uint64_t{0};

  static std::uint64_t OfMessage(std::uint64_t bytes) { return bytes + bytes / 64 + 128; }
  static std::uint64_t OfCall(std::uint64_t header_bytes) { return header_bytes + 512; }

  // A connection's news since the last look.
  struct Events {
    std::uint64_t explained = 0;     // bytes, of messages and calls
    std::uint64_t most = kAnyBytes;  // bytes, from a call that ended within a message
    bool has_calls = true;           // now
    bool is_held_back = false;       // the server does not read all of its calls
  };
  void Look(const ConnectionTraffic& traffic, const Events& events, const ProgressLimit& limit,
            TimeNs now);

  // The estimate at the last look.
  std::uint64_t bytes() const { return bytes_; }
  // The least of it in a period of up to two seconds, of which the last has ended: a message that
  // comes fast is not in it. 0 while the server holds the connection's calls back.
  std::uint64_t lasting() const { return lasting_; }
  // Returns whether the estimate is of more than a few bytes and nothing comes, as Progress has it.
  bool IsStalled(TimeNs now) const { return progress_.IsStalled(now); }

 private:
  ConnectionTraffic traffic_;
  TimeNs last_look_ = 0;
  bool has_looked_ = false;
  bool had_calls_ = false;
  std::uint64_t bytes_ = 0;
  std::uint64_t lasting_ = 0;
  std::uint64_t least_ = 0;  // of the period
  TimeNs period_end_ = 0;
  std::uint64_t most_ = 0;  // of the estimate, until then
  TimeNs most_end_ = 0;
  bool is_asked_ = false;  // progress_ counts
  Progress progress_;
};

// Bytes of messages that are not whole, which all connections and those of one address may keep.
struct PartialLimits {
  std::uint64_t all = std::uint64_t{256} << 20;
  std::uint64_t per_address = std::uint64_t{128} << 20;
  std::set<std::string> proxies;  // addresses without a limit of their own
};

struct PartialHolder {
  std::string peer;
  std::string address;
  std::uint64_t bytes = 0;
};

// Returns the peers to close so that the limits hold: of the address that has the most, the
// connection that has the most, again and again.
std::vector<std::string> HoldersOver(const PartialLimits& limits,
                                     std::vector<PartialHolder> holders);

}  // namespace gemmd
