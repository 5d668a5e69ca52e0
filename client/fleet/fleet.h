// Chooses the server of each attempt, where a client knows several: a state machine without clock,
// lock or socket. docs/several-servers.md explains it to users.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace gemmd::client {

struct FleetPolicy {
  // Attempts in a row that end with UNAVAILABLE leave their server out.
  int failures = 3;
  // For so long; twice as long each time that the attempt after it fails as well.
  absl::Duration first_ejection = absl::Seconds(1);
  absl::Duration longest_ejection = absl::Minutes(1);
  // A server gets no attempt that would make its load more than so many times the mean, rounded up.
  double load_bound = 1.25;
};

// The state of a server, as it says itself by grpc.health.v1.
enum class Health { kUnknown, kServing, kNotServing };

// The part of an attempt's end that tells of its server.
enum class Verdict {
  kAnswered,     // with a result, or with a refusal of the request
  kUnavailable,  // perhaps in passing
  kGone,         // it drains, or no connection could be made: it is left out at once
  kUntold,       // nothing
};

struct ServerState {
  std::string name;
  Health health = Health::kUnknown;
  bool is_ejected = false;
  int in_flight = 0;  // attempts
  std::uint64_t attempts = 0;
  std::uint64_t failures = 0;  // attempts that were kUnavailable or kGone
};

// Not thread-safe. A server is a number, which stays its own while it is listed or has attempts in
// flight.
class Fleet {
 public:
  explicit Fleet(const FleetPolicy& policy = {}) : policy_(policy) {}

  // The servers from now on; those that were there before keep their numbers and what is known of
  // them. REQUIRES: no name is there twice.
  void SetServers(const std::vector<std::string>& names);

  // A server that was left out and says that it serves is back.
  void SetHealth(int server, Health health);

  struct Wish {
    // The operand's that the server should hold, 32 uniform bytes; empty: it is no matter.
    absl::string_view digest;
    // The server that alone holds a part of the request, or that its caller wishes; -1: none.
    int home = -1;
    // Servers that the call has met already.
    absl::Span<const int> met;
    bool takes_first = false;  // the first of the list, whatever its load
  };

  struct Choice {
    int server = -1;        // none is listed
    bool is_trial = false;  // it was left out until now
  };

  // Chooses the server of an attempt and counts it there. Servers that are neither left out nor not
  // serving come first, and of these those that were not met. Among them, and up to the bound of
  // the load: the home; else the first in the digest's own order; without a digest each in turn,
  // or the first.
  Choice Begin(const Wish& wish, absl::Time now);
  // Counts an attempt there, whatever its state.
  Choice BeginAt(int server, absl::Time now);
  // REQUIRES: once for each Begin() that chose one.
  void End(const Choice& choice, Verdict verdict, absl::Time now);

  // Returns whether a server may be asked that was not met.
  bool HasOther(absl::Span<const int> met, absl::Time now) const;

  // -1: no server of that name is listed.
  int Find(absl::string_view name) const;
  const std::string& name(int server) const { return members_[Index(server)].name; }
  // Those that are listed.
  std::vector<ServerState> States(absl::Time now) const;

 private:
  struct Member {
    std::string name;
    std::uint64_t hash = 0;
    bool is_listed = false;
    Health health = Health::kUnknown;
    int in_flight = 0;
    std::uint64_t attempts = 0;
    std::uint64_t failures = 0;
    int failures_in_row = 0;
    absl::Duration ejection;  // the present or last one's length; zero: none
    absl::Time ejected_until = absl::InfinitePast();  // of an ejection: when a trial may be made
  };

  static std::size_t Index(int server) { return static_cast<std::size_t>(server); }
  bool MayBegin(const Member& member, absl::Time now) const;
  std::vector<int> Candidates(absl::Span<const int> met, absl::Time now) const;
  int ChooseOf(const std::vector<int>& candidates, const Wish& wish);
  void Sort(absl::string_view digest, std::vector<int>* candidates) const;
  void Eject(Member& member, absl::Time now) const;

  const FleetPolicy policy_;
  std::vector<Member> members_;
  std::size_t turn_ = 0;
};

// Puts names in the order in which servers of these names are to hold the operand: the highest
// random weight first, which moves no operand of the others where one server goes. Every client of
// every language has the same order.
std::vector<std::string> InOrderOf(absl::string_view digest, std::vector<std::string> names);

}  // namespace gemmd::client
