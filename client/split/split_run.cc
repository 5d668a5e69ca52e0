#include "client/split/split_run.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text/quoted.h"

namespace gemmd::client {
namespace {

bool Has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string Describe(const RowRange& rows) {
  return absl::StrCat("rows ", rows.begin, " to ", rows.end, " of D");
}

// The status of the product: what it carries besides its words stays.
absl::Status OfPart(const RowRange& rows, const absl::Status& why) {
  absl::Status status(why.code(), absl::StrCat(Describe(rows), ": ", why.message()));
  why.ForEachPayload([&status](absl::string_view url, const absl::Cord& payload) {
    status.SetPayload(url, payload);
  });
  return status;
}

// The id that most rows have; of two as frequent the one that comes first.
std::string CommonId(const std::vector<SplitRun::Part>& parts) {
  std::map<std::string, std::uint64_t> rows;
  for (const SplitRun::Part& part : parts) rows[part.answer.numerics_id] += part.rows.size();
  std::string common = parts.front().answer.numerics_id;
  for (const SplitRun::Part& part : parts) {
    if (rows[part.answer.numerics_id] > rows[common]) common = part.answer.numerics_id;
  }
  return common;
}

}  // namespace

SplitRun::SplitRun(const HedgePolicy& policy, const std::vector<RowRange>& rows,
                   std::vector<std::string> servers)
    : policy_(policy), servers_(std::move(servers)) {
  for (const RowRange& each : rows) parts_.emplace_back().rows = each;
}

SplitRun::Begin SplitRun::BeginAt(std::size_t part, std::string first,
                                  std::vector<std::string> avoided, absl::Duration now) {
  const int number = static_cast<int>(attempts_.size());
  Attempt attempt;
  attempt.part = part;
  attempt.server = first;
  attempt.began = now;
  attempts_.push_back(std::move(attempt));
  ++open_;
  return {number, part, std::move(first), std::move(avoided)};
}

SplitRun::Actions SplitRun::Start(absl::Duration now) {
  Actions actions;
  actions.begins.reserve(parts_.size());
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    actions.begins.push_back(BeginAt(i, servers_[i], {}, now));
  }
  return actions;
}

bool SplitRun::IsWanted(int attempt) const { return attempts_[Index(attempt)].is_wanted; }

std::vector<int> SplitRun::OpenOf(std::size_t part) const {
  std::vector<int> open;
  for (std::size_t i = 0; i < attempts_.size(); ++i) {
    const Attempt& each = attempts_[i];
    if (each.part == part && each.is_open && each.is_wanted) open.push_back(static_cast<int>(i));
  }
  return open;
}

void SplitRun::CancelOpen(std::size_t part, Actions* actions) {
  for (const int attempt : OpenOf(part)) {
    attempts_[Index(attempt)].is_wanted = false;
    actions->cancels.push_back(attempt);
  }
}

void SplitRun::End(absl::Status why, Actions* actions) {
  status_ = std::move(why);
  for (std::size_t i = 0; i < parts_.size(); ++i) CancelOpen(i, actions);
}

SplitRun::Actions SplitRun::Succeed(int attempt, Answer answer, absl::Duration now) {
  Actions actions;
  Attempt& ended = attempts_[Index(attempt)];
  ended.is_open = false;
  --open_;
  if (!std::exchange(ended.is_wanted, false)) return actions;
  Part& part = parts_[ended.part];
  part.winner = attempt;
  part.answer = std::move(answer);
  const absl::Duration took = now - ended.began;
  took_.insert(std::upper_bound(took_.begin(), took_.end(), took), took);
  in_end_order_.push_back(ended.part);
  CancelOpen(ended.part, &actions);
  CompareNumerics(now, &actions);
  return actions;
}

SplitRun::Actions SplitRun::Fail(int attempt, const absl::Status& why, absl::Duration /*now*/) {
  Actions actions;
  Attempt& ended = attempts_[Index(attempt)];
  ended.is_open = false;
  --open_;
  if (!std::exchange(ended.is_wanted, false)) return actions;
  // Another attempt at the part may still be answered.
  if (!OpenOf(ended.part).empty()) return actions;
  End(parts_.size() == 1 ? why : OfPart(parts_[ended.part].rows, why), &actions);
  return actions;
}

bool SplitRun::MayHedge() const {
  const double most = policy_.most_parts * static_cast<double>(parts_.size());
  return status_.ok() && took_.size() * 2 >= parts_.size() &&
         static_cast<double>(hedged_ + 1) <= most;
}

absl::Duration SplitRun::HedgeTime(std::size_t part) const {
  const std::vector<int> open = OpenOf(part);
  if (!MayHedge() || parts_[part].is_hedged || open.empty()) return absl::InfiniteDuration();
  const absl::Duration median = took_[took_.size() / 2];
  return attempts_[Index(open.front())].began +
         std::max(policy_.after_at_least, policy_.after_medians * median);
}

absl::Duration SplitRun::next_wake() const {
  absl::Duration next = absl::InfiniteDuration();
  for (std::size_t i = 0; i < parts_.size(); ++i) next = std::min(next, HedgeTime(i));
  return next;
}

SplitRun::Begin SplitRun::Hedge(std::size_t part, absl::Duration now) {
  parts_[part].is_hedged = true;
  ++hedged_;
  std::vector<std::string> avoided;
  for (const Attempt& each : attempts_) {
    if (each.part == part) avoided.push_back(each.server);
  }
  // The first that ended its own part has what this one needs, and nothing to do.
  std::string first;
  for (const std::size_t ended : in_end_order_) {
    const std::string& server = parts_[ended].answer.server;
    if (!first.empty() || parts_[ended].winner < 0 || Has(avoided, server)) continue;
    first = server;
  }
  return BeginAt(part, std::move(first), std::move(avoided), now);
}

SplitRun::Actions SplitRun::Wake(absl::Duration now) {
  Actions actions;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (HedgeTime(i) <= now) actions.begins.push_back(Hedge(i, now));
  }
  return actions;
}

// Bits are those of one server where all parts have one numerics id.
void SplitRun::CompareNumerics(absl::Duration now, Actions* actions) {
  for (const Part& part : parts_) {
    if (part.winner < 0) return;
  }
  const std::string common = CommonId(parts_);
  std::vector<std::string> alike;
  std::vector<std::string> others;
  for (const Part& part : parts_) {
    (part.answer.numerics_id == common ? alike : others).push_back(part.answer.server);
  }
  // One that gave both may do so again, but no other is known to be better.
  others.erase(std::remove_if(others.begin(), others.end(),
                              [&](const std::string& name) { return Has(alike, name); }),
               others.end());
  for (const Part& part : parts_) {
    if (part.answer.numerics_id == common || part.repeats < policy_.most_repeats) continue;
    return End(
        absl::FailedPreconditionError(absl::StrCat(
            Describe(part.rows), " have numerics id ", Quoted(part.answer.numerics_id), " of ",
            part.answer.server, ", and others ", Quoted(common), " of ", alike.front(),
            ": the bits of D would not be those of one server; repeated ", part.repeats, " times")),
        actions);
  }
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].answer.numerics_id == common) continue;
    ++parts_[i].repeats;
    parts_[i].winner = -1;
    actions->begins.push_back(BeginAt(i, alike[i % alike.size()], others, now));
  }
}

}  // namespace gemmd::client
