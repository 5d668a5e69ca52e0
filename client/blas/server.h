// The server: one connection for the process, made at the first product.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>

#include "base/sync/mutex.h"
#include "client/blas/library.h"
#include "client/blas/pause.h"
#include "client/blas/real_product.h"
#include "client/blas/settings.h"
#include "client/blas/why.h"

namespace gemmd::blas {

// The end of a product that was begun, and D with it.
class Answer {
 public:
  explicit Answer(Why why);
  // Waits until nobody reads the product's operands any more: where a connection goes silent, that
  // is some 40 s after the answer was given up.
  ~Answer();
  Answer(Answer&&) noexcept;
  Answer& operator=(Answer&&) = delete;

  Why why() const { return why_; }
  // M rows of N, contiguous; of a batch one product's behind the other's. REQUIRES: why() is
  // kServer.
  const void* d() const { return d_; }

 private:
  friend class Server;
  struct Call;

  Why why_;
  const void* d_ = nullptr;
  std::unique_ptr<Call> call_;
};

// Thread-safe. Opens libgemmd and starts threads at the first product alone. A process that was
// forked must not come here: locks and threads are those of its parent.
class Server {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Server(const Settings& settings) : settings_(settings) {}
  // It lives as long as the process: at its end other threads may be here.
  ~Server() = delete;

  // kServer, or why no product should be tried now.
  Why Ready();
  Answer Multiply(const RealProduct& product, std::chrono::milliseconds limit);
  // Asks for the product's time there, the way included. kServer where it was told.
  Why Estimate(const RealProduct& product, double& total_us);

 private:
  bool Connect();
  Why ErrorOf(gemmd_error* error);
  void SayOnce(gemmd_code code, const char* message);
  void Succeeded();

  const Settings& settings_;
  Mutex mutex_;
  bool was_opened_ ABSL_GUARDED_BY(mutex_) = false;
  Pause pause_ ABSL_GUARDED_BY(mutex_);
  double trip_us_ ABSL_GUARDED_BY(mutex_) = 0;  // the shortest of an estimate's; 0: unknown
  // Set before client_, and constant after it is.
  Library library_;
  std::atomic<gemmd_client*> client_ = nullptr;
  std::atomic<unsigned> said_ = 0;  // a bit for each code
};

}  // namespace gemmd::blas
