#include "server/scheduling/job_queue.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gemmd {
namespace {

TimeNs Ns(double us) { return static_cast<TimeNs>(us * 1e3); }

std::size_t Index(int level) { return static_cast<std::size_t>(level); }

}  // namespace

void JobQueue::Push(Job* job, const Terms& terms, TimeNs now) {
  std::unique_ptr<Node> owned = NewNode();
  Node* const node = owned.get();
  node->job = job;
  node->sequence = next_sequence_++;
  node->due = std::min(job->deadline, now + policy_.ageing);
  node->level = static_cast<int>(job->priority);
  node->slices = terms.slices;
  node->us = terms.key.has_value() ? terms.marginal_us : terms.us / terms.slices;
  node->tenant = TenantOf(job->tenant, job->weight);
  node->late_at = job->start_by;
  if (job->deadline != kNoDeadline) {
    node->late_at = std::min(node->late_at, job->deadline - Ns(terms.least_us));
  }
  if (node->late_at != kNoDeadline) late_.emplace(node->late_at, node);
  if (terms.key.has_value()) {
    node->is_keyed = true;
    node->pending_batch = pending_batches_.try_emplace(*terms.key).first;
    PendingBatch& batch = node->pending_batch->second;
    const bool by_rows = terms.key->form() == BatchForm::kRows;
    if (batch.jobs.empty()) {
      batch.fixed_us = terms.us - terms.marginal_us;
      batch.max_size = by_rows ? policy_.max_rows : static_cast<std::int64_t>(policy_.max_jobs);
    }
    if (by_rows) node->size = job->work.problem.m;
    // Late enough to gather, early enough to be on time with as long a launch as may be.
    node->close_at = now + policy_.delay;
    if (job->deadline != kNoDeadline) {
      node->close_at = std::min(node->close_at, job->deadline - 2 * Ns(policy_.max_us));
    }
    AddClosing(&batch, node->close_at);
  } else {
    ++free_jobs_;
  }
  if (node->slices > 1) unbegun_.insert(node->by_level());
  AddUse(*node, 1);
  Enter(node, now);
  nodes_.emplace(job->id, std::move(owned));
}

JobQueue::Tenant* JobQueue::TenantOf(const std::string& name, std::optional<double> weight) {
  const auto [position, is_new] = tenants_.try_emplace(name);
  Tenant* const tenant = &position->second;
  if (is_new || weight.has_value()) {
    for (Lane& lane : tenant->lanes) lane.weight = weight.has_value() ? *weight : Weight(name);
  }
  return tenant;
}

void JobQueue::ForgetIfEmpty(const std::string& tenant) {
  const auto position = tenants_.find(tenant);
  if (position->second.use.jobs == 0 && position->second.expected == 0) tenants_.erase(position);
}

std::uint64_t JobQueue::Expect(const Newcomer& newcomer, TimeNs now) {
  const std::uint64_t number = next_sequence_++;
  const ExpectedPlace place = {newcomer.tenant, Index(static_cast<int>(newcomer.priority)),
                               std::min(newcomer.deadline, now + policy_.ageing)};
  Tenant* const tenant = TenantOf(place.tenant, newcomer.weight);
  ++tenant->expected;
  Lane& lane = tenant->lanes[place.level];
  Level& level = levels_[place.level];
  if (lane.expected.empty()) level.expecting.push_back(&lane);
  lane.expected.emplace(std::make_pair(place.due, number),
                        Expected{newcomer.deadline, newcomer.us});
  for (double* const us : {&lane.expected_us, &level.expected_us, &expected_us_}) {
    *us += newcomer.us;
  }
  expected_.emplace(number, place);
  return number;
}

void JobQueue::Forget(std::uint64_t number) {
  const auto position = expected_.find(number);
  const ExpectedPlace place = std::move(position->second);
  expected_.erase(position);
  Tenant& tenant = tenants_.at(place.tenant);
  Lane& lane = tenant.lanes[place.level];
  Level& level = levels_[place.level];
  const auto expected = lane.expected.find({place.due, number});
  for (double* const us : {&lane.expected_us, &level.expected_us, &expected_us_}) {
    *us -= expected->second.us;
  }
  lane.expected.erase(expected);
  // Clears the error that rounding left.
  if (lane.expected.empty()) {
    level.expecting.remove(&lane);
    lane.expected_us = 0;
  }
  if (level.expecting.empty()) level.expected_us = 0;
  if (expected_.empty()) expected_us_ = 0;
  --tenant.expected;
  ForgetIfEmpty(place.tenant);
}

