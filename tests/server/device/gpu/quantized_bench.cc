#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/server/device/gpu/checks.h"
#include "tests/server/device/gpu/served_gpu.h"

namespace gemmd::testing {
namespace {

constexpr int kCopies = 4;  // of B, which launches take in turns so that it is not in a cache
constexpr int kRounds = 7;

struct Shape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};

constexpr Shape kShapes[] = {{1, 8192, 8192}, {64, 8192, 8192}, {4096, 4096, 4096}};
constexpr const char* kFormats[] = {
    "fp8-e4m3-row", "fp8-e4m3-1x128", "mxfp8-e4m3",     "mxfp6-e2m3", "mxfp4",
    "nvfp4",        "int4-g128-f16",  "int4-g128-bf16", "int8-row",   "int8-g128"};

// Device memory with random codes, or with scales of about 1.
class Plane {
 public:
  Plane(CudaBackend* backend, CudaStream stream, std::uint64_t bytes)
      : backend_(*backend), stream_(stream), bytes_((bytes + 255) / 256 * 256) {
    data_ = Require(backend_.Allocate(bytes_, stream_, BlockLife::kStays), "device memory");
    host_ = Require(backend_.AllocatePinned(bytes_), "pinned memory");
  }
  ~Plane() {
    backend_.FreePinned(host_);
    Require(backend_.Free(data_, stream_), "free");
  }
  Plane(const Plane&) = delete;
  Plane& operator=(const Plane&) = delete;

  // Bit 6 of each byte is 0. It is the highest of an exponent of bf16, f16 and fp8, so that no
  // element is infinite or a NaN.
  void FillCodes(std::mt19937_64* random) {
    const std::uint64_t mask = 0xBFBFBFBFBFBFBFBF;
    for (std::uint64_t i = 0; i < bytes_; i += sizeof mask) {
      const std::uint64_t bits = (*random)() & mask;
      std::memcpy(static_cast<char*>(host_) + i, &bits, sizeof bits);
    }
    Copy();
  }

  // REQUIRES: `one` has `size` bytes, a divisor of 256.
  void FillOnes(const void* one, std::uint64_t size) {
    for (std::uint64_t i = 0; i < bytes_; i += size) {
      std::memcpy(static_cast<char*>(host_) + i, one, size);
    }
    Copy();
  }

  const void* data() const { return data_; }

 private:
  void Copy() {
    Require(
        backend_.Copy(CopyDirection::kToDevice, {data_, bytes_, host_, bytes_, bytes_, 1}, stream_),
        "copy");
  }

  CudaBackend& backend_;
  const CudaStream stream_;
  const std::uint64_t bytes_;
  void* data_ = nullptr;
  void* host_ = nullptr;
};

// Returns the code of 1 as a scale of the type.
std::uint32_t OneOf(DataType type) {
  switch (type) {
    case DataType::kE8M0:
      return 127;
    case DataType::kFp8E4M3:
      return 0x38;
    case DataType::kF16:
      return 0x3C00;
    case DataType::kBf16:
      return 0x3F80;
    default:
      return 0x3F800000;
  }
}

struct OperandPlanes {
  std::unique_ptr<Plane> codes;
  std::unique_ptr<Plane> scales;
  std::unique_ptr<Plane> tensor_scale;
};

OperandPlanes MakeOperand(CudaBackend* backend, CudaStream stream, const MatrixLayout& layout,
                          const Scaling& scaling, std::int64_t lines, std::int64_t k,
                          std::mt19937_64* random) {
  OperandPlanes planes;
  planes.codes = std::make_unique<Plane>(backend, stream, layout.size_bytes());
  planes.codes->FillCodes(random);
  if (scaling.has_scales) {
    const auto size = static_cast<std::uint64_t>(SizeBits(scaling.type)) / 8;
    planes.scales = std::make_unique<Plane>(
        backend, stream, size * static_cast<std::uint64_t>(scaling.count(lines, k)));
    const std::uint32_t one = OneOf(scaling.type);
    planes.scales->FillOnes(&one, size);
  }
  if (scaling.has_tensor_scale) {
    planes.tensor_scale = std::make_unique<Plane>(backend, stream, sizeof(float));
    const float one = 1;
    planes.tensor_scale->FillOnes(&one, sizeof one);
  }
  return planes;
}

Problem MakeQuantizedProblem(const QuantFormat& format, const Shape& shape) {
  Problem problem =
      MakeProblem(shape.m, shape.n, shape.k, format.element, DataType::kBf16, false, true);
  problem.a_scaling = problem.b_scaling = format.scaling;
  problem.accumulate = DataType::kF32;
  if (format.element == DataType::kInt8 && format.scaling.scales_whole_lines()) {
    problem.accumulate = DataType::kInt32;
  }
  // Square blocks are weights', not activations'.
  if (problem.a_scaling.block_lines > 1) problem.a_scaling.block_lines = 1;
  return problem;
}

class Bench {
 public:
  Bench(ServedGpu* gpu, GpuReport* report) : gpu_(*gpu), report_(*report), backend_(*gpu->backend) {
    stream_ = Require(backend_.CreateStream(StreamPriority::kNormal), "stream");
    begin_ = Require(backend_.CreateEvent(), "event");
    end_ = Require(backend_.CreateEvent(), "event");
  }

