// A proxy of bytes on loopback, which a test can have go silent.
#pragma once

#include <memory>
#include <mutex>
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
  int connections() const;
  // The bytes of all clients.
  std::string received() const;

 private:
  struct Connection;

  void Accept();
  // Has what comes from one end go out at the other.
  void Copy(Connection& connection, bool is_from_client);

  const std::string target_;
  int listener_ = -1;
  int port_ = 0;
  mutable std::mutex mutex_;
  // All guarded by mutex_.
  std::vector<std::unique_ptr<Connection>> connections_;
  std::string received_;
  std::thread thread_;  // last: it uses what stands above
};

}  // namespace gemmd::testing