void JobQueue::Enter(Node* node, TimeNs now) {
  Level& level = levels_[Index(node->level)];
  Lane& lane = node->tenant->lanes[Index(node->level)];
  if (lane.jobs.empty()) level.ring.push_back(&lane);
  lane.jobs.insert(node->by_due());
  const double us = node->left_us();
  lane.us += us;
  level.us += us;
  node->aged_at = now + policy_.ageing;
  node->arrival = level.by_arrival.insert(level.by_arrival.end(), node);
  if (node->is_keyed) node->pending_batch->second.jobs.insert(node->by_level());
}

void JobQueue::Leave(Node* node) {
  Level& level = levels_[Index(node->level)];
  Lane& lane = node->tenant->lanes[Index(node->level)];
  if (node->is_keyed) node->pending_batch->second.jobs.erase(node->by_level());
  level.by_arrival.erase(node->arrival);
  lane.jobs.erase(node->by_due());
  const double us = node->left_us();
  lane.us -= us;
  level.us -= us;
  if (lane.jobs.empty()) {
    level.ring.remove(&lane);
    // A lane without jobs saves nothing up, and owes nothing.
    lane.us = lane.deficit_us = 0;
    lane.has_turn = false;
  }
  if (level.ring.empty()) level.us = 0;
}

void JobQueue::Erase(Node* node) {
  Leave(node);
  AddUse(*node, -1);
  if (node->late_at != kNoDeadline) late_.erase({node->late_at, node});
  if (node->slices > 1 && node->next_slice == 0) unbegun_.erase(node->by_level());
  if (node->is_keyed) {
    PendingBatch& batch = node->pending_batch->second;
    RemoveClosing(&batch, node->close_at);
    if (batch.jobs.empty()) pending_batches_.erase(node->pending_batch);
  } else {
    --free_jobs_;
  }
  if (node->tenant->use.jobs == 0) ForgetIfEmpty(node->job->tenant);
  const auto position = nodes_.find(node->job->id);
  spare_.push_back(std::move(position->second));
  nodes_.erase(position);
}

std::unique_ptr<JobQueue::Node> JobQueue::NewNode() {
  if (spare_.empty()) return std::make_unique<Node>();
  std::unique_ptr<Node> node = std::move(spare_.back());
  spare_.pop_back();
  *node = Node();
  return node;
}

void JobQueue::AddUse(const Node& node, int sign) {
  for (QueueUse* const use : {&node.tenant->use, &use_}) {
    use->jobs += static_cast<std::size_t>(sign);
    use->bytes += static_cast<std::uint64_t>(sign) * node.job->host_bytes;
    use->rows += sign * node.job->work.rows();
    use->us += sign * node.left_us();
  }
  if (node.is_keyed) Resize(&node.pending_batch->second, sign * node.size);
  // Clears the error that rounding left.
  for (QueueUse* const use : {&node.tenant->use, &use_}) {
    if (use->jobs == 0) use->us = 0;
  }
}

void JobQueue::Resize(PendingBatch* batch, std::int64_t by) {
  use_.us -= batch->us();
  if (batch->is_full()) --full_;
  batch->size += by;
  if (batch->is_full()) ++full_;
  use_.us += batch->us();
}

void JobQueue::AddClosing(PendingBatch* batch, TimeNs close_at) {
  auto& all = batch->close_at;
  if (all.empty() || close_at < *all.begin()) {
    if (!all.empty()) closings_.erase({*all.begin(), batch});
    closings_.emplace(close_at, batch);
  }
  all.insert(close_at);
}

void JobQueue::RemoveClosing(PendingBatch* batch, TimeNs close_at) {
  auto& all = batch->close_at;
  const TimeNs before = *all.begin();
  all.erase(all.find(close_at));
  if (!all.empty() && *all.begin() == before) return;
  closings_.erase({before, batch});
  if (!all.empty()) closings_.emplace(*all.begin(), batch);
}

