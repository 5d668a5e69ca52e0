// The calls that gRPC keeps, by its own count.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gemmd {

// gRPC makes a call, of some 15 KB, as soon as its headers have come, and tells the server of it
// once a thread is free to: so these are more than the server knows of.
class LiveCalls {
 public:
  struct OfConnection {
    std::string peer;  // gRPC's name of the connection's other end
    std::uint64_t calls = 0;
  };

  LiveCalls() = default;
  virtual ~LiveCalls() = default;
  LiveCalls(const LiveCalls&) = delete;
  LiveCalls& operator=(const LiveCalls&) = delete;

  // About how many there are; cheap, whatever the number of connections.
  virtual std::uint64_t Count() = 0;
  // Exactly, which takes some 20 us for each connection.
  virtual std::vector<OfConnection> ByConnection() = 0;
};

// Of one server, by gRPC's channelz, which the server must have enabled. One thread may use it.
class ChannelzCalls final : public LiveCalls {
 public:
  // Of the server that the process made last.
  ChannelzCalls();

  std::uint64_t Count() override;
  std::vector<OfConnection> ByConnection() override;

 private:
  // Calls that began and did not end, as the server's counters say. Those whose headers were wrong
  // are never said to end.
  std::int64_t Unended() const;

  std::int64_t server_ = 0;
  std::int64_t never_ended_ = 0;  // of Unended(), by the last exact count
};

}  // namespace gemmd
