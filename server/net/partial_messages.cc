#include "server/net/partial_messages.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "base/time/units.h"

namespace gemmd {
namespace {

constexpr TimeNs kMoment = 2 * kSecond;
constexpr TimeNs kUnderWay = 10 * kSecond;
constexpr std::uint64_t kPart = 64;
constexpr TimeNs kBytesPerSecond = 128;
// Before its first call a connection brings TLS, with certificates, and settings.
constexpr std::uint64_t kFirstBytes = 1 << 16;

std::uint64_t Less(std::uint64_t from, std::uint64_t what) { return from - std::min(from, what); }

}  // namespace

void PartialMessages::Look(const ConnectionTraffic& traffic, const Events& events,
                           const ProgressLimit& limit, TimeNs now) {
  // Another connection has the same endpoint.
  if (traffic.received < traffic_.received) *this = PartialMessages();
  const std::uint64_t received = traffic.received - traffic_.received;
  std::uint64_t explained = events.explained + Less(traffic.sent, traffic_.sent) / kPart;
  if (has_looked_) {
    explained += static_cast<std::uint64_t>((now - last_look_) / (kSecond / kBytesPerSecond));
  } else {
    explained += kFirstBytes;
  }
  traffic_ = traffic;
  last_look_ = now;
  has_looked_ = true;
  hidden_ = Less(hidden_, Less(events.whole, bytes_ + received));
  bytes_ = Less(bytes_ + received, explained);
  const bool has_ended = !events.has_calls && (had_calls_ || events.explained != 0);
  had_calls_ = events.has_calls;
  if (has_ended) bytes_ = 0;
  if (events.most != kAnyBytes) {
    most_ = now < most_end_ ? std::min(most_, events.most) : events.most;
    most_end_ = now + kUnderWay;
  }
  if (now < most_end_) {
    hidden_ += Less(bytes_, most_);
    bytes_ = std::min(bytes_, most_);
  }
  if (!events.has_calls || !events.is_reading) hidden_ = 0;

  const std::uint64_t counted = events.is_held_back ? 0 : bytes_;
  least_ = std::min(least_, counted);
  lasting_ = std::min(lasting_, counted);
  if (now >= period_end_) {
    lasting_ = least_;
    least_ = counted;
    period_end_ = now + std::min(kMoment, limit.window);
  }

  const bool was_asked = std::exchange(is_asked_, counted >= kFewBytes);
  if (!is_asked_) {
    progress_ = Progress();
  } else if (!was_asked) {
    progress_ = Progress(limit, now);
  } else {
    progress_.Record(received, now);
  }
}

PartialMessages::Present PartialMessages::Now(const ConnectionTraffic& traffic,
                                              const Events& events) const {
  if (!events.has_calls && (had_calls_ || events.explained != 0)) return {};
  if (traffic.received < traffic_.received) return PartialMessages().Now(traffic, events);
  const std::uint64_t most = last_look_ < most_end_ ? std::min(most_, events.most) : events.most;
  const std::uint64_t first = has_looked_ ? 0 : kFirstBytes;
  const std::uint64_t all = bytes_ + traffic.received - traffic_.received;
  const std::uint64_t bytes = Less(all, events.explained + first + traffic.unread);
  const bool may_hide = events.has_calls && events.is_reading;
  const std::uint64_t hidden = Less(hidden_, Less(events.whole, all)) + Less(bytes, most);
  return {std::min(bytes, most), may_hide ? hidden : 0};
}

std::vector<std::string> HoldersOver(const PartialLimits& limits,
                                     std::vector<PartialHolder> holders) {
  // Each address's connections, the largest last.
  std::sort(holders.begin(), holders.end(),
            [](const PartialHolder& a, const PartialHolder& b) { return a.bytes < b.bytes; });
  struct Address {
    std::uint64_t bytes = 0;
    std::vector<const PartialHolder*> holders;
  };
  std::map<std::string, Address> addresses;
  std::uint64_t all = 0;
  for (const PartialHolder& each : holders) {
    Address& address = addresses[each.address];
    address.bytes += each.bytes;
    address.holders.push_back(&each);
    all += each.bytes;
  }
  std::vector<std::string> closed;
  const auto close_one = [&](Address* address) {
    const PartialHolder* const largest = address->holders.back();
    address->holders.pop_back();
    address->bytes -= largest->bytes;
    all -= largest->bytes;
    closed.push_back(largest->peer);
  };
  for (auto& [name, address] : addresses) {
    if (limits.proxies.count(name) != 0) continue;
    while (address.bytes > limits.per_address) close_one(&address);
  }
  while (all > limits.all) {
    const auto most = std::max_element(
        addresses.begin(), addresses.end(),
        [](const auto& a, const auto& b) { return a.second.bytes < b.second.bytes; });
    close_one(&most->second);
  }
  return closed;
}

std::vector<std::string> HoldersInTheWay(const PartialLimits& limits,
                                         std::vector<PartialHolder> holders) {
  std::uint64_t all = 0;
  std::uint64_t hidden = 0;
  for (const PartialHolder& each : holders) {
    all += each.bytes;
    hidden += each.hidden;
  }
  if (all + hidden <= limits.at_once) return {};
  PartialLimits kept;
  kept.all = limits.all;
  kept.per_address = std::numeric_limits<std::uint64_t>::max();
  if (all <= limits.at_once) {
    kept.all = limits.at_once - all;
    for (PartialHolder& each : holders) each.bytes = each.hidden;
  }
  return HoldersOver(kept, std::move(holders));
}

}  // namespace gemmd