bool JobQueue::Remove(const Job& job) {
  const auto position = nodes_.find(job.id);
  if (position == nodes_.end()) return false;
  Erase(position->second.get());
  return true;
}

std::vector<Job*> JobQueue::RemoveLate(TimeNs now) {
  std::vector<Job*> late;
  while (!late_.empty() && late_.begin()->first <= now) {
    Node* const node = late_.begin()->second;
    late.push_back(node->job);
    Erase(node);
  }
  return late;
}

std::array<JobQueue::Level*, kPriorityCount> JobQueue::Turns(TimeNs now) {
  std::array<Level*, kPriorityCount> turns;
  bool is_highest = true;
  for (std::size_t i = 0; i < turns.size(); ++i) {
    Level& level = levels_[i];
    turns[i] = &level;
    const bool has_jobs = !level.by_arrival.empty();
    const bool takes_turns = has_jobs && (is_highest || level.by_arrival.front()->aged_at <= now);
    // From now on alike: it was served nothing for what it did not wait for.
    if (takes_turns && !level.takes_turns) level.served_us = std::max(level.served_us, served_us_);
    level.takes_turns = takes_turns;
    if (has_jobs) is_highest = false;
  }
  // Equal ones in the order of their levels. std::stable_sort may allocate, under the scheduler's
  // lock.
  std::sort(turns.begin(), turns.end(), [](const Level* x, const Level* y) {
    if (x->takes_turns != y->takes_turns) return x->takes_turns;
    if (x->takes_turns && x->served_us != y->served_us) return x->served_us < y->served_us;
    return x < y;
  });
  return turns;
}

double JobQueue::Weight(const std::string& tenant) const {
  const auto position = policy_.tenant_weights.find(tenant);
  return position == policy_.tenant_weights.end() ? 1 : position->second;
}

bool JobQueue::IsClosed(const PendingBatch& batch, TimeNs now) {
  return batch.is_full() || *batch.close_at.begin() <= now;
}

bool JobQueue::MayGo(const Node& node, TimeNs now, bool device_is_busy) {
  return !node.is_keyed || !device_is_busy || IsClosed(node.pending_batch->second, now);
}

JobQueue::Node* JobQueue::FirstThatMayGo(const Lane& lane, TimeNs now, bool device_is_busy) {
  for (const auto& [due, sequence, node] : lane.jobs) {
    if (MayGo(*node, now, device_is_busy)) return node;
  }
  return nullptr;
}

JobQueue::Node* JobQueue::Lead(Level* level, TimeNs now, bool device_is_busy) {
  // The quanta that the next lane to be served still lacks.
  double rounds = std::numeric_limits<double>::infinity();
  std::vector<Lane*> waiting;
  for (std::size_t turns = level->ring.size(); turns > 0; --turns) {
    Lane* const lane = level->ring.front();
    if (Node* const node = FirstThatMayGo(*lane, now, device_is_busy); node != nullptr) {
      const double quantum = policy_.quantum_us * lane->weight;
      if (!lane->has_turn) lane->deficit_us += quantum;
      lane->has_turn = true;
      const double lacks = node->us - lane->deficit_us;
      if (lacks <= 0) return node;
      rounds = std::min(rounds, std::ceil(lacks / quantum));
      waiting.push_back(lane);
    }
    lane->has_turn = false;
    level->ring.splice(level->ring.end(), level->ring, level->ring.begin());
  }
  if (waiting.empty()) return nullptr;
  // All rounds but the last at once, in which nobody could be served.
  for (Lane* const lane : waiting)
    lane->deficit_us += (rounds - 1) * policy_.quantum_us * lane->weight;
  return Lead(level, now, device_is_busy);
}

std::optional<JobQueue::Turn> JobQueue::Pop(TimeNs now, bool device_is_busy) {
  // Usual under load, and quickly told.
  const bool all_gather = free_jobs_ == 0 && full_ == 0 && NextClosing() > now;
  if (device_is_busy && all_gather) return std::nullopt;
  for (Level* const level : Turns(now)) {
    Node* const leader = Lead(level, now, device_is_busy);
    if (leader == nullptr) continue;
    served_us_ = level->served_us;
    return leader->is_keyed ? TakeShared(leader) : TakeAlone(leader);
  }
  return std::nullopt;
}

