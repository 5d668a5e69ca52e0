#include "server/cost/cost_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace gemmd {
namespace {

// Keys of the most general ratios, and seeds of the hashes of the others.
constexpr std::uint64_t kDevice = 1;
constexpr std::uint64_t kCopyIn = 2;
constexpr std::uint64_t kCopyOut = 3;
constexpr std::uint64_t kKernel = 4;
constexpr std::uint64_t kPlan = 5;

// One step of a hash of 64-bit words: 0x9E37… is 2^64 over the golden ratio.
std::uint64_t Mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash * 0xBF58476D1CE4E5B9U) ^ value;
  hash *= 0x9E3779B97F4A7C15U;
  return hash ^ (hash >> 29U);
}

// Two values of 32 bits.
std::uint64_t Pair(std::int64_t high, std::int64_t low) {
  return static_cast<std::uint64_t>(high) << 32U | static_cast<std::uint32_t>(low);
}

// The number of bits: equal for values under the same power of two.
int Bits(std::uint64_t value) { return value == 0 ? 0 : 64 - __builtin_clzll(value); }

std::uint64_t KernelKey(const Plan& plan) {
  return Mix(kKernel, reinterpret_cast<std::uintptr_t>(plan.kernel));
}

// What PlanKey() tells apart, but M only by its power of two, and the config.
std::uint64_t KeyOf(const Problem& problem, const Plan& plan, std::uint64_t kernel_key) {
  const Epilogue& epilogue = problem.epilogue;
  std::uint64_t words = 0;
  const auto add = [&words](auto value, int bits) {
    words = words << bits | static_cast<std::uint64_t>(value);
  };
  add(problem.a.type, 4);
  add(problem.b.type, 4);
  add(problem.d.type, 4);
  add(problem.accumulate, 4);
  add(problem.a_is_k_major(), 1);
  add(problem.b_is_k_major(), 1);
  add(problem.d.order, 1);
  add(epilogue.beta != 0, 1);
  add(problem.c.order, 1);
  add(epilogue.has_bias, 1);
  add(epilogue.activation, 3);
  add(problem.a_scaling, 2);
  add(problem.b_scaling, 2);
  add(problem.determinism, 1);
  add(plan.is_measured, 1);
  const std::int64_t rows = Bits(static_cast<std::uint64_t>(problem.m - 1));
  const Config& config = plan.config;
  std::uint64_t hash = Mix(Mix(kPlan, kernel_key), words);
  hash = Mix(hash, Pair(problem.n, problem.k));
  hash = Mix(hash, Pair(rows, config.tile_m));
  hash = Mix(hash, Pair(config.tile_n, config.tile_k));
  hash = Mix(hash, Pair(config.stages, config.warps));
  hash = Mix(hash, Pair(config.cluster_m, config.cluster_n));
  hash = Mix(hash, Pair(config.raster_group, config.split_k));
  return Mix(hash, Pair(config.threads, config.algorithm));
}

std::uint64_t ScaleBytes(Scaling scaling, std::int64_t count) {
  if (scaling == Scaling::kNone) return 0;
  return sizeof(float) * static_cast<std::uint64_t>(scaling == Scaling::kTensor ? 1 : count);
}

// Of what is never resident.
std::uint64_t OtherInputBytes(const Problem& problem) {
  std::uint64_t bytes =
      ScaleBytes(problem.a_scaling, problem.m) + ScaleBytes(problem.b_scaling, problem.n);
  if (problem.epilogue.has_bias) {
    bytes += static_cast<std::uint64_t>(problem.n) * SizeBits(problem.d.type) / 8;
  }
  return bytes;
}

double SumUs(const std::vector<StageSpan>& spans, Stage stage) {
  TimeNs sum = 0;
  for (const StageSpan& span : spans) {
    if (span.stage == stage) sum += span.end - span.start;
  }
  return static_cast<double>(sum) / 1e3;
}

double Together(bool overlap, double copy_in_us, double compute_us, double copy_out_us) {
  return overlap ? std::max({copy_in_us, compute_us, copy_out_us})
                 : copy_in_us + compute_us + copy_out_us;
}

void Count(double predicted_us, double measured_us, CostAccuracy::Part* part) {
  if (measured_us <= 0) return;
  ++part->count;
  part->predicted_us += predicted_us;
  part->measured_us += measured_us;
  part->absolute_relative_errors += std::abs(predicted_us - measured_us) / measured_us;
}

}  // namespace

Transfers TransfersOf(const Problem& problem, const Residency& resident) {
  Transfers transfers;
  transfers.in_bytes = OtherInputBytes(problem);
  if (!resident.a) transfers.in_bytes += problem.a.size_bytes();
  if (!resident.b) transfers.in_bytes += problem.b.size_bytes();
  if (problem.epilogue.beta != 0) transfers.in_bytes += problem.c.size_bytes();
  transfers.out_bytes = problem.d.size_bytes();
  return transfers;
}

