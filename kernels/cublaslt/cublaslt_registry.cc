#include "kernels/cublaslt/cublaslt_registry.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/math.h"
#include "kernels/cublaslt/block_scales.h"
#include "kernels/cublaslt/cublaslt_call.h"
#include "kernels/epilogue/epilogue.h"

namespace gemmd {
namespace {

using cublaslt::Arithmetic;
using cublaslt::CublasLtCall;
using cublaslt::MatmulArguments;
using cublaslt::MatmulEngine;
using cublaslt::MatmulPlan;

constexpr std::uint64_t kWorkspaceLimitBytes = std::uint64_t{32} << 20;
constexpr std::uint64_t kFullAlignmentBytes = 256;  // of what a device allocates
constexpr double kLaunchUs = 2;                     // a queued launch, as the device sees it

struct EntryTraits {
  const char* name;
  const char* description;
  double DeviceTraits::*gflops;
  int least_capability;
  Arithmetic arithmetic;
  bool only_by_name;  // and with less accuracy than the accumulate type promises
};

constexpr EntryTraits kEntries[] = {
    {"cublaslt/f64", "cuBLASLt in f64", &DeviceTraits::f64_gflops, 80, Arithmetic::kF64, false},
    {"cublaslt/f32", "cuBLASLt in f32, without tensor cores", &DeviceTraits::f32_gflops, 80,
     Arithmetic::kF32, false},
    {"cublaslt/tf32", "cuBLASLt, operands rounded to tf32", &DeviceTraits::tf32_gflops, 80,
     Arithmetic::kTf32, false},
    {"cublaslt/f16", "cuBLASLt on f16 operands", &DeviceTraits::half_gflops, 80, Arithmetic::kF16,
     false},
    {"cublaslt/bf16", "cuBLASLt on bf16 operands", &DeviceTraits::half_gflops, 80,
     Arithmetic::kBf16, false},
    {"cublaslt/int8", "cuBLASLt to int32; scales by an epilogue of ours",
     &DeviceTraits::byte_gflops, 80, Arithmetic::kInt8, false},
    {"cublaslt/fp8_promoted", "cuBLASLt, partial sums promoted to f32", &DeviceTraits::byte_gflops,
     89, Arithmetic::kFp8Promoted, false},
    {"cublaslt/fp8_fast", "cuBLASLt, sums kept with 13 fraction bits", &DeviceTraits::byte_gflops,
     89, Arithmetic::kFp8Fast, true},
    {"cublaslt/fp8_blocks", "cuBLASLt, sums of blocks of 128 scaled and added in f32",
     &DeviceTraits::byte_gflops, 90, Arithmetic::kFp8Blocks, false}};

// The largest power of two, up to kFullAlignmentBytes, that divides every address.
std::uint64_t Alignment(const Arguments& arguments) {
  std::uint64_t bits = kFullAlignmentBytes;
  for (const void* address :
       {arguments.a, arguments.b, arguments.c, static_cast<const void*>(arguments.d)}) {
    bits |= reinterpret_cast<std::uintptr_t>(address);
  }
  return bits & (~bits + 1);
}

// A call, the library's algorithms for it, and what lies in the workspace: first the
// algorithm's own, then the scales of blocks that are transposed, then the product where an
// epilogue of ours follows.
struct Route {
  CublasLtCall call;
  std::shared_ptr<const MatmulPlan> plan;
  std::uint64_t scale_bytes = 0;

  std::uint64_t product_bytes() const { return call.is_product_only ? ProductBytes(call) : 0; }
  std::uint64_t total_bytes(int index) const {
    return RoundUp(plan->workspace_bytes(index), kFullAlignmentBytes) + scale_bytes +
           product_bytes();
  }
};

class CublasLtEntry final : public Kernel {
 public:
  CublasLtEntry(const EntryTraits& entry, const MatmulEngine* engine)
      : Kernel({entry.name, absl::StrCat("sm_", entry.least_capability), entry.description,
                Determinism::kFast, entry.only_by_name, entry.only_by_name}),
        entry_(entry),
        engine_(*engine) {}

