// A machine in simulated time: its clock falls while it works hard and recovers when it idles, as a
// GPU's does at its power limit.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/workshop/bench/machine.h"

namespace gemmd::bench {

class FakeMachine : public Machine {
 public:
  struct Contender {
    double ms = 1;         // of one launch at full clock
    double heat = 0;       // how far it pulls the clock down: 0.2 is 20 %
    int fails_after = -1;  // calls of Time(); -1: never
    double error_over_bound = 0.5;
    std::int64_t different = 0;
  };

  FakeMachine() {
    info_.traits.kind = DeviceKind::kCuda;
    info_.traits.model = "Fake";
    info_.traits.compute_capability = 90;
    info_.traits.compute_units = 132;
    info_.driver = "1.2";
    info_.runtime = "13.0";
    info_.vendor_library = "fake-1";
    info_.telemetry = "clocks and power by NVML";
    info_.power_limit_watts = 700;
    info_.highest_sm_mhz = 2000;
  }

  // Another compute capability and number of multiprocessors.
  void Become(int compute_capability, int multiprocessors) {
    info_.traits.compute_capability = compute_capability;
    info_.traits.compute_units = multiprocessors;
  }

  // Contenders that AddRivals() and Add() hand out in turn.
  std::vector<Contender> rivals;
  std::vector<Contender> kernels;
  absl::Status load;
  std::vector<Settled> promises;  // of the kernels added
  std::vector<int> timed;         // contenders, in the order of Time()
  double idle_ms = 0;

  const MachineInfo& info() const override { return info_; }
  absl::StatusOr<Peaks> MeasurePeaks(bool, const Protocol&) override {
    return Peaks{4000, 500, 600, 700, 800};
  }
  absl::Status Load(const Problem& problem) override {
    problem_ = problem;
    contenders_.clear();
    added_ = 0;
    return load;
  }
  // Quicker by the number of streams.
  absl::StatusOr<int> AddRivals(cublaslt::Arithmetic, int streams) override {
    for (Contender rival : rivals) {
      rival.ms /= streams;
      contenders_.push_back(rival);
    }
    return static_cast<int>(rivals.size());
  }
  absl::StatusOr<int> Add(const Kernel&, const Config&, Settled settled) override {
    promises.push_back(settled);
    contenders_.push_back(kernels[added_++ % kernels.size()]);
    return static_cast<int>(contenders_.size()) - 1;
  }
  absl::StatusOr<Checked> Check(int contender, int reference) override {
    const Contender& own = At(contender);
    return Checked{own.error_over_bound, 0.25, reference < 0 ? 0 : own.different};
  }
  absl::StatusOr<double> Time(int contender, int launches) override {
    timed.push_back(contender);
    Contender& own = At(contender);
    if (own.fails_after == 0) return absl::InternalError("an illegal instruction");
    if (own.fails_after > 0) --own.fails_after;
    double total = 0;
    for (int i = 0; i < launches; ++i) {
      total += own.ms / clock_;
      clock_ += (1 - own.heat - clock_) * (1 - std::exp(-own.ms / 20));
    }
    return total;
  }
  void Idle(double milliseconds) override {
    idle_ms += milliseconds;
    clock_ = std::min(1.0, clock_ + milliseconds / 30);
  }
  std::optional<Telemetry> LastTelemetry() const override { return Telemetry{clock_ * 2000, 700}; }

 private:
  Contender& At(int contender) { return contenders_[static_cast<std::size_t>(contender)]; }

  MachineInfo info_;
  Problem problem_;
  std::vector<Contender> contenders_;
  std::size_t added_ = 0;
  double clock_ = 1;
};

}  // namespace gemmd::bench
