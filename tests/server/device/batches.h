// Seeded random works for batches, on one device and alone.
#pragma once

#include <future>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "server/device/device.h"
#include "server/device/rows.h"
#include "tests/testing/products/matrices.h"

namespace gemmd::testing {

inline DeviceResult RunLaunch(Device* device, DeviceLaunch launch) {
  std::promise<DeviceResult> promise;
  std::future<DeviceResult> result = promise.get_future();
  device->Submit(std::move(launch),
                 [&promise](DeviceResult done) { promise.set_value(std::move(done)); });
  return result.get();
}

inline Plan PlanFor(const Device& device, const Problem& problem) {
  return *Select(BuiltinRegistry(), device.Landed(problem), device.traits());
}

// A work over its own operands, or over somebody else's B, scales of B and bias.
class TestWork {
 public:
  TestWork(const Device& device, const Problem& problem, std::uint32_t seed,
           std::shared_ptr<const Operands> weights = nullptr)
      : operands_(std::make_shared<Operands>(problem, Distribution::kNormal, seed)),
        weights_(weights == nullptr ? operands_ : std::move(weights)) {
    work_.problem = problem;
    work_.plan = PlanFor(device, problem);
    HostBuffers& buffers = work_.buffers;
    buffers[WorkPlane::kA] = operands_->a.data();
    buffers[WorkPlane::kB] = weights_->b.data();
    if (!operands_->c.empty()) buffers[WorkPlane::kC] = operands_->c.data();
    if (!weights_->bias.empty()) buffers[WorkPlane::kBias] = weights_->bias.data();
    if (!operands_->a_scales.empty()) buffers[WorkPlane::kAScales] = operands_->a_scales.data();
    if (!weights_->b_scales.empty()) buffers[WorkPlane::kBScales] = weights_->b_scales.data();
    if (weights_ != operands_) work_.weights_id = 7;
  }

  // The work with a result of its own, poisoned; the result lasts as long as this.
  DeviceWork Fresh() {
    results_.push_back(PoisonedPlane(work_.problem.d));
    DeviceWork fresh = work_;
    fresh.buffers.d = {{results_.back().data(), results_.back().size(), nullptr}};
    return fresh;
  }
  // Returns whether the results of all Fresh() have equal bytes, padding too.
  bool ResultsAreEqual() const {
    for (const PlaneBytes& result : results_) {
      if (result != results_.front()) return false;
    }
    return true;
  }
  const PlaneBytes& last_result() const { return results_.back(); }

 private:
  std::shared_ptr<Operands> operands_;
  std::shared_ptr<const Operands> weights_;
  DeviceWork work_;
  std::vector<PlaneBytes> results_;
};

// Returns the problem with another number of rows, in any layout whose rows may be joined.
inline Problem WithOtherRows(const Problem& problem, std::int64_t rows, std::mt19937* random) {
  Problem other = problem;
  other.m = rows;
  const auto pad = [random](std::int64_t inner) {
    return inner + static_cast<std::int64_t>((*random)() % 3 == 0 ? (*random)() % 9 : 0);
  };
  other.transpose_a = (*random)() % 4 == 0;
  if (other.transpose_a) {
    other.a = {other.a.type, other.k, rows, Order::kColumnMajor, pad(other.k)};
  } else {
    other.a = {other.a.type, rows, other.k, Order::kRowMajor, pad(other.k)};
  }
  other.d = {other.d.type, rows, other.n, Order::kRowMajor, pad(other.n)};
  other.c = other.d;
  return other;
}

}  // namespace gemmd::testing
