#include "client/calls/servers.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/text/quoted.h"
#include "base/text/server_list.h"
#include "client/details.h"
#include "gemmd/v1/matrix.pb.h"
#include "gemmd/v1/status.pb.h"

namespace gemmd::client {
namespace {

// Between two looks at a name whose servers are well.
constexpr std::chrono::seconds kLook(30);

// Homes beyond so many are forgotten, and looked for again.
constexpr std::size_t kMostHomes = 4096;

Verdict VerdictOf(const absl::Status& status) {
  if (absl::IsUnavailable(status)) {
    const bool is_gone = IsUnreachable(status) || DetailOf<v1::Draining>(status).has_value();
    return is_gone ? Verdict::kGone : Verdict::kUnavailable;
  }
  // The caller's clock, or the caller, ended it.
  const bool is_untold = absl::IsCancelled(status) || absl::IsDeadlineExceeded(status);
  return is_untold ? Verdict::kUntold : Verdict::kAnswered;
}

ChannelOptions ChannelTo(const ChannelOptions& options, std::string target) {
  ChannelOptions one = options;
  one.target = std::move(target);
  return one;
}

// A certificate is checked for the name, though the connection is to an address.
ChannelOptions ChannelTo(const ChannelOptions& options, const NameAndPort& name,
                         std::string address) {
  ChannelOptions one = ChannelTo(options, std::move(address));
  if (one.tls && one.tls->server_name_override.empty()) one.tls->server_name_override = name.name;
  return one;
}

}  // namespace

TourPlan PlanOf(const CallOptions& call) {
  TourPlan plan;
  plan.server = call.server;
  plan.first = call.first;
  plan.avoided = call.avoided;
  return plan;
}

std::string KeyOfHandle(absl::string_view handle) {
  // "a1b2c3d4-7": the process, and a number.
  return std::string(handle.substr(0, handle.find('-')));
}

std::string KeyOfName(absl::string_view name) { return absl::StrCat("@", name); }

Server::Server(const ClientOptions& options, const ChannelOptions& channel_options,
               const std::shared_ptr<Timer>& timer, bool is_one_of_several)
    : name(channel_options.target),
      operands{options.retry,
               timer,
               MakeChannel(channel_options),
               UploadChannels(channel_options),
               options.affinity_header,
               is_one_of_several},
      matmul(channel_options, operands, options.streams),
      admin(v1::Admin::NewStub(operands.channel)),
      health(grpc::health::v1::Health::NewStub(operands.channel)),
      gemm(v1::Gemm::NewStub(operands.channel)) {}

Servers::Servers(const ClientOptions& options, const std::shared_ptr<Timer>& timer)
    : options_(options), timer_(timer), fleet_(options.fleet.policy) {
  std::vector<std::string> entries = options.servers;
  if (entries.empty()) {
    one_ = std::make_shared<Server>(options, options.channel, timer, false);
    return;
  }
  absl::StatusOr<std::vector<std::string>> targets = ServerTargets("servers", entries);
  if (!targets.ok()) {
    fault_ = targets.status();
    return;
  }
  targets_ = *std::move(targets);
  has_names_ = std::any_of(targets_.begin(), targets_.end(),
                           [](const std::string& each) { return NameOfServers(each).has_value(); });
  if (targets_.size() == 1 && !has_names_) {
    one_ = std::make_shared<Server>(options, ChannelTo(options.channel, targets_[0]), timer, false);
    return;
  }
  Refresh();
  if (has_names_) follower_ = std::thread([this] { Follow(); });
}

Servers::~Servers() {
  std::map<std::string, std::shared_ptr<Server>> servers;
  {
    const MutexLock lock(mutex_);
    is_ending_ = true;
    changed_.notify_all();
  }
  if (follower_.joinable()) follower_.join();
  {
    const MutexLock lock(mutex_);
    servers.swap(servers_);
  }
  // Here and not under the lock, which a watch's last words take.
  servers.clear();
  FreeGone();
}

std::vector<std::string> Servers::names() const {
  if (one_ != nullptr) return {one_->name};
  const MutexLock lock(mutex_);
  return order_;
}

std::vector<std::string> Servers::NamesOf(const std::string& server) const {
  if (!server.empty()) return {server};
  std::vector<std::string> every = names();
  // A call to no server says why there is none.
  if (every.empty()) every.emplace_back();
  return every;
}

void Servers::Wait(absl::Duration delay) const {
  auto rung = std::make_shared<std::promise<void>>();
  timer_->After(delay, [rung] { rung->set_value(); });
  rung->get_future().wait();
}

std::vector<ServerState> Servers::states() const {
  if (one_ != nullptr) {
    ServerState state;
    state.name = one_->name;
    state.in_flight = one_->matmul.in_flight;
    return {state};
  }
  const MutexLock lock(mutex_);
  return fleet_.States(options_.fleet.now());
}

void Servers::Learn(const std::vector<std::string>& things, const std::string& server) {
  if (things.empty() || one_ != nullptr) return;
  const MutexLock lock(mutex_);
  if (homes_.size() + things.size() > kMostHomes) homes_.clear();
  for (const std::string& thing : things) homes_[thing] = server;
}

std::vector<int> Servers::NumbersOf(const std::vector<std::string>& names) const {
  std::vector<int> numbers;
  for (const std::string& name : names) {
    const int number = fleet_.Find(name);
    if (number >= 0) numbers.push_back(number);
  }
  return numbers;
}

int Servers::HomeOf(const std::vector<std::string>& things) const {
  for (const std::string& thing : things) {
    const auto home = homes_.find(thing);
    if (home != homes_.end()) return fleet_.Find(home->second);
  }
  return -1;
}

absl::StatusOr<Servers::Chosen> Servers::Choose(const TourPlan& plan,
                                                std::vector<std::string>* met) {
  const absl::Time now = options_.fleet.now();
  const MutexLock lock(mutex_);
  Fleet::Choice choice;
  if (!plan.server.empty()) {
    const int server = fleet_.Find(plan.server);
    if (server < 0 && fault_.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "server is ", Quoted(plan.server), "; it must be one of ", absl::StrJoin(order_, ", ")));
    }
    if (server >= 0) choice = fleet_.BeginAt(server, now);
  } else {
    if (!fleet_.HasOther(NumbersOf(*met), now)) met->clear();
    const std::vector<int> numbers = NumbersOf(*met);
    Fleet::Wish wish;
    wish.digest = plan.digest;
    wish.home = HomeOf(plan.things);
    if (wish.home < 0 && !plan.first.empty()) wish.home = fleet_.Find(plan.first);
    wish.takes_first = plan.takes_first;
    wish.met = numbers;
    choice = fleet_.Begin(wish, now);
  }
  if (choice.server < 0) {
    must_look_ = true;
    changed_.notify_all();
    return fault_;
  }
  return Chosen{servers_.at(fleet_.name(choice.server)), choice};
}

