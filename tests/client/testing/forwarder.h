// A proxy of bytes on loopback, which a test can have go silent, or cut connections.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace gemmd::testing {

// Thread-safe.
class Forwarder {
 public:
  // Joins each connection that it takes with one of its own to `target`, "127.0.0.1:PORT". If that
  // is empty it answers nothing, and keeps what it reads.
  explicit Forwarder(std::string target);
  ~Forwarder();
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;

  std::string target() const;
  // From here on nothing comes through the connections that there are, nor do they end. New ones
  // are forwarded.
  void Silence();
  // Ends every connection that there is once so many more bytes of answers went through; once.
  void CutAfter(std::size_t bytes);
  int cuts() const;
  int connections() const;
  // The bytes of all clients.
  std::string received() const;

 private:
  struct Connection;

  void Accept();
  // Has what comes from one end go out at the other.
  void Copy(Connection& connection, bool is_from_client);
  // Returns how many of these bytes of an answer go through before connections are cut, if they
  // are.
  std::optional<std::size_t> LeftBeforeCut(std::size_t count);

  const std::string target_;
  int listener_ = -1;
  int port_ = 0;
  mutable std::mutex mutex_;
  // All guarded by mutex_.
  std::vector<std::unique_ptr<Connection>> connections_;
  std::string received_;
  std::optional<std::size_t> left_;  // bytes until connections are cut
  int cuts_ = 0;
  std::thread thread_;  // last: it uses what stands above
};

}  // namespace gemmd::testing