Transfers TransfersOf(const DeviceWork& work) {
  const HostBuffers& buffers = work.buffers;
  Residency resident;
  resident.a = work.resident_a != nullptr || buffers.a_access == Access::kDevice;
  resident.b = work.resident_b != nullptr || buffers.b_access == Access::kDevice;
  Transfers transfers = TransfersOf(work.problem, resident);
  if (work.problem.epilogue.beta != 0 && buffers.c_access == Access::kDevice) {
    transfers.in_bytes -= work.problem.c.size_bytes();
  }
  if (buffers.d_access == Access::kDevice) transfers.out_bytes = 0;
  return transfers;
}

CopyRates CopyRatesOf(const Device& device) {
  CopyRates rates;
  switch (device.traits().kind) {
    case DeviceKind::kCpu:
      break;
    case DeviceKind::kCuda:
      rates.in_gbps = 55;
      rates.out_gbps = 55;
      rates.latency_us = 3;
      rates.sequential_bytes = 256 << 10;  // as WorkIssuer::IsSmall()
      break;
    case DeviceKind::kEmulated:
      // Host memory to host memory, line by line.
      rates.in_gbps = device.traits().memory_gbps;
      rates.out_gbps = device.traits().memory_gbps;
      rates.sequential_bytes = std::numeric_limits<std::uint64_t>::max();
      break;
  }
  return rates;
}

Cost CostModel::Predict(const Problem& problem, const Plan& plan,
                        const Transfers& transfers) const {
  Cost cost;
  Cost::Basis& basis = cost.basis;
  basis.kernel_key = KernelKey(plan);
  basis.plan_key = KeyOf(problem, plan, basis.kernel_key);
  basis.compute_us = plan.predicted_us;
  cost.compute_us = Correct(basis.compute_us, basis.plan_key, basis.kernel_key, kDevice);
  basis.copy_in_us = CopyUs(rates_.in_gbps, transfers.in_bytes);
  if (basis.copy_in_us > 0) {
    basis.copy_in_key = Mix(kCopyIn, Bits(transfers.in_bytes));
    cost.copy_in_us = Correct(basis.copy_in_us, basis.copy_in_key, kCopyIn, kCopyIn);
  }
  basis.copy_out_us = CopyUs(rates_.out_gbps, transfers.out_bytes);
  if (basis.copy_out_us > 0) {
    basis.copy_out_key = Mix(kCopyOut, Bits(transfers.out_bytes));
    cost.copy_out_us = Correct(basis.copy_out_us, basis.copy_out_key, kCopyOut, kCopyOut);
  }
  basis.overlaps = transfers.in_bytes + transfers.out_bytes > rates_.sequential_bytes;
  cost.device_us = Together(basis.overlaps, cost.copy_in_us, cost.compute_us, cost.copy_out_us);
  return cost;
}

void CostModel::Observe(const Cost& predicted, const std::vector<StageSpan>& spans) {
  const Cost::Basis& basis = predicted.basis;
  const double copy_in_us = SumUs(spans, Stage::kCopyIn);
  const double compute_us = SumUs(spans, Stage::kCompute);
  const double copy_out_us = SumUs(spans, Stage::kCopyOut);
  if (compute_us > 0 && basis.compute_us > 0) {
    const double ratio = compute_us / basis.compute_us;
    for (const std::uint64_t key : {basis.plan_key, basis.kernel_key, kDevice}) {
      ratios_.Observe(key, ratio);
    }
  }
  if (copy_in_us > 0 && basis.copy_in_us > 0) {
    for (const std::uint64_t key : {basis.copy_in_key, kCopyIn}) {
      ratios_.Observe(key, copy_in_us / basis.copy_in_us);
    }
  }
  if (copy_out_us > 0 && basis.copy_out_us > 0) {
    for (const std::uint64_t key : {basis.copy_out_key, kCopyOut}) {
      ratios_.Observe(key, copy_out_us / basis.copy_out_us);
    }
  }
  const double device_us = Together(basis.overlaps, copy_in_us, compute_us, copy_out_us);
  const std::lock_guard<AdaptiveMutex> lock(mutex_);
  Count(predicted.device_us, device_us, &accuracy_.device);
  Count(predicted.copy_in_us, copy_in_us, &accuracy_.copy_in);
  Count(predicted.compute_us, compute_us, &accuracy_.compute);
  Count(predicted.copy_out_us, copy_out_us, &accuracy_.copy_out);
}

CostAccuracy CostModel::accuracy() const {
  const std::lock_guard<AdaptiveMutex> lock(mutex_);
  return accuracy_;
}

double CostModel::CopyUs(double gbps, std::uint64_t bytes) const {
  if (gbps <= 0 || bytes == 0) return 0;
  return rates_.latency_us + static_cast<double>(bytes) / (gbps * 1e3);
}

double CostModel::Correct(double basis_us, std::uint64_t key, std::uint64_t general_key,
                          std::uint64_t most_general_key) const {
  for (const std::uint64_t each : {key, general_key, most_general_key}) {
    if (const auto ratio = ratios_.Find(each)) return basis_us * *ratio;
  }
  return basis_us;
}

}  // namespace gemmd
