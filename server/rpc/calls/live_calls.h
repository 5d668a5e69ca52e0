// The calls that gRPC keeps, by its own count.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace gemmd {

// gRPC makes a call, of some 15 KB, as soon as its headers have come, and tells the server of it
// once a thread is free to: so these are more than the server knows of.
class LiveCalls {
 public:
  struct OfConnection {
    std::int64_t id = 0;  // of no other connection, before or after
    std::string peer;     // as NamedPeer() has it
    std::uint64_t calls = 0;
    std::uint64_t answered = 0;  // calls so far that had their answer before they were reset
    bool is_served = false;      // it had such an answer, or a message on a stream
  };

  LiveCalls() = default;
  virtual ~LiveCalls() = default;
  LiveCalls(const LiveCalls&) = delete;
  LiveCalls& operator=(const LiveCalls&) = delete;

  // About how many there are; cheap, whatever the number of connections.
  virtual std::uint64_t Count() = 0;
  // Exactly, which takes some 20 us for each connection; those without calls, too.
  virtual std::vector<OfConnection> ByConnection() = 0;
};

// Estimates how many of the calls whose end gRPC never reported are no longer alive: gRPC counts a
// call whose headers were wrong as begun, and as nothing else. A value, which learns from exact
// counts; those may be too low, because a connection's calls live on when it is closed and can no
// more be counted. So it never takes a live call for one of these for longer than that call lives.
class NeverEndedCalls {
 public:
  // Returns how many of `unended` calls are alive.
  std::uint64_t LiveOf(std::uint64_t unended) {
    number_ = std::min(number_, unended);
    return unended - number_;
  }
  // Learns that `live` of `unended` calls were counted.
  void Counted(std::uint64_t unended, std::uint64_t live) {
    number_ = unended - std::min(live, unended);
  }

 private:
  std::uint64_t number_ = 0;
};

// Counts the calls of one server, by gRPC's channelz, which the server must have enabled. One
// thread may use it.
class ChannelzCalls final : public LiveCalls {
 public:
  // Watches the server that the process made last.
  ChannelzCalls();

  std::uint64_t Count() override;
  std::vector<OfConnection> ByConnection() override;

 private:
  // Calls that began and did not end, as the server's counters say.
  std::uint64_t Unended() const;

  std::int64_t server_ = 0;
  NeverEndedCalls never_ended_;
};

}  // namespace gemmd
