// Checks finished products, off the threads that serve.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "server/device/thread_executor.h"
#include "server/tenants/fair_queue.h"
#include "server/verification/finished_product.h"

namespace gemmd {

struct VerifierOptions {
  std::uint32_t sampled_per_million = 0;  // of the products that nobody asked to verify
  int sampled_vectors = 3;
  // Sampled products that wait, at most, and their bytes together, which they keep from other
  // requests; one more is dropped, and counted.
  std::size_t max_waiting = 16;
  std::uint64_t max_waiting_bytes = std::uint64_t{1} << 30;
  int threads = 1;         // that work on one product
  std::uint64_t seed = 0;  // of vectors and of the choice; not to be foreseen
};

struct VerificationStatistics {
  std::uint64_t checked = 0;
  std::uint64_t failed = 0;
  double worst_residual = 0;
  std::uint64_t dropped = 0;       // chosen, and too many waited
  std::uint64_t unverifiable = 0;  // chosen or asked for, and the operands were not to be had
};

// Thread-safe. One product is checked at a time, requested ones before sampled ones. Tenants share
// the time for requested ones equally: what checking one takes is its tenant's.
class Verifier {
 public:
  // The residual, or why there is none. Called once, on the verifier's thread; what waits for it
  // waits for other products too.
  using Callback = absl::AnyInvocable<void(absl::StatusOr<double>) &&>;

  explicit Verifier(const VerifierOptions& options);
  // Checks what was requested; drops what was sampled.
  ~Verifier();
  Verifier(const Verifier&) = delete;
  Verifier& operator=(const Verifier&) = delete;

  // REQUIRES: IsReadable(), no activation, 1 to VerificationOptions::kMaxVectors vectors.
  void Verify(FinishedProduct product, int vectors, Callback done);

  // Returns whether that finished product is one of the sample. Counts those that are and cannot be
  // checked.
  bool Samples(std::uint64_t request_id, const Problem& problem, const HostBuffers& buffers);
  // Checks it when there is time. A wrong one is logged and counted.
  void Sample(FinishedProduct product);

  VerificationStatistics statistics() const;
  // Returns when nothing waits and nothing is being checked.
  void WaitUntilIdle();

 private:
  struct Item {
    FinishedProduct product;
    int vectors = 0;
    Callback done;  // null: sampled
  };

  void Loop();
  // REQUIRES: something waits.
  Item Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Check(Item item);
  void Count(const FinishedProduct& product, const absl::StatusOr<double>& residual);

  const VerifierOptions options_;
  ThreadExecutor executor_;  // of the thread alone

  mutable Mutex mutex_;
  CondVar changed_;
  FairQueue<Item> requested_ ABSL_GUARDED_BY(mutex_);  // by tenant
  std::deque<Item> sampled_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t sampled_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_checking_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  VerificationStatistics statistics_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;  // last: started when all else exists
};

}  // namespace gemmd