  std::string UnavailableReason(const DeviceTraits& device) const override {
    if (device.kind != DeviceKind::kCuda) return "runs on a CUDA device";
    if (device.compute_capability < entry_.least_capability) {
      return absl::StrCat("needs sm_", entry_.least_capability, ", this is sm_",
                          device.compute_capability);
    }
    return engine_.UnavailableReason();
  }

  std::string Rejection(const Problem& problem) const override {
    return MatmulRejection(entry_.arithmetic, problem);
  }

  std::string DeviceRejection(const Problem& problem, const DeviceTraits& device) const override {
    const absl::StatusOr<Route> route =
        FindRoute(problem, device.ordinal, kFullAlignmentBytes, kWorkspaceLimitBytes);
    return route.ok() ? "" : std::string(route.status().message());
  }

  Config Configure(const Problem& problem, const DeviceTraits& device) const override {
    return Alternatives(problem, device).front();
  }

  std::vector<Config> Alternatives(const Problem& problem,
                                   const DeviceTraits& device) const override {
    const absl::StatusOr<Route> route =
        FindRoute(problem, device.ordinal, kFullAlignmentBytes, kWorkspaceLimitBytes);
    // The device failed since DeviceRejection(): Launch() will say how.
    if (!route.ok()) return {Config()};
    std::vector<Config> configs(static_cast<std::size_t>(route->plan->count()));
    for (int i = 0; i < route->plan->count(); ++i) {
      Config& config = configs[static_cast<std::size_t>(i)];
      config.algorithm = i + 1;
      config.workspace_bytes = route->total_bytes(i);
    }
    return configs;
  }

  double PredictedUs(const Problem& problem, const Config&,
                     const DeviceTraits& device) const override {
    const double gflops = std::max(device.*entry_.gflops, device.f32_gflops);
    double bytes = static_cast<double>(problem.a.size_bytes() + problem.b.size_bytes() +
                                       problem.d.size_bytes());
    if (problem.epilogue.beta != 0) bytes += static_cast<double>(problem.c.size_bytes());
    double us =
        kLaunchUs + std::max(problem.flops() / (gflops * 1e3), bytes / (device.memory_gbps * 1e3));
    if (!FusedCall(entry_.arithmetic, problem).has_value()) {
      const auto product =
          static_cast<double>(ProductBytes(*ProductCall(entry_.arithmetic, problem)));
      us += kLaunchUs + (2 * product + static_cast<double>(problem.d.size_bytes())) /
                            (device.memory_gbps * 1e3);
    }
    return us;
  }

  std::uint64_t WorkspaceBytes(const Problem&, const Config& config) const override {
    return config.workspace_bytes;
  }

  std::string NumericsId(const Problem& problem) const override {
    // Integers are exact: every kernel that says so has equal bits.
    if (problem.d.type == DataType::kInt32) return "exact-int32";
    return absl::StrCat(traits().name, ":", engine_.version(), ":", ToString(problem));
  }

  std::string PlannedNumericsId(const Problem& problem, const Config& config) const override {
    if (problem.d.type == DataType::kInt32) return NumericsId(problem);
    return absl::StrCat(NumericsId(problem), ":algorithm", config.algorithm);
  }

  absl::Status Launch(const Problem& problem, const Config& config, const Arguments& arguments,
                      const LaunchTarget& target) const override {
    const absl::StatusOr<int> device = engine_.CurrentDevice();
    if (!device.ok()) return device.status();
    absl::StatusOr<Route> route =
        FindRoute(problem, *device, Alignment(arguments), kWorkspaceLimitBytes);
    if (!route.ok()) return route.status();
    absl::StatusOr<int> index = Choose(config, *device, Alignment(arguments), &*route);
    if (!index.ok()) return index.status();
    return LaunchRoute(*route, *index, problem, arguments, target);
  }

