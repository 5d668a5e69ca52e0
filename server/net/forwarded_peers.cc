#include "server/net/forwarded_peers.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace gemmd {

ForwardedPeers::Entry::Entry(Entry&& other) noexcept
    : endpoint_(std::move(other.endpoint_)), number_(std::exchange(other.number_, 0)) {}

ForwardedPeers::Entry& ForwardedPeers::Entry::operator=(Entry&& other) noexcept {
  std::swap(endpoint_, other.endpoint_);
  std::swap(number_, other.number_);
  return *this;
}

ForwardedPeers::Entry::~Entry() {
  if (number_ != 0) ForwardedPeers::Get().Forget(endpoint_, number_);
}

ForwardedPeers& ForwardedPeers::Get() {
  static ForwardedPeers* const peers = new ForwardedPeers;
  return *peers;
}

void ForwardedPeers::SetProxies(std::set<std::string> proxies) {
  const MutexLock lock(mutex_);
  has_proxies_ = !proxies.empty();
  proxies_ = std::move(proxies);
}

bool ForwardedPeers::IsProxy(const std::string& address) {
  if (!has_proxies_) return false;
  const MutexLock lock(mutex_);
  return proxies_.count(address) != 0;
}

ForwardedPeers::Entry ForwardedPeers::Add(const std::string& endpoint, const std::string& client) {
  const MutexLock lock(mutex_);
  clients_[endpoint] = {client, ++last_};
  return Entry(endpoint, last_);
}

void ForwardedPeers::Forget(const std::string& endpoint, std::uint64_t number) {
  const MutexLock lock(mutex_);
  const auto found = clients_.find(endpoint);
  if (found != clients_.end() && found->second.number == number) clients_.erase(found);
}

std::string ForwardedPeers::Name(std::string peer, const std::string& address,
                                 const std::string& endpoint) {
  if (!IsProxy(address)) return peer;
  const MutexLock lock(mutex_);
  const auto found = clients_.find(endpoint);
  if (found == clients_.end()) return absl::StrCat(peer, kVia, endpoint);
  const std::string& client = found->second.endpoint;
  return absl::StrCat(client.front() == '[' ? "ipv6:" : "ipv4:", client, kVia, endpoint);
}

}  // namespace gemmd
