#include "server/cost/cost_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace gemmd {
namespace {

// Shapes of the same kernel and size differ by so much: what one took says that much less of the
// least that another takes.
constexpr double kAcrossShapes = 4;

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

// Returns a key of the fields that PlanKey() tells apart, with M and the number of products only by
// their powers of two, and of the config.
std::uint64_t KeyOf(const Problem& problem, const Plan& plan, const Stack& stack) {
  const Epilogue& epilogue = problem.epilogue;
  std::uint64_t words = 0;
  const auto add = [&words](auto value, int bits) {
    words = words << bits | static_cast<std::uint64_t>(value);
  };
  add(problem.a.type, 5);
  add(problem.b.type, 5);
  add(problem.d.type, 5);
  add(problem.accumulate, 5);
  add(problem.a_is_k_major(), 1);
  add(problem.b_is_k_major(), 1);
  add(problem.d.order, 1);
  add(epilogue.beta != 0, 1);
  add(problem.c.order, 1);
  add(epilogue.has_bias, 1);
  add(epilogue.activation, 3);
  add(problem.determinism, 1);
  add(plan.is_measured, 1);
  const std::int64_t rows = Bits(static_cast<std::uint64_t>(problem.m - 1));
  const Config& config = plan.config;
  std::uint64_t hash = Mix(reinterpret_cast<std::uintptr_t>(plan.kernel), words);
  hash = Mix(hash, Pair(problem.n, problem.k));
  hash = Mix(hash, problem.a_scaling.key());
  hash = Mix(hash, problem.b_scaling.key());
  hash = Mix(hash, Pair(rows, config.tile_m));
  hash = Mix(hash, Pair(config.tile_n, config.tile_k));
  hash = Mix(hash, Pair(config.stages, config.warps));
  hash = Mix(hash, Pair(config.cluster_m, config.cluster_n));
  hash = Mix(hash, Pair(config.raster_group, config.split_k));
  if (!stack.is_one()) {
    hash = Mix(hash, Pair(Bits(static_cast<std::uint64_t>(stack.count - 1)), stack.has_groups()));
  }
  return Mix(hash, Pair(config.threads, config.algorithm));
}

double SumUs(const std::vector<StageSpan>& spans, Stage stage) {
  TimeNs sum = 0;
  for (const StageSpan& span : spans) {
    if (span.stage == stage) sum += span.end - span.start;
  }
  return static_cast<double>(sum) / 1e3;
}

TimeCurve::Point PointOf(const TimeCurve& curve, double basis_us) {
  if (basis_us <= 0) return {};
  return curve.Predict(basis_us).value_or(TimeCurve::Point{basis_us, 0, false});
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

Transfers TransfersOf(const Problem& problem, const Residency& resident, const Stack& stack) {
  Transfers transfers;
  for (const WorkPlane plane : kWorkPlanes) {
    if (!resident[plane]) transfers.in_bytes += PlaneBytes(problem, stack, plane);
  }
  if (!resident.d) transfers.out_bytes = ResultOf(problem, stack).size_bytes();
  return transfers;
}

Transfers TransfersOf(const DeviceWork& work) {
  const HostBuffers& buffers = work.buffers;
  Residency resident = work.resident.which();
  for (const WorkPlane plane : kWorkPlanes) {
    resident[plane] = resident[plane] || buffers.access[plane] == Access::kDevice;
  }
  resident.d = resident.d || buffers.d_access == Access::kDevice;
  return TransfersOf(work.problem, resident, work.stack);
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

Cost CostModel::Predict(const Problem& problem, const Plan& plan, const Transfers& transfers,
                        const Stack& stack) const {
  Cost cost;
  Cost::Basis& basis = cost.basis;
  basis.kernel = plan.kernel;
  basis.plan_key = KeyOf(problem, plan, stack);
  basis.compute_us = plan.predicted_us;
  basis.copy_in_us = CopyUs(rates_.in_gbps, transfers.in_bytes);
  basis.copy_out_us = CopyUs(rates_.out_gbps, transfers.out_bytes);
  basis.overlaps = transfers.in_bytes + transfers.out_bytes > rates_.sequential_bytes;
  const TimeCurve::Point compute = Compute(basis);
  const TimeCurve::Point in = PointOf(copy_in_curve_, basis.copy_in_us);
  const TimeCurve::Point out = PointOf(copy_out_curve_, basis.copy_out_us);
  cost.compute_us = compute.us;
  cost.copy_in_us = in.us;
  cost.copy_out_us = out.us;
  cost.device_us = Together(basis.overlaps, in.us, compute.us, out.us);
  cost.least_us = std::min(Together(basis.overlaps, in.least_us, compute.least_us, out.least_us),
                           cost.device_us);
  return cost;
}

double CostModel::PredictCopyInUs(std::uint64_t bytes) const {
  return PointOf(copy_in_curve_, CopyUs(rates_.in_gbps, bytes)).us;
}

double CostModel::PredictCopyOutUs(std::uint64_t bytes) const {
  return PointOf(copy_out_curve_, CopyUs(rates_.out_gbps, bytes)).us;
}

TimeCurve::Point CostModel::Compute(const Cost::Basis& basis) const {
  const double basis_us = basis.compute_us;
  if (basis_us <= 0) return {};
  if (const auto ratio = ratios_.Find(basis.plan_key); ratio.has_value()) {
    return {basis_us * ratio->usual, basis_us * ratio->least, true};
  }
  std::optional<TimeCurve::Point> of_kernel;
  if (const TimeCurve* const curve = FindCurve(basis.kernel); curve != nullptr) {
    of_kernel = curve->Predict(basis_us);
  }
  if (of_kernel.has_value() && of_kernel->is_near) {
    of_kernel->least_us /= kAcrossShapes;
    return *of_kernel;
  }
  std::optional<TimeCurve::Point> of_device = device_curve_.Predict(basis_us);
  if (!of_device.has_value()) return {basis_us, 0, false};
  const bool is_of_device = of_device->is_near || !of_kernel.has_value();
  return {is_of_device ? of_device->us : of_kernel->us, 0, false};
}

CostModel::Stages CostModel::StagesOf(const std::vector<StageSpan>& spans) {
  return {SumUs(spans, Stage::kCopyIn), SumUs(spans, Stage::kCompute),
          SumUs(spans, Stage::kCopyOut)};
}

void CostModel::Observe(const Cost& predicted, const std::vector<StageSpan>& spans) {
  const Stages measured = StagesOf(spans);
  Learn(predicted.basis, measured);
  const double device_us = Together(predicted.basis.overlaps, measured.copy_in_us,
                                    measured.compute_us, measured.copy_out_us);
  const MutexLock lock(mutex_);
  Count(predicted.device_us, device_us, &accuracy_.device);
  Count(predicted.copy_in_us, measured.copy_in_us, &accuracy_.copy_in);
  Count(predicted.compute_us, measured.compute_us, &accuracy_.compute);
  Count(predicted.copy_out_us, measured.copy_out_us, &accuracy_.copy_out);
}

void CostModel::ObservePart(const Cost& predicted, const std::vector<StageSpan>& spans,
                            double part) {
  const Stages measured = StagesOf(spans);
  Learn(predicted.basis,
        {measured.copy_in_us / part, measured.compute_us / part, measured.copy_out_us / part});
}

void CostModel::ObserveRefusal(const Cost& predicted) {
  const Cost::Basis& basis = predicted.basis;
  ratios_.ObserveRefusal(basis.plan_key);
  TimeCurve* const curve = FindCurve(basis.kernel);
  if (curve != nullptr && basis.compute_us > 0) curve->ObserveRefusal(basis.compute_us);
  if (basis.copy_in_us > 0) copy_in_curve_.ObserveRefusal(basis.copy_in_us);
  if (basis.copy_out_us > 0) copy_out_curve_.ObserveRefusal(basis.copy_out_us);
}

void CostModel::Learn(const Cost::Basis& basis, const Stages& measured) {
  if (measured.compute_us > 0 && basis.compute_us > 0) {
    ratios_.Observe(basis.plan_key, measured.compute_us / basis.compute_us);
    CurveOf(basis.kernel).Observe(basis.compute_us, measured.compute_us);
    device_curve_.Observe(basis.compute_us, measured.compute_us);
  }
  if (measured.copy_in_us > 0 && basis.copy_in_us > 0) {
    copy_in_curve_.Observe(basis.copy_in_us, measured.copy_in_us);
  }
  if (measured.copy_out_us > 0 && basis.copy_out_us > 0) {
    copy_out_curve_.Observe(basis.copy_out_us, measured.copy_out_us);
  }
}

TimeCurve* CostModel::FindCurve(const Kernel* kernel) const {
  const MutexLock lock(mutex_);
  const auto position = curves_.find(kernel);
  return position == curves_.end() ? nullptr : position->second.get();
}

TimeCurve& CostModel::CurveOf(const Kernel* kernel) {
  const MutexLock lock(mutex_);
  std::unique_ptr<TimeCurve>& curve = curves_[kernel];
  if (curve == nullptr) curve = std::make_unique<TimeCurve>();
  return *curve;
}

CostAccuracy CostModel::accuracy() const {
  const MutexLock lock(mutex_);
  return accuracy_;
}

double CostModel::CopyUs(double gbps, std::uint64_t bytes) const {
  if (gbps <= 0 || bytes == 0) return 0;
  return rates_.latency_us + static_cast<double>(bytes) / (gbps * 1e3);
}

}  // namespace gemmd
