// The queue of jobs that wait for a device; it chooses the jobs of the next launch. A pure data
// structure: no clock, no locks, no device.
//
// The order, from the outside in:
//   level    a job's priority. A level whose oldest job waited `ageing` takes turns with those
//            above it, each getting as much device time, so that nothing starves; and jobs do
//            not change levels, so that nobody's backlog overtakes what others of its level
//            bring
//   tenant   deficit round robin: tenants of a level that have work get device time in
//            proportion to their weights, by predicted microseconds
//   due      earliest deadline first; a job without one counts as if it were due `ageing`
//            after it came
//
// The first job in this order leads the next launch. Jobs with the leader's batch key go with
// it, of whatever level or tenant, and are charged to their own tenants.
//
// A batch gathers company only while the device is busy. It is closed, and may be launched to
// a busy device, once it has the most rows or jobs that a launch takes, or its oldest job
// waited `delay`, or one of its jobs would be late otherwise. Jobs that share no launch are
// never held back, and a batch that gathers holds nobody else back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "server/scheduling/batch_key.h"
#include "server/scheduling/job.h"
#include "server/scheduling/queue_bounds.h"

namespace gemmd {

struct QueuePolicy {
  std::map<std::string, double> tenant_weights;  // positive; 1 for a tenant that is not in it
  double quantum_us = 500;                       // that a turn of a tenant of weight 1 is worth
  TimeNs ageing = 1000000000;
  // Bounds of one launch that jobs share.
  std::int64_t max_rows = 256;
  std::size_t max_jobs = 256;
  double max_us = 2000;  // of what jobs add: what any launch costs does not count
  TimeNs delay = 1000000;
};

// Not thread-safe. Jobs are their owner's; an id is in the queue at most once.
class JobQueue {
 public:
  explicit JobQueue(QueuePolicy policy) : policy_(std::move(policy)) {}
  // Nodes point into the maps.
  JobQueue(const JobQueue&) = delete;
  JobQueue& operator=(const JobQueue&) = delete;

  // The launches of a job, and their cost.
  struct Terms {
    std::optional<BatchKey> key;  // absent: it shares no launch
    int slices = 1;               // launches that it takes; more than one only without a key
    double us = 0;                // of all its launches, alone
    double least_us = 0;          // lower bound of `us`: with less time left the job is late
    double marginal_us = 0;       // what it adds to a launch that it shares; `us` without a key
  };
  void Push(Job* job, const Terms& terms, TimeNs now);

  // Jobs of one launch. A job that goes in slices stays in the queue until its last.
  struct Turn {
    BatchForm form = BatchForm::kAlone;
    std::vector<Job*> jobs;
    int slice = 0;     // of kSlice
    double us = 0;     // predicted
    bool last = true;  // the jobs have left the queue
  };
  // Empty if nothing waits, or the device is busy and what waits still gathers.
  std::optional<Turn> Pop(TimeNs now, bool device_is_busy);

  // Takes further slices of a job out that the launch of its last turn carried out too, or all that
  // are left. Returns whether some are; else the job has left the queue. `is_charged`: its tenant
  // and its level pay for them, because others waited. REQUIRES: the job is in the queue, and
  // began.
  bool Skip(const Job& job, int slices, bool is_charged);

  // Returns whether nobody waits for whom the job, one that goes in slices, would have to let the
  // device go: all others are its tenant's, of its level, and behind it.
  bool IsAheadOfAll(const Job& job) const;

  // Removes the job, and returns whether it was in the queue.
  bool Remove(const Job& job);

  // Takes out every job that cannot meet its deadline any more: less than its least_us is left, or,
  // if parts of it ran, its deadline is at or before `now`; and every one that was to begin by now.
  std::vector<Job*> RemoveLate(TimeNs now);

  // The time at which RemoveLate() next has something to give; kNoDeadline: never, as things stand.
  TimeNs NextLate() const { return late_.empty() ? kNoDeadline : late_.begin()->first; }
  // The time at which a batch that gathers closes; kNoDeadline: none gathers.
  TimeNs NextClosing() const { return closings_.empty() ? kNoDeadline : closings_.begin()->first; }

  // The first, by level and due, of the jobs that go in slices and have not begun; null: none.
  Job* NextSliced() const {
    return unbegun_.empty() ? nullptr : std::get<Node*>(*unbegun_.begin())->job;
  }

  // A job that may come.
  struct Newcomer {
    std::string tenant;
    Priority priority = Priority::kNormal;
    TimeNs deadline = kNoDeadline;
    double us = 0;
    double least_us = 0;
    std::optional<double> weight = std::nullopt;  // as a job's
  };
  // Predicts the newcomer's wait, `busy_us` of which is for what the device has in hand; nullopt:
  // too long for its deadline, even if it then takes only its least_us, or for the deadline of a
  // job that it would overtake.
  std::optional<double> PredictWait(const Newcomer& newcomer, double busy_us, TimeNs now) const;

  // Has the wait of newcomers predicted as if that job were here already, until Forget(). It takes
  // no turn. It does not delay a newcomer that would be done within half of the time to its
  // deadline if it waited only for what is here: announcing work costs a client nothing. Returns
  // its number.
  std::uint64_t Expect(const Newcomer& newcomer, TimeNs now);
  // REQUIRES: Expect() returned the number, once.
  void Forget(std::uint64_t number);
  // The predicted time of all that is expected.
  double expected_us() const { return expected_us_; }

  const QueueUse& use() const { return use_; }
  QueueUse UseOf(const std::string& tenant) const;