void JobQueue::Charge(Node* node, double us) {
  node->tenant->lanes[Index(node->level)].deficit_us -= us;
  levels_[Index(node->level)].served_us += us;
}

JobQueue::Turn JobQueue::TakeAlone(Node* leader) {
  Turn turn;
  turn.jobs = {leader->job};
  turn.us = leader->us;
  Charge(leader, turn.us);
  if (leader->slices > 1) {
    turn.form = BatchForm::kSlice;
    turn.slice = leader->next_slice;
    turn.last = turn.slice + 1 == leader->slices;
  }
  if (turn.last) {
    Erase(leader);
    return turn;
  }
  if (leader->next_slice == 0) unbegun_.erase(leader->by_level());
  CountSlices(leader, 1);
  if (leader->late_at != kNoDeadline && leader->late_at != leader->job->deadline) {
    // Having begun, it is given its chance.
    late_.erase({leader->late_at, leader});
    leader->late_at = leader->job->deadline;
    if (leader->late_at != kNoDeadline) late_.emplace(leader->late_at, leader);
  }
  return turn;
}

// The job stays.
void JobQueue::CountSlices(Node* node, int slices) {
  for (double* const us : {&node->tenant->lanes[Index(node->level)].us,
                           &levels_[Index(node->level)].us, &node->tenant->use.us, &use_.us}) {
    *us -= node->us * slices;
  }
  node->next_slice += slices;
}

bool JobQueue::Skip(const Job& job, int slices, bool is_charged) {
  Node* const node = nodes_.at(job.id).get();
  const int left = node->slices - node->next_slice;
  if (is_charged) Charge(node, node->us * std::min(slices, left));
  if (slices < left) {
    CountSlices(node, slices);
    return true;
  }
  Erase(node);
  return false;
}

bool JobQueue::IsAheadOfAll(const Job& job) const {
  const auto position = nodes_.find(job.id);
  if (position == nodes_.end()) return false;
  const Node* const node = position->second.get();
  const Lane& lane = node->tenant->lanes[Index(node->level)];
  return lane.jobs.size() == nodes_.size() && std::get<Node*>(*lane.jobs.begin()) == node;
}

JobQueue::Turn JobQueue::TakeShared(Node* leader) {
  const PendingBatch& batch = leader->pending_batch->second;
  Turn turn;
  turn.form = leader->pending_batch->first.form();
  // The leader first, whatever its place among those of its key.
  std::vector<Node*> members = {leader};
  std::int64_t size = leader->size;
  double added_us = leader->us;
  for (const auto& [level, due, sequence, node] : batch.jobs) {
    if (node == leader) continue;
    if (size >= batch.max_size || members.size() >= policy_.max_jobs) break;
    if (size + node->size > batch.max_size || added_us + node->us > policy_.max_us) continue;
    size += node->size;
    added_us += node->us;
    members.push_back(node);
  }
  turn.us = batch.fixed_us + added_us;
  const double fixed_us = batch.fixed_us / static_cast<double>(size);  // of one of that size
  for (Node* const node : members) {
    Charge(node, node->us + fixed_us * static_cast<double>(node->size));
    turn.jobs.push_back(node->job);
  }
  for (Node* const node : members) Erase(node);
  if (turn.jobs.size() == 1) turn.form = BatchForm::kAlone;
  return turn;
}

std::optional<double> JobQueue::PredictWait(const Newcomer& newcomer, double busy_us,
                                            TimeNs now) const {
  constexpr bool kCountsExpected = true;
  if (newcomer.deadline != kNoDeadline) {
    const std::optional<double> wait_us = PredictWait(newcomer, busy_us, now, !kCountsExpected);
    if (!wait_us.has_value()) return std::nullopt;
    const TimeNs half = (newcomer.deadline - now) / 2;
    if (expected_.empty() || Ns(*wait_us + newcomer.us) <= half) return wait_us;
  }
  return PredictWait(newcomer, busy_us, now, kCountsExpected);
}

