// A server and its clock in one, played by events: time passes only while somebody sleeps
// on it, so that a run of minutes takes milliseconds and is the same every time.
#pragma once

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "client/load/clock.h"
#include "client/load/transport.h"

namespace gemmd::testing {

// Single-threaded: LoadOptions::sending_threads must be 0.
class Simulation final : public load::Clock, public load::Transport {
 public:
  struct Answer {
    load::TimeNs delay_ns = 0;  // above 0
    load::Reply reply;
  };
  // The answer to a request that arrives at `now_ns`.
  using Script = std::function<Answer(const load::Request&, load::TimeNs now_ns)>;

  explicit Simulation(Script script) : script_(std::move(script)) {}

  load::TimeNs Now() const override { return now_ns_; }

  void SleepUntil(load::TimeNs time) override {
    while (!events_.empty() && events_.top().time_ns <= time) PlayNext();
    now_ns_ = std::max(now_ns_, time);
  }

  void Send(const load::Request& request, Done done) override {
    const Answer answer = script_(request, now_ns_);
    events_.push({now_ns_ + answer.delay_ns, count_++, std::move(done), answer.reply});
  }

  void Drain() override {
    while (!events_.empty()) PlayNext();
  }

  std::uint64_t sent() const { return count_; }

 private:
  struct Event {
    load::TimeNs time_ns;
    std::uint64_t number;
    Done done;
    load::Reply reply;
    bool operator<(const Event& other) const {  // the earliest on top
      return std::pair(time_ns, number) > std::pair(other.time_ns, other.number);
    }
  };

  void PlayNext() {
    const Event event = events_.top();
    events_.pop();
    now_ns_ = std::max(now_ns_, event.time_ns);
    event.done(event.reply);
  }

  const Script script_;
  load::TimeNs now_ns_ = 0;
  std::uint64_t count_ = 0;
  std::priority_queue<Event> events_;
};

// Serves one request at a time, each in `service_ns`, in the order of arrival: its
// capacity is known.
class OneByOne {
 public:
  explicit OneByOne(load::TimeNs service_ns) : service_ns_(service_ns) {}

  Simulation::Answer operator()(const load::Request&, load::TimeNs now_ns) {
    free_ns_ = std::max(free_ns_, now_ns) + service_ns_;
    return {free_ns_ - now_ns, {}};
  }

 private:
  load::TimeNs service_ns_;
  load::TimeNs free_ns_ = 0;
};

}  // namespace gemmd::testing