void Servers::Report(const Fleet::Choice& choice, Verdict verdict) {
  const absl::Time now = options_.fleet.now();
  const MutexLock lock(mutex_);
  fleet_.End(choice, verdict, now);
  if (!has_names_ || (verdict != Verdict::kGone && verdict != Verdict::kUnavailable)) return;
  must_look_ = true;
  changed_.notify_all();
}

bool Servers::HasOther(const std::vector<std::string>& met) const {
  const absl::Time now = options_.fleet.now();
  const MutexLock lock(mutex_);
  return fleet_.HasOther(NumbersOf(met), now);
}

void Servers::OnHealth(const std::string& name, Health health) {
  const MutexLock lock(mutex_);
  const int server = fleet_.Find(name);
  if (server >= 0) fleet_.SetHealth(server, health);
  if (!has_names_ || health != Health::kNotServing) return;
  must_look_ = true;
  changed_.notify_all();
}

void Servers::Refresh() {
  std::vector<ChannelOptions> found;
  absl::Status fault;
  for (const std::string& target : targets_) {
    const std::optional<NameAndPort> name = NameOfServers(target);
    if (!name) {
      found.push_back(ChannelTo(options_.channel, target));
      continue;
    }
    absl::StatusOr<std::vector<std::string>> addresses = options_.fleet.resolve(*name);
    if (!addresses.ok()) {
      // Servers that are known stay: a resolver that fails says nothing of them.
      fault = addresses.status();
      MarkUnreachable(fault);
      const MutexLock lock(mutex_);
      if (!order_.empty()) return;
      continue;
    }
    for (std::string& address : *addresses) {
      found.push_back(ChannelTo(options_.channel, *name, std::move(address)));
    }
  }
  if (found.size() > kMostServers) found.resize(kMostServers);
  if (found.empty() && fault.ok()) fault = absl::UnavailableError("servers have no address");
  {
    const MutexLock lock(mutex_);
    fault_ = fault;
  }
  SetServers(found);
}