 private:
  struct Node;
  // A node's place in an order, with the order's keys, so that finding it looks at no other node.
  // B-trees, because all of this is under the scheduler's lock.
  using ByTime = std::pair<TimeNs, Node*>;
  using ByDue = std::tuple<TimeNs, std::uint64_t, Node*>;         // and by sequence
  using ByLevel = std::tuple<int, TimeNs, std::uint64_t, Node*>;  // then by due and sequence
  struct Expected {
    TimeNs deadline = kNoDeadline;
    double us = 0;
  };
  // One tenant's jobs of one level.
  struct Lane {
    double weight = 1;
    double deficit_us = 0;
    bool has_turn = false;  // and was given its quantum for it
    double us = 0;          // sum over the jobs
    absl::btree_set<ByDue> jobs;
    double expected_us = 0;  // sum over those that are expected
    absl::btree_map<std::pair<TimeNs, std::uint64_t>, Expected> expected;  // by due and number
  };
  struct Tenant {
    std::array<Lane, kPriorityCount> lanes;
    QueueUse use;
    std::size_t expected = 0;  // jobs
  };
  struct Level {
    std::list<Lane*> ring;  // those with jobs; the first has the turn
    std::list<Node*> by_arrival;
    double us = 0;
    std::list<Lane*> expecting;  // those that expect jobs
    double expected_us = 0;
    bool takes_turns = false;  // it is the highest with jobs, or its oldest job waited too long
    double served_us = 0;      // of those that take turns the one with least is next
  };
  // The jobs of one key.
  struct PendingBatch {
    absl::btree_set<ByLevel> jobs;
    absl::btree_multiset<TimeNs> close_at;
    std::int64_t size = 0;      // rows of kRows, jobs of kGroup
    std::int64_t max_size = 1;  // of a launch
    double fixed_us = 0;        // what a launch costs besides what its jobs add

    bool is_full() const { return size >= max_size; }
    double us() const {
      const std::int64_t launches = (size + max_size - 1) / max_size;
      return static_cast<double>(launches) * fixed_us;
    }
  };
  using PendingBatches = std::map<BatchKey, PendingBatch>;
  struct Node {
    Job* job = nullptr;
    std::uint64_t sequence = 0;
    TimeNs due = 0;
    TimeNs late_at = kNoDeadline;
    TimeNs close_at = 0;
    TimeNs aged_at = 0;
    double us = 0;  // of one launch of it, or its part of a shared one
    int level = 0;
    int slices = 1;
    int next_slice = 0;
    std::int64_t size = 1;  // see PendingBatch

    double left_us() const { return us * (slices - next_slice); }
    ByDue by_due() { return {due, sequence, this}; }
    ByLevel by_level() { return {level, due, sequence, this}; }
    Tenant* tenant = nullptr;
    PendingBatches::iterator pending_batch;
    bool is_keyed = false;
    std::list<Node*>::iterator arrival;
  };

  std::unique_ptr<Node> NewNode();
  void Enter(Node* node, TimeNs now);
  void Leave(Node* node);
  void Erase(Node* node);
  // The levels in the order in which they are asked for a leader.
  std::array<Level*, kPriorityCount> Turns(TimeNs now);
  double Weight(const std::string& tenant) const;
  std::optional<double> PredictWait(const Newcomer& newcomer, double busy_us, TimeNs now,
                                    bool counts_expected) const;
  // The tenant's place, made if it has none. `weight` absent: the policy's, if it had none.
  Tenant* TenantOf(const std::string& name, std::optional<double> weight);
  void ForgetIfEmpty(const std::string& tenant);
  static bool MayGo(const Node& node, TimeNs now, bool device_is_busy);
  static bool IsClosed(const PendingBatch& batch, TimeNs now);
  // The job whose turn it is in the level; null: none may go.
  Node* Lead(Level* level, TimeNs now, bool device_is_busy);
  static Node* FirstThatMayGo(const Lane& lane, TimeNs now, bool device_is_busy);
  Turn TakeShared(Node* leader);
  Turn TakeAlone(Node* leader);
  void Charge(Node* node, double us);
  void CountSlices(Node* node, int slices);
  void AddUse(const Node& node, int sign);
  void Resize(PendingBatch* batch, std::int64_t by);
  void AddClosing(PendingBatch* batch, TimeNs close_at);
  void RemoveClosing(PendingBatch* batch, TimeNs close_at);

  const QueuePolicy policy_;
  absl::flat_hash_map<std::uint64_t, std::unique_ptr<Node>> nodes_;  // by job id
  // Nodes that were in use: memory that one thread takes and another gives back costs both time,
  // under the scheduler's lock.
  std::vector<std::unique_ptr<Node>> spare_;
  std::map<std::string, Tenant> tenants_;  // those with jobs, or that expect some
  struct ExpectedPlace {
    std::string tenant;
    std::size_t level = 0;
    TimeNs due = 0;
  };
  absl::flat_hash_map<std::uint64_t, ExpectedPlace> expected_;  // by number
  double expected_us_ = 0;
  std::array<Level, kPriorityCount> levels_;
  // served_us of the level that was served last, before that: a level that begins to take turns
  // begins from here, and makes up for nothing.
  double served_us_ = 0;
  PendingBatches pending_batches_;
  absl::btree_set<ByLevel> unbegun_;                            // those that go in slices
  absl::btree_set<ByTime> late_;                                // by late_at
  absl::btree_set<std::pair<TimeNs, PendingBatch*>> closings_;  // by the first close_at of each
  std::uint64_t next_sequence_ = 0;
  std::size_t free_jobs_ = 0;  // without a key: never held back
  std::size_t full_ = 0;       // pending batches
  QueueUse use_;
};

}  // namespace gemmd