std::optional<double> JobQueue::PredictWait(const Newcomer& newcomer, double busy_us, TimeNs now,
                                            bool counts_expected) const {
  const std::size_t own_level = Index(static_cast<int>(newcomer.priority));
  const double counted = counts_expected ? 1 : 0;
  for (std::size_t above = 0; above < own_level; ++above) {
    busy_us += levels_[above].us + counted * levels_[above].expected_us;
  }
  const Level& level = levels_[own_level];
  const auto tenant = tenants_.find(newcomer.tenant);
  static const Lane kNothing;
  const Lane& lane = tenant == tenants_.end() ? kNothing : tenant->second.lanes[own_level];
  const double lane_us = lane.us + counted * lane.expected_us;
  // While others have work too, the tenant's goes on at its share of the device.
  const double weight = newcomer.weight.has_value() ? *newcomer.weight : Weight(newcomer.tenant);
  const bool expects = counts_expected && !lane.expected.empty();
  double weights = lane.jobs.empty() && !expects ? weight : 0;
  for (const Lane* const each : level.ring) weights += each->weight;
  for (const Lane* const each : level.expecting) {
    if (counts_expected && each->jobs.empty()) weights += each->weight;
  }
  // Others have their turns first, and their backlog is taken to double meanwhile.
  const double others_turn_us = (weights - weight) * policy_.quantum_us;
  const double all_us = level.us + counted * level.expected_us;
  const double others_us = 2 * (all_us - lane_us);
  const auto end_us = [&](double own_us) {
    const double level_us =
        own_us + std::min(own_us * (weights / weight - 1) + others_turn_us, others_us);
    double end = busy_us + level_us;
    // Levels below that will have waited too long take turns with this one, and may be a launch
    // ahead.
    const TimeNs at = now + Ns(end);
    for (std::size_t below = own_level + 1; below < levels_.size(); ++below) {
      const Level& other = levels_[below];
      if (other.by_arrival.empty() || other.by_arrival.front()->aged_at > at) continue;
      end += std::min(other.us, level_us + policy_.max_us);
    }
    return end;
  };
  const auto is_late = [&](double own_us, TimeNs deadline) {
    return deadline != kNoDeadline && end_us(own_us) > static_cast<double>(deadline - now) / 1e3;
  };

  const TimeNs due = std::min(newcomer.deadline, now + policy_.ageing);
  const bool is_last = (lane.jobs.empty() || std::get<TimeNs>(*lane.jobs.rbegin()) <= due) &&
                       (!expects || lane.expected.rbegin()->first.first <= due);
  if (is_last) {
    if (is_late(lane_us + newcomer.least_us, newcomer.deadline)) return std::nullopt;
    return end_us(lane_us + newcomer.us) - newcomer.us;
  }
  double own_us = 0;
  auto job = lane.jobs.begin();
  for (; job != lane.jobs.end() && std::get<TimeNs>(*job) <= due; ++job) {
    own_us += std::get<Node*>(*job)->left_us();
  }
  auto expected = expects ? lane.expected.begin() : lane.expected.end();
  for (; expected != lane.expected.end() && expected->first.first <= due; ++expected) {
    own_us += expected->second.us;
  }
  if (is_late(own_us + newcomer.least_us, newcomer.deadline)) return std::nullopt;
  own_us += newcomer.us;
  const double wait_us = end_us(own_us) - newcomer.us;
  if (newcomer.deadline == kNoDeadline) return wait_us;
  // Those that it would overtake.
  while (job != lane.jobs.end() || expected != lane.expected.end()) {
    const bool is_job = expected == lane.expected.end() ||
                        (job != lane.jobs.end() && std::get<TimeNs>(*job) <= expected->first.first);
    if (is_job) {
      const Node& after = *std::get<Node*>(*job++);
      own_us += after.left_us();
      if (is_late(own_us, after.job->deadline)) return std::nullopt;
    } else {
      const Expected& after = (expected++)->second;
      own_us += after.us;
      // Its client may let its time pass; that is nobody else's fault.
      const bool is_late_anyway = is_late(own_us - newcomer.us, after.deadline);
      if (!is_late_anyway && is_late(own_us, after.deadline)) return std::nullopt;
    }
  }
  return wait_us;
}

QueueUse JobQueue::UseOf(const std::string& tenant) const {
  const auto position = tenants_.find(tenant);
  return position == tenants_.end() ? QueueUse{} : position->second.use;
}

}  // namespace gemmd
