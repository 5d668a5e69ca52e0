// The state that the calls of this process share.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <limits>

#include "base/sync/mutex.h"
#include "client/blas/choice.h"
#include "client/blas/report.h"
#include "client/blas/server.h"
#include "client/blas/settings.h"

namespace gemmd::blas {

// Products of fewer multiplications are too small to ask about: 256 cubed, a millisecond here.
inline constexpr double kLeastVolume = 1 << 24;

// Calls of fewer multiplications go to the BLAS of this machine at once. All do until the
// environment was read, which constructors of other libraries may come before.
inline std::atomic<double> least_volume = std::numeric_limits<double>::infinity();

// True while this thread is in a call: the BLAS of this machine may call itself by names that come
// here, as reference BLAS's C functions do, and such a call is passed on.
inline thread_local bool is_in_call = false;

inline bool GoesOn(double m, double n, double k) {
  return m * n * k >= least_volume.load(std::memory_order_relaxed) && !is_in_call;
}

// Thread-safe. It lives as long as the process.
class Process {
 public:
  static Process& Get();
  ~Process() = delete;

  // Decides where a product goes: kServer, or why it is computed here. `gflops` measures the speed
  // of this machine, once for each kind of elements, 0 to 3.
  Why Decide(const RealProduct& product, double flops, int kind,
             const std::function<double()>& gflops);
  // REQUIRES: Decide() said kServer.
  Answer Multiply(const RealProduct& product, double flops, int kind);
  // The product took so long, with all that this machine had to do for it.
  void Took(const RealProduct& product, double flops, Server::Clock::duration time);

  bool records() const { return settings_.report || settings_.log != nullptr; }
  void Record(const CallRecord& record);
  bool is_always() const { return settings_.mode == Mode::kAlways; }
  // The seconds that so many operations take here; 0 where that was not measured.
  double SecondsHere(double flops, int kind) const;

  // Writes the report, once, at the process's end.
  void End();
  // In a child that was forked: it has its parent's locks, and none of its threads.
  void Forked();

 private:
  Process();

  const Settings settings_;
  // Locks may be held, and threads may run.
  std::atomic<bool> has_begun_ = false;
  std::atomic<bool> is_forked_ = false;
  std::atomic<bool> has_said_forked_ = false;
  Server& server_;
  Report report_;
  Mutex mutex_;
  Choice choice_ ABSL_GUARDED_BY(mutex_);
  Mutex measuring_;
  std::array<std::atomic<double>, 4> gflops_{};
};

}  // namespace gemmd::blas
