#include "server/verification/verifier.h"

#include <algorithm>
#include <string>
#include <utility>

#include "server/observe/log.h"

namespace gemmd {
namespace {

constexpr std::uint32_t kMillion = 1000000;

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
std::uint64_t Mix(std::uint64_t z) {
  z += 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

}  // namespace

Verifier::Verifier(const VerifierOptions& options)
    : options_(options), executor_(options.threads), thread_([this] { Loop(); }) {}

Verifier::~Verifier() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Verifier::Verify(FinishedProduct product, int vectors, Callback done) {
  {
    const MutexLock lock(mutex_);
    const std::string tenant = product.tenant;
    const double cost = vectors * product.elements();
    requested_.Push(tenant, cost, {std::move(product), vectors, std::move(done)});
  }
  changed_.notify_all();
}

bool Verifier::Samples(std::uint64_t request_id, const Problem& problem,
                       const HostBuffers& buffers) {
  if (options_.sampled_per_million == 0) return false;
  if (Mix(options_.seed ^ request_id) % kMillion >= options_.sampled_per_million) return false;
  if (CanVerify(problem) && IsReadable(buffers)) return true;
  const MutexLock lock(mutex_);
  ++statistics_.unverifiable;
  return false;
}

void Verifier::Sample(FinishedProduct product) {
  {
    const MutexLock lock(mutex_);
    const std::uint64_t bytes = product.size_bytes();
    if (sampled_.size() >= options_.max_waiting ||
        bytes > options_.max_waiting_bytes - std::min(sampled_bytes_, options_.max_waiting_bytes)) {
      ++statistics_.dropped;
      return;
    }
    sampled_bytes_ += bytes;
    sampled_.push_back({std::move(product), options_.sampled_vectors, nullptr});
  }
  changed_.notify_all();
}

VerificationStatistics Verifier::statistics() const {
  const MutexLock lock(mutex_);
  return statistics_;
}

void Verifier::WaitUntilIdle() {
  const MutexLock lock(mutex_);
  while (!requested_.empty() || !sampled_.empty() || is_checking_) changed_.wait(mutex_);
}

void Verifier::Loop() {
  RelockableMutexLock lock(mutex_);
  while (true) {
    while (!stopping_ && requested_.empty() && sampled_.empty()) changed_.wait(mutex_);
    if (stopping_ && requested_.empty()) return;
    Item item = Next();
    is_checking_ = true;
    lock.unlock();
    Check(std::move(item));
    lock.lock();
    is_checking_ = false;
    changed_.notify_all();
  }
}

Verifier::Item Verifier::Next() {
  if (!requested_.empty()) return requested_.Pop();
  Item item = std::move(sampled_.front());
  sampled_.pop_front();
  sampled_bytes_ -= item.product.size_bytes();
  return item;
}

void Verifier::Check(Item item) {
  const std::uint64_t seed = Mix(options_.seed ^ Mix(item.product.request_id));
  const absl::StatusOr<double> residual = ResidualOf(item.product, item.vectors, seed, &executor_);
  Count(item.product, residual);
  item.product = {};  // its memory is free before anybody is told
  if (item.done != nullptr) std::move(item.done)(residual);
}

void Verifier::Count(const FinishedProduct& product, const absl::StatusOr<double>& residual) {
  const bool has_failed = residual.ok() && *residual > 1;
  {
    const MutexLock lock(mutex_);
    if (!residual.ok()) {
      ++statistics_.unverifiable;
      return;
    }
    ++statistics_.checked;
    if (has_failed) ++statistics_.failed;
    statistics_.worst_residual = std::max(statistics_.worst_residual, *residual);
  }
  if (!has_failed) return;
  Log(Severity::kError, "wrong_product",
      {{"request", product.request_id},
       {"device", product.device->traits().name},
       {"kernel", product.kernel->traits().name},
       {"problem", ToString(product.problem)},
       {"residual", *residual}});
}

}  // namespace gemmd
