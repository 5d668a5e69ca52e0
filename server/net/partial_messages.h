// Estimates what gRPC keeps of messages, and of headers, that are not whole yet.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/time/clock.h"
#include "server/observe/progress.h"

namespace gemmd {

// The bytes that came over a connection since it was opened, those its client acknowledged, and
// those that came and wait in the system.
struct ConnectionTraffic {
  std::uint64_t received = 0;
  std::uint64_t sent = 0;
  std::uint64_t unread = 0;
};

// The estimate for one connection: a value, which looks at the connection now and then. gRPC says
// nothing of a message until it is whole, and one may have four gibibytes before gRPC finds it too
// large; nor of a call until its headers are whole, which may have 16 MiB. So this counts the bytes
// that came and that nothing explains. Explanations are generous, because a client that is wronged
// loses its connection: for one that behaves as gRPC's do the estimate may be too low, but is not
// too high.
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
    std::uint64_t whole = 0;         // bytes of messages, without anything besides
    bool has_calls = true;           // now
    bool is_reading = true;          // a message may be under way to one of them
    bool is_held_back = false;       // the server does not read all of its calls
  };
  void Look(const ConnectionTraffic& traffic, const Events& events, const ProgressLimit& limit,
            TimeNs now);

  // The estimate at the last look.
  std::uint64_t bytes() const { return bytes_; }
  // The most that the connection may keep beside the estimate. A call that ends within a message
  // takes bytes off the estimate that may be those of another call, which goes on. They count here
  // until messages come that the estimate has no bytes for, or no call is left that reads.
  std::uint64_t hidden() const { return hidden_; }

  struct Present {
    std::uint64_t bytes = 0;
    std::uint64_t hidden = 0;
  };
  // Estimates both now, for what gRPC has read, from the events since the last look. They are not
  // consumed: the next Look() is told them too. It makes no difference who holds the bytes back.
  Present Now(const ConnectionTraffic& traffic, const Events& events) const;
  // The least estimate since the last whole period of up to two seconds began: a message that comes
  // fast is not in it. 0 while the server holds the connection's calls back.
  std::uint64_t lasting() const { return lasting_; }
  // Returns whether the estimate is of more than a few bytes and nothing comes, as Progress has it.
  bool IsStalled(TimeNs now) const { return progress_.IsStalled(now); }
  // Returns whether it is of more than a few bytes, and they come.
  bool IsComing(TimeNs now) const { return is_asked_ && !progress_.IsStalled(now); }

 private:
  ConnectionTraffic traffic_;
  TimeNs last_look_ = 0;
  bool has_looked_ = false;
  bool had_calls_ = false;
  std::uint64_t bytes_ = 0;
  std::uint64_t hidden_ = 0;
  std::uint64_t lasting_ = 0;
  std::uint64_t least_ = 0;  // of the period
  TimeNs period_end_ = 0;
  std::uint64_t most_ = 0;  // of the estimate, until then
  TimeNs most_end_ = 0;
  bool is_asked_ = false;  // progress_ counts
  Progress progress_;
};

// Bounds on the bytes of messages that are not whole: those that all connections may keep, those
// that the connections of one address may keep, and those that all may have for a moment.
struct PartialLimits {
  std::uint64_t all = std::uint64_t{256} << 20;
  std::uint64_t per_address = std::uint64_t{128} << 20;
  std::uint64_t at_once = std::uint64_t{384} << 20;
  std::set<std::string> proxies;  // addresses without a limit of their own
};

struct PartialHolder {
  std::string peer;
  std::string address;
  std::uint64_t bytes = 0;
  std::uint64_t hidden = 0;  // the most that it may keep besides
};

// Returns the peers to close so that the limits of what is kept hold: of the address that has the
// most, the connection that has the most, again and again.
std::vector<std::string> HoldersOver(const PartialLimits& limits,
                                     std::vector<PartialHolder> holders);

// Returns the peers to close where all together have more than `at_once`: in the order of
// HoldersOver(), until the rest has no more than `all`, whatever one address has. If only hidden
// bytes make it too much, they are those that may hide the most, until it is not.
std::vector<std::string> HoldersInTheWay(const PartialLimits& limits,
                                         std::vector<PartialHolder> holders);

}  // namespace gemmd