void Servers::SetServers(const std::vector<ChannelOptions>& found) {
  std::vector<std::string> order;
  std::vector<std::shared_ptr<Server>> made;
  for (const ChannelOptions& channel : found) {
    // A name may stand for an address that the list has too.
    if (std::find(order.begin(), order.end(), channel.target) != order.end()) continue;
    order.push_back(channel.target);
    {
      const MutexLock lock(mutex_);
      if (servers_.count(channel.target) > 0) continue;
    }
    made.push_back(std::make_shared<Server>(options_, channel, timer_, true));
  }
  const MutexLock lock(mutex_);
  fleet_.SetServers(order);
  for (auto each = servers_.begin(); each != servers_.end();) {
    const bool stays = std::find(order.begin(), order.end(), each->first) != order.end();
    if (!stays) gone_.push_back(std::move(each->second));
    each = stays ? std::next(each) : servers_.erase(each);
  }
  order_ = std::move(order);
  for (std::shared_ptr<Server>& server : made) {
    server->watch = std::make_unique<HealthWatch>(
        server->operands.channel,
        [this, name = server->name](Health health) { OnHealth(name, health); });
    servers_[server->name] = std::move(server);
  }
}

void Servers::FreeGone() {
  std::vector<std::shared_ptr<Server>> free;
  {
    const MutexLock lock(mutex_);
    const auto used =
        std::partition(gone_.begin(), gone_.end(),
                       [](const std::shared_ptr<Server>& each) { return each.use_count() > 1; });
    std::move(used, gone_.end(), std::back_inserter(free));
    gone_.erase(used, gone_.end());
  }
  // Not under the lock, which a watch's last words take.
  free.clear();
}

void Servers::Follow() {
  while (true) {
    {
      const MutexLock lock(mutex_);
      const auto begun = std::chrono::steady_clock::now();
      const auto soonest = begun + absl::ToChronoNanoseconds(options_.fleet.look_pause);
      while (!is_ending_ && std::chrono::steady_clock::now() < soonest) {
        changed_.wait_until(mutex_, soonest);
      }
      while (!is_ending_ && !must_look_ && std::chrono::steady_clock::now() < begun + kLook) {
        changed_.wait_until(mutex_, begun + kLook);
      }
      if (is_ending_) return;
      must_look_ = false;
    }
    Refresh();
    FreeGone();
  }
}

absl::Status Tour::Begin() {
  if (servers_.one_ != nullptr) {
    if (server_ == nullptr) {
      if (!plan_.server.empty() && plan_.server != servers_.one_->name) {
        return absl::InvalidArgumentError(
            absl::StrCat("server is ", Quoted(plan_.server), "; it must be ", servers_.one_->name));
      }
      server_ = servers_.one_;
    }
    return absl::OkStatus();
  }
  absl::StatusOr<Servers::Chosen> chosen = servers_.Choose(plan_, &met_);
  if (!chosen.ok()) return chosen.status();
  choice_ = chosen->choice;
  server_ = std::move(chosen->server);
  return absl::OkStatus();
}

absl::Status Tour::End(const absl::Status& status) {
  if (choice_.server < 0) return status;
  const Verdict verdict = VerdictOf(status);
  servers_.Report(std::exchange(choice_, {}), verdict);
  if (status.ok()) return status;
  if (verdict == Verdict::kUnavailable || verdict == Verdict::kGone || absl::IsNotFound(status)) {
    met_.push_back(server_->name);
  }
  absl::Status named = status;
  MarkServer(server_->name, named);
  return named;
}

void Tour::Leave() {
  if (choice_.server >= 0) servers_.Report(std::exchange(choice_, {}), Verdict::kUntold);
  server_ = nullptr;
}

void Tour::Learn(const std::string& handle) {
  if (!is_one_of_several()) return;
  std::vector<std::string> things = plan_.things;
  if (!handle.empty()) things.push_back(KeyOfHandle(handle));
  servers_.Learn(things, server_->name);
}

bool Tour::HasOther() const {
  return is_one_of_several() && plan_.server.empty() && servers_.HasOther(met_);
}

bool Tour::MaySearch(const absl::Status& status) const {
  return absl::IsNotFound(status) && HasOther();
}

}  // namespace gemmd::client
