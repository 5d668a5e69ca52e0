// The attempts at the parts of one product: which begin, and whose answers are taken. A state
// machine without clock, lock or socket. docs/several-servers.md explains it to users.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/split/cut_rows.h"

namespace gemmd::client {

struct HedgePolicy {
  // Once half of the parts have ended, one that takes so many times their median is asked for at
  // another server too. The first answer is taken, and the other attempt cancelled.
  double after_medians = 2;
  absl::Duration after_at_least = absl::Milliseconds(50);
  // The share of a product's parts that may be hedged, rounded down: servers that are all slow are
  // not asked for twice the work.
  double most_parts = 0.5;
  // A part whose numerics id is not that of the others is computed anew so often.
  int most_repeats = 2;
};

// Not thread-safe. Times count from where the product began.
class SplitRun {
 public:
  // An attempt, which has its own retries.
  struct Begin {
    int attempt = 0;
    std::size_t part = 0;
    std::string first;                 // the server to go to if it serves; empty: any
    std::vector<std::string> avoided;  // servers to go to only where no other serves
  };
  struct Actions {
    std::vector<Begin> begins;
    std::vector<int> cancels;
  };
  struct Answer {
    std::string server;
    std::string numerics_id;
  };
  struct Part {
    RowRange rows;
    int winner = -1;  // the attempt whose answer is taken
    Answer answer;    // that one
    bool is_hedged = false;
    int repeats = 0;
  };

  // Part i goes to server i first. REQUIRES: servers.size() >= rows.size() > 0.
  SplitRun(const HedgePolicy& policy, const std::vector<RowRange>& rows,
           std::vector<std::string> servers);

  // REQUIRES: called once, first.
  Actions Start(absl::Duration now);
  // An attempt has ended, each once. An answer is taken where IsWanted() was true before.
  Actions Succeed(int attempt, Answer answer, absl::Duration now);
  Actions Fail(int attempt, const absl::Status& why, absl::Duration now);
  // Begins what is due.
  Actions Wake(absl::Duration now);
  // When something will be due, if nothing ends before; infinite: never.
  absl::Duration next_wake() const;

  // Returns whether the attempt's answer would be taken.
  bool IsWanted(int attempt) const;
  // Nothing is under way, and nothing more begins.
  bool is_over() const { return open_ == 0; }
  // The product's; it stays an error once it is one.
  const absl::Status& status() const { return status_; }
  const std::vector<Part>& parts() const { return parts_; }

 private:
  struct Attempt {
    std::size_t part = 0;
    std::string server;  // that it was to go to first
    absl::Duration began;
    bool is_open = true;
    bool is_wanted = true;
  };

  static std::size_t Index(int attempt) { return static_cast<std::size_t>(attempt); }
  Begin BeginAt(std::size_t part, std::string first, std::vector<std::string> avoided,
                absl::Duration now);
  // Attempts at the part that are under way and wanted.
  std::vector<int> OpenOf(std::size_t part) const;
  absl::Duration HedgeTime(std::size_t part) const;
  bool MayHedge() const;
  Begin Hedge(std::size_t part, absl::Duration now);
  void CancelOpen(std::size_t part, Actions* actions);
  void End(absl::Status why, Actions* actions);
  void CompareNumerics(absl::Duration now, Actions* actions);

  const HedgePolicy policy_;
  const std::vector<std::string> servers_;
  std::vector<Part> parts_;
  std::vector<Attempt> attempts_;
  std::vector<absl::Duration> took_;       // of answers that were taken, sorted
  std::vector<std::size_t> in_end_order_;  // their parts
  int open_ = 0;
  std::size_t hedged_ = 0;
  absl::Status status_;
};

}  // namespace gemmd::client