 private:
  // The fused call where the library has algorithms for it, else the bare product.
  absl::StatusOr<Route> FindRoute(const Problem& problem, int device, std::uint64_t alignment,
                                  std::uint64_t limit) const {
    for (const auto& make : {cublaslt::FusedCall, cublaslt::ProductCall}) {
      const std::optional<CublasLtCall> call = make(entry_.arithmetic, problem);
      if (!call.has_value()) continue;
      auto plan = engine_.Plan(*call, device, alignment, limit);
      if (!plan.ok()) return plan.status();
      if ((*plan)->count() > 0) return Route{*call, *std::move(plan), ScaleBytes(problem)};
    }
    return absl::FailedPreconditionError("cuBLASLt has no algorithm for it on this device");
  }

  // Returns the index of the config's algorithm. A panel may need more workspace for it than was
  // planned; it gets the first algorithm that needs no more.
  absl::StatusOr<int> Choose(const Config& config, int device, std::uint64_t alignment,
                             Route* route) const {
    const int count = route->plan->count();
    const auto fits = [&](int index) {
      return route->total_bytes(index) <= config.workspace_bytes;
    };
    const int planned = config.algorithm - 1;
    if (planned >= 0 && planned < count && fits(planned)) return planned;
    for (int index = 0; index < count; ++index) {
      if (fits(index)) return index;
    }
    const std::uint64_t ours = route->scale_bytes + route->product_bytes();
    const std::uint64_t left = config.workspace_bytes > ours ? config.workspace_bytes - ours : 0;
    auto plan = engine_.Plan(route->call, device, alignment,
                             left / kFullAlignmentBytes * kFullAlignmentBytes);
    if (!plan.ok()) return plan.status();
    route->plan = *std::move(plan);
    if (route->plan->count() > 0 && fits(0)) return 0;
    return absl::InternalError(absl::StrCat("cuBLASLt has no algorithm that needs at most ",
                                            config.workspace_bytes, " bytes of workspace"));
  }

  bool scales_blocks() const { return entry_.arithmetic == Arithmetic::kFp8Blocks; }

  std::uint64_t ScaleBytes(const Problem& problem) const {
    return scales_blocks() ? cublaslt::BlockScalesBytes(problem) : 0;
  }

  absl::Status LaunchRoute(const Route& route, int index, const Problem& problem,
                           const Arguments& arguments, const LaunchTarget& target) const {
    const CublasLtCall& call = route.call;
    char* const ours = static_cast<char*>(arguments.workspace) +
                       RoundUp(route.plan->workspace_bytes(index), kFullAlignmentBytes);
    cublaslt::BlockScales scales = {static_cast<const float*>(arguments.a_scales),
                                    static_cast<const float*>(arguments.b_scales)};
    if (scales_blocks()) {
      if (absl::Status s = ArrangeBlockScales(problem, arguments, ours, target, &scales); !s.ok()) {
        return s;
      }
    }
    MatmulArguments to;
    to.a = call.swaps_operands ? arguments.b : arguments.a;
    to.b = call.swaps_operands ? arguments.a : arguments.b;
    to.workspace = arguments.workspace;
    to.a_scales = call.swaps_operands ? scales.b : scales.a;
    to.b_scales = call.swaps_operands ? scales.a : scales.b;
    if (!call.is_product_only) {
      to.c = arguments.c;
      to.bias = arguments.bias;
      to.d = arguments.d;
      to.alpha = problem.epilogue.alpha;
      to.beta = problem.epilogue.beta;
      return route.plan->Launch(index, to, target);
    }
    to.d = ours + route.scale_bytes;
    if (absl::Status s = route.plan->Launch(index, to, target); !s.ok()) return s;
    Problem left = problem;
    if (scales_blocks()) left.a_scaling = left.b_scaling = Scaling::kNone;
    return LaunchEpilogue(left, {call.d_type, to.d, call.ldd}, arguments, target);
  }

  const EntryTraits entry_;
  const MatmulEngine& engine_;
};

}  // namespace

void AppendCublasLt(const MatmulEngine* engine,
                    std::vector<std::unique_ptr<const Kernel>>* kernels) {
  for (const EntryTraits& entry : kEntries) {
    kernels->push_back(std::make_unique<CublasLtEntry>(entry, engine));
  }
}

}  // namespace gemmd
