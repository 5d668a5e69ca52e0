// Remembers whose connections they are that proxies forward.
#pragma once

#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "base/sync/mutex.h"

namespace gemmd {

// gRPC names a peer by the address that the system has, which is the proxy's. A forwarded
// connection's peer has another name, made of gRPC's: "ipv4:10.0.0.9:4711 via 10.0.0.2:5000", where
// the proxy's end comes last. Where the proxy does not say who the client is, it stands for it:
// "ipv4:10.0.0.2:5000 via 10.0.0.2:5000". None of these is on this host: a proxy's loopback is not
// the server's.
//
// One for the process, as its sockets' endpoints are. Thread-safe.
class ForwardedPeers {
 public:
  static constexpr absl::string_view kVia = " via ";

  // Forgets a connection's client when it is destroyed, unless another has its endpoint by then.
  class Entry {
   public:
    Entry() = default;
    Entry(Entry&& other) noexcept;
    Entry& operator=(Entry&& other) noexcept;
    ~Entry();

   private:
    friend class ForwardedPeers;
    Entry(std::string endpoint, std::uint64_t number)
        : endpoint_(std::move(endpoint)), number_(number) {}
    std::string endpoint_;
    std::uint64_t number_ = 0;  // 0: of none
  };

  static ForwardedPeers& Get();

  // Connections from these addresses, as PeerOf() has them, are forwarded ones from now on.
  void SetProxies(std::set<std::string> proxies);
  bool IsProxy(const std::string& address);
  bool has_proxies() const { return has_proxies_; }

  // `endpoint`: the connection's, as EndpointOf() has it. `client`: the client's.
  Entry Add(const std::string& endpoint, const std::string& client);

  // The peer's name; `peer` itself where the connection is not forwarded. `address`: of `peer`.
  std::string Name(std::string peer, const std::string& address, const std::string& endpoint);

 private:
  struct Client {
    std::string endpoint;
    std::uint64_t number = 0;
  };

  void Forget(const std::string& endpoint, std::uint64_t number);

  std::atomic<bool> has_proxies_{false};
  Mutex mutex_;
  std::set<std::string> proxies_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<std::string, Client> clients_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd
