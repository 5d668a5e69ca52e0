#include "client/fleet/fleet.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/digest/sha256.h"

namespace gemmd::client {
namespace {

// The first eight bytes as a number, little-endian.
std::uint64_t NumberOf(absl::string_view bytes) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < std::min<std::size_t>(bytes.size(), 8); ++i) {
    number |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return number;
}

std::uint64_t HashOf(absl::string_view name) { return NumberOf(ToBytes(Sha256Of(name))); }

// The finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators):
// each bit of the sum changes half of the result's.
std::uint64_t WeightOf(std::uint64_t digest, std::uint64_t name) {
  std::uint64_t x = digest ^ name;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

bool Has(absl::Span<const int> servers, int server) {
  return std::find(servers.begin(), servers.end(), server) != servers.end();
}

}  // namespace

void Fleet::SetServers(const std::vector<std::string>& names) {
  for (Member& member : members_) {
    member.is_listed = std::find(names.begin(), names.end(), member.name) != names.end();
  }
  for (const std::string& name : names) {
    if (Find(name) >= 0) continue;
    // The place of one that is gone for good, so that a fleet whose addresses change stays small.
    auto place = std::find_if(members_.begin(), members_.end(), [](const Member& member) {
      return !member.is_listed && member.in_flight == 0;
    });
    if (place == members_.end()) place = members_.insert(members_.end(), Member());
    *place = Member();
    place->name = name;
    place->hash = HashOf(name);
    place->is_listed = true;
  }
}

void Fleet::SetHealth(int server, Health health) {
  Member& member = members_[Index(server)];
  if (health == Health::kServing && member.health != Health::kServing) {
    member.failures_in_row = 0;
    member.ejection = absl::ZeroDuration();
  }
  member.health = health;
}

bool Fleet::MayBegin(const Member& member, absl::Time now) const {
  const bool is_left_out = member.ejection > absl::ZeroDuration() && now < member.ejected_until;
  return member.is_listed && !is_left_out && member.health != Health::kNotServing;
}

// The servers of the first kind that there is any of.
std::vector<int> Fleet::Candidates(absl::Span<const int> met, absl::Time now) const {
  std::vector<int> fresh;
  std::vector<int> able;
  std::vector<int> unmet;
  std::vector<int> listed;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (!members_[i].is_listed) continue;
    const int server = static_cast<int>(i);
    const bool is_met = Has(met, server);
    const bool is_able = MayBegin(members_[i], now);
    listed.push_back(server);
    if (is_able) able.push_back(server);
    if (!is_met) unmet.push_back(server);
    if (is_able && !is_met) fresh.push_back(server);
  }
  for (std::vector<int>* each : {&fresh, &able, &unmet}) {
    if (!each->empty()) return std::move(*each);
  }
  return listed;
}

void Fleet::Sort(absl::string_view digest, std::vector<int>* candidates) const {
  const std::uint64_t number = NumberOf(digest);
  const auto weight = [&](int server) { return WeightOf(number, members_[Index(server)].hash); };
  std::sort(candidates->begin(), candidates->end(), [&](int left, int right) {
    const std::uint64_t a = weight(left);
    const std::uint64_t b = weight(right);
    return a != b ? a > b : members_[Index(left)].name < members_[Index(right)].name;
  });
}

int Fleet::ChooseOf(const std::vector<int>& candidates, const Wish& wish) {
  if (Has(candidates, wish.home)) return wish.home;
  if (wish.takes_first) return candidates.front();
  std::vector<int> order = candidates;
  if (wish.digest.empty()) {
    const std::size_t shift = turn_++ % order.size();
    std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shift), order.end());
  } else {
    Sort(wish.digest, &order);
  }
  const int load = std::accumulate(order.begin(), order.end(), 1, [this](int sum, int server) {
    return sum + members_[Index(server)].in_flight;
  });
  const double mean = load / static_cast<double>(order.size());
  const double most = std::ceil(policy_.load_bound * mean);
  const auto found = std::find_if(order.begin(), order.end(), [&](int server) {
    return members_[Index(server)].in_flight + 1 <= most;
  });
  // All of them above the mean: that is none, unless the bound is below 1.
  return found == order.end() ? order.front() : *found;
}

Fleet::Choice Fleet::Begin(const Wish& wish, absl::Time now) {
  const std::vector<int> candidates = Candidates(wish.met, now);
  if (candidates.empty()) return {};
  return BeginAt(ChooseOf(candidates, wish), now);
}

Fleet::Choice Fleet::BeginAt(int server, absl::Time now) {
  Member& member = members_[Index(server)];
  ++member.in_flight;
  ++member.attempts;
  const bool is_trial = member.ejection > absl::ZeroDuration();
  // One at a time: the next one comes as late as after another ejection.
  if (is_trial) member.ejected_until = std::max(member.ejected_until, now + member.ejection);
  return {server, is_trial};
}

void Fleet::Eject(Member& member, absl::Time now) const {
  member.ejection = member.ejection > absl::ZeroDuration()
                        ? std::min(2 * member.ejection, policy_.longest_ejection)
                        : policy_.first_ejection;
  member.ejected_until = now + member.ejection;
}

void Fleet::End(const Choice& choice, Verdict verdict, absl::Time now) {
  Member& member = members_[Index(choice.server)];
  --member.in_flight;
  if (verdict == Verdict::kUntold) return;
  const bool is_left_out = member.ejection > absl::ZeroDuration();
  // Attempts that began before it was left out say nothing new: one that drains ends what it has.
  const bool is_news = choice.is_trial || !is_left_out;
  if (verdict == Verdict::kAnswered) {
    if (!is_news) return;
    member.failures_in_row = 0;
    member.ejection = absl::ZeroDuration();
    return;
  }
  ++member.failures;
  ++member.failures_in_row;
  if (!is_news) return;
  const bool is_enough =
      verdict == Verdict::kGone || choice.is_trial || member.failures_in_row >= policy_.failures;
  if (is_enough) Eject(member, now);
}

bool Fleet::HasOther(absl::Span<const int> met, absl::Time now) const {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (MayBegin(members_[i], now) && !Has(met, static_cast<int>(i))) return true;
  }
  return false;
}

int Fleet::Find(absl::string_view name) const {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].is_listed && members_[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

std::vector<ServerState> Fleet::States(absl::Time now) const {
  std::vector<ServerState> states;
  for (const Member& member : members_) {
    if (!member.is_listed) continue;
    const bool is_ejected = member.ejection > absl::ZeroDuration() && now < member.ejected_until;
    states.push_back({member.name, member.health, is_ejected, member.in_flight, member.attempts,
                      member.failures});
  }
  return states;
}

std::vector<std::string> InOrderOf(absl::string_view digest, std::vector<std::string> names) {
  const std::uint64_t number = NumberOf(digest);
  std::vector<std::pair<std::uint64_t, std::string>> weighed;
  for (std::string& name : names) {
    const std::uint64_t weight = WeightOf(number, HashOf(name));
    weighed.emplace_back(~weight, std::move(name));  // so that the highest comes first
  }
  std::sort(weighed.begin(), weighed.end());
  names.clear();
  for (auto& [weight, name] : weighed) names.push_back(std::move(name));
  return names;
}

}  // namespace gemmd::client
