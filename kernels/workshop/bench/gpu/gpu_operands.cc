#include "kernels/workshop/bench/gpu/gpu_operands.h"

#include <algorithm>
#include <cstring>

#include "kernels/workshop/bench/sampled_check.h"

namespace gemmd::bench {
namespace {

constexpr int kSampledRows = 24;
constexpr int kSampledColumns = 48;
constexpr int kMostSets = 64;
constexpr std::uint64_t kPastTheCache = 200'000'000;
constexpr int kPoison = 0xff;  // NaN in every float format

// Kernels may touch whole lines, and fill units of 16 bytes.
std::uint64_t Whole(std::uint64_t bytes) { return (bytes + 255) / 256 * 256; }
std::uint64_t WholeLines(const MatrixLayout& layout) {
  const auto elements = static_cast<std::uint64_t>(layout.outer() * layout.leading_dimension);
  return Whole(elements * static_cast<std::uint64_t>(SizeBits(layout.type)) / 8);
}

}  // namespace

int OperandSets(std::uint64_t bytes_of_one) {
  int sets = 2;
  while (sets < kMostSets && static_cast<std::uint64_t>(sets) * bytes_of_one < kPastTheCache) {
    sets *= 2;
  }
  return sets;
}

absl::StatusOr<std::unique_ptr<GpuOperands>> GpuOperands::Make(const Problem& problem,
                                                               GpuQueue* queue) {
  std::unique_ptr<GpuOperands> operands(new GpuOperands(problem, queue));
  const std::uint64_t a = WholeLines(problem.a);
  const std::uint64_t b = WholeLines(problem.b);
  const std::uint64_t d = WholeLines(problem.d);
  const std::uint64_t a_scales = Whole(ScaleBytes(problem.a_scaling, problem.m, problem.k));
  const std::uint64_t b_scales = Whole(ScaleBytes(problem.b_scaling, problem.n, problem.k));
  const auto allocate = [](std::uint64_t bytes, DeviceMemory* to) -> absl::Status {
    if (bytes == 0) return absl::OkStatus();
    absl::StatusOr<DeviceMemory> memory = Allocate(bytes);
    if (!memory.ok()) return memory.status();
    *to = *std::move(memory);
    return absl::OkStatus();
  };
  operands->sets_.resize(static_cast<std::size_t>(OperandSets(a + b + d + a_scales + b_scales)));
  std::uint64_t number = 0;
  absl::Status status = allocate(d, &operands->reference_d_);
  if (status.ok()) status = allocate(std::uint64_t{kCompareThreads} * 8, &operands->differences_);
  for (Set& set : operands->sets_) {
    if (status.ok()) status = allocate(a, &set.a);
    if (status.ok()) status = allocate(b, &set.b);
    if (status.ok()) status = allocate(d, &set.d);
    if (status.ok()) status = allocate(a_scales, &set.a_scales);
    if (status.ok()) status = allocate(b_scales, &set.b_scales);
    // Check() knows the seeds of set 0.
    const std::uint64_t differs = number++ << 32;
    if (status.ok()) status = operands->Fill(set.a.get(), a, problem.a.type, kSeedOfA + differs);
    if (status.ok()) status = operands->Fill(set.b.get(), b, problem.b.type, kSeedOfB + differs);
    if (status.ok()) {
      status = operands->Fill(set.a_scales.get(), a_scales, problem.a_scaling.type,
                              kSeedOfAScales + differs);
    }
    if (status.ok()) {
      status = operands->Fill(set.b_scales.get(), b_scales, problem.b_scaling.type,
                              kSeedOfBScales + differs);
    }
  }
  if (status.ok()) status = queue->Wait();
  if (!status.ok()) return status;
  return operands;
}

absl::Status GpuOperands::Fill(void* data, std::uint64_t bytes, DataType type, std::uint64_t seed) {
  if (bytes == 0) return absl::OkStatus();
  FillWork work;
  work.data = data;
  work.units = bytes / 16;
  work.seed = seed;
  work.type = type;
  LaunchTarget target;
  target.stream = queue_.stream();
  return CudaBenchWork().fill(work, target);
}

Arguments GpuOperands::arguments(int turn) const {
  const Set& set = sets_[static_cast<std::size_t>(turn) % sets_.size()];
  Arguments arguments;
  arguments.a = set.a.get();
  arguments.b = set.b.get();
  arguments.d = set.d.get();
  arguments.a_scales = set.a_scales.get();
  arguments.b_scales = set.b_scales.get();
  return arguments;
}

absl::Status GpuOperands::RunPoisoned(const QueueOne& contender) {
  absl::Status status =
      ToStatus(cudaMemsetAsync(sets_[0].d.get(), kPoison, WholeLines(problem_.d), queue_.stream()),
               "cudaMemset");
  if (status.ok()) status = contender(0, queue_.stream());
  const absl::Status waited = queue_.Wait();
  return status.ok() ? waited : status;
}

absl::StatusOr<double> GpuOperands::SampledError() const {
  const std::vector<std::int64_t> rows = Sampled(problem_.m, kSampledRows);
  const std::vector<std::int64_t> columns = Sampled(problem_.n, kSampledColumns);
  const auto element = static_cast<std::size_t>(SizeBits(problem_.d.type) / 8);
  const auto pitch = static_cast<std::size_t>(problem_.d.leading_dimension) * element;
  std::vector<std::vector<char>> lines;
  for (const std::int64_t row : rows) {
    std::vector<char>& line = lines.emplace_back(static_cast<std::size_t>(problem_.n) * element);
    const char* from =
        static_cast<const char*>(sets_[0].d.get()) + static_cast<std::size_t>(row) * pitch;
    const absl::Status status =
        ToStatus(cudaMemcpy(line.data(), from, line.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    if (!status.ok()) return status;
  }
  return WorstError(problem_, rows, columns, lines);
}

absl::Status GpuOperands::CompareWithReference(Checked* checked) {
  CompareWork work;
  work.d = sets_[0].d.get();
  work.reference = reference_d_.get();
  work.lines = problem_.m;
  work.columns = problem_.n;
  work.pitch = problem_.d.leading_dimension;
  work.limit = static_cast<float>(LooseLimit(problem_));
  work.type = problem_.d.type;
  work.different = static_cast<std::uint32_t*>(differences_.get());
  work.largest = work.different + kCompareThreads;
  LaunchTarget target;
  target.stream = queue_.stream();
  absl::Status status = CudaBenchWork().compare(work, target);
  if (status.ok()) status = queue_.Wait();
  std::vector<std::uint32_t> found(std::size_t{2} * kCompareThreads);
  if (status.ok()) {
    status =
        ToStatus(cudaMemcpy(found.data(), work.different, found.size() * 4, cudaMemcpyDeviceToHost),
                 "cudaMemcpy");
  }
  if (!status.ok()) return status;
  for (std::size_t i = 0; i < kCompareThreads; ++i) {
    float largest;
    std::memcpy(&largest, &found[kCompareThreads + i], sizeof largest);
    checked->different += found[i];
    checked->largest_difference = std::max(checked->largest_difference, double{largest});
  }
  return absl::OkStatus();
}

absl::StatusOr<Checked> GpuOperands::Check(const QueueOne& contender, const QueueOne* reference) {
  Checked checked;
  if (reference != nullptr && computed_by_ != reference) {
    absl::Status status = RunPoisoned(*reference);
    if (status.ok()) {
      status =
          ToStatus(cudaMemcpyAsync(reference_d_.get(), sets_[0].d.get(), WholeLines(problem_.d),
                                   cudaMemcpyDeviceToDevice, queue_.stream()),
                   "cudaMemcpyAsync");
    }
    if (!status.ok()) return status;
    computed_by_ = reference;
  }
  if (const absl::Status status = RunPoisoned(contender); !status.ok()) return status;
  const absl::StatusOr<double> sampled = SampledError();
  if (!sampled.ok()) return sampled.status();
  checked.error_over_bound = *sampled;
  if (reference == nullptr) return checked;
  if (const absl::Status status = CompareWithReference(&checked); !status.ok()) return status;
  return checked;
}

}  // namespace gemmd::bench