  // In each class of determinism what selection takes.
  void Measure(const std::string& name, const Problem& asked) {
    const Problem problem = gpu_.device->Landed(asked);
    std::mt19937_64 random(3);
    const auto operand = [&](const MatrixLayout& layout, const Scaling& scaling,
                             std::int64_t lines) {
      return MakeOperand(&backend_, stream_, layout, scaling, lines, problem.k, &random);
    };
    const OperandPlanes a = operand(problem.a, problem.a_scaling, problem.m);
    std::vector<OperandPlanes> b;
    for (int i = 0; i < kCopies; ++i) {
      b.push_back(operand(problem.b, problem.b_scaling, problem.n));
    }
    const Plane d(&backend_, stream_, problem.d.size_bytes());
    std::string last;
    for (const Determinism determinism : {Determinism::kBatchInvariant, Determinism::kFast}) {
      Problem of_class = problem;
      of_class.determinism = determinism;
      const absl::StatusOr<Plan> plan = Select(BuiltinRegistry(), of_class, gpu_.device->traits());
      if (!plan.ok() || plan->kernel->traits().name == last) continue;
      last = plan->kernel->traits().name;
      const double us = MedianUs(of_class, *plan, a, b, d);
      report_.Note(absl::StrCat(name, " ", problem.m, "x", problem.n, "x", problem.k),
                   absl::StrCat(us, " us, ", problem.flops() / us / 1e6, " TFLOP/s, ", last));
    }
  }

 private:
  double MedianUs(const Problem& problem, const Plan& plan, const OperandPlanes& a,
                  const std::vector<OperandPlanes>& b, const Plane& d) {
    const Plane workspace(&backend_, stream_, std::max<std::uint64_t>(plan.workspace_bytes, 1));
    Arguments arguments;
    arguments.workspace = const_cast<void*>(workspace.data());
    arguments.d = const_cast<void*>(d.data());
    const auto data = [](const std::unique_ptr<Plane>& plane) {
      return plane == nullptr ? nullptr : plane->data();
    };
    const auto launch = [&](int i) {
      const OperandPlanes& of_b = b[static_cast<std::size_t>(i % kCopies)];
      arguments.a = data(a.codes);
      arguments.a_scales = data(a.scales);
      arguments.a_tensor_scale = static_cast<const float*>(data(a.tensor_scale));
      arguments.b = data(of_b.codes);
      arguments.b_scales = data(of_b.scales);
      arguments.b_tensor_scale = static_cast<const float*>(data(of_b.tensor_scale));
      Require(backend_.Launch(
                  [&, arguments](const LaunchTarget& target) {
                    return plan.kernel->Launch(problem, plan.config, arguments, target);
                  },
                  stream_),
              "launch");
    };
    const int launches = problem.flops() > 1e10 ? 20 : 60;
    std::vector<double> rounds;
    for (int round = -1; round < kRounds; ++round) {
      Require(backend_.Record(begin_, stream_), "record");
      for (int i = 0; i < launches; ++i) launch(i);
      Require(backend_.Record(end_, stream_), "record");
      while (!Require(backend_.IsDone(end_), "query")) {
      }
      const auto ns = static_cast<double>(Require(backend_.ElapsedNs(begin_, end_), "time"));
      if (round >= 0) rounds.push_back(ns / 1e3 / launches);
    }
    return Median(rounds);
  }

  ServedGpu& gpu_;
  GpuReport& report_;
  CudaBackend& backend_;
  CudaStream stream_ = nullptr;
  CudaEvent begin_ = nullptr;
  CudaEvent end_ = nullptr;
};

}  // namespace

void MeasureQuantized(GpuReport* report) {
  const SteadyClock clock;
  ServedGpu gpu = ServeGpu(0, &clock);
  Bench bench(&gpu, report);
  for (const Shape& shape : kShapes) {
    bench.Measure("bf16", MakeProblem(shape.m, shape.n, shape.k, DataType::kBf16, DataType::kBf16,
                                      false, true));
    for (const char* name : kFormats) {
      const QuantFormat* const format = FindQuantFormat(name);
      Require(format == nullptr ? absl::NotFoundError(name) : absl::OkStatus(), "format");
      bench.Measure(name, MakeQuantizedProblem(*format, shape));
      if (std::string(name) != "fp8-e4m3-1x128") continue;
      Problem square = MakeQuantizedProblem(*format, shape);
      square.b_scaling.block_lines = 128;
      bench.Measure("fp8-e4m3-1x128 by 128x128", square);
    }
  }
}

}  // namespace gemmd::testing
