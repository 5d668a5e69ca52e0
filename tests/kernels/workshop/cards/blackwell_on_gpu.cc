// The kernels for Blackwell that no card has run, on this machine's GPU: every bit of D against the
// rule that the emulator has. Not a test: it needs a GPU, or is the rehearsal of one.
//   blackwell_on_gpu check     on the GPU, those that it can run
//   blackwell_on_gpu rehearse  in the emulator, which stands in for it
// deploy/gpu/blackwell.sh builds and runs it.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "kernels/emulator/session.h"
#include "kernels/gemm.h"
#include "tests/kernels/mma/gpu_matrix.h"
#include "tests/kernels/mma/mx_run.h"
#include "tests/kernels/workshop/blackwell_bf16/ladder_c_run.h"

namespace gemmd::testing {
namespace {

// Where kernels run, and the memory that they have there.
class Place {
 public:
  explicit Place(bool is_rehearsal) : is_rehearsal_(is_rehearsal) {
    if (is_rehearsal) {
      device_.kind = DeviceKind::kEmulated;
      return;
    }
    int major = 0;
    int minor = 0;
    CheckCuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "the GPU");
    CheckCuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0), "the GPU");
    device_.kind = DeviceKind::kCuda;
    device_.compute_capability = 10 * major + minor;
  }

  bool is_rehearsal() const { return is_rehearsal_; }
  const DeviceTraits& device() const { return device_; }

  // The bytes as kernels of this place reach them. Null stays null.
  void* Bring(const void* host, std::uint64_t bytes) {
    if (is_rehearsal_ || host == nullptr) return const_cast<void*>(host);
    memory_.push_back(std::make_unique<GpuMatrix>(bytes));
    memory_.back()->Put(host);
    return memory_.back()->data();
  }

  // Says what the launch complains of. D comes back to the host.
  std::string Run(const Kernel& kernel, const Problem& problem, const Arguments& arguments,
                  void* d) {
    emulator::Session session;
    LaunchTarget target;
    if (is_rehearsal_) target.emulator = &session;
    const absl::Status status = kernel.Launch(problem, Config(), arguments, target);
    if (!status.ok()) return status.ToString();
    if (is_rehearsal_) return session.report.message;
    CheckCuda(cudaDeviceSynchronize(), "the kernel");
    memory_.back()->Get(d);
    return "";
  }

  void Empty() { memory_.clear(); }

 private:
  const bool is_rehearsal_;
  DeviceTraits device_;
  std::vector<std::unique_ptr<GpuMatrix>> memory_;
};

std::string WrongHalf(Place& place, const Kernel& kernel, const BlackwellCase& each) {
  BlackwellOperands operands(each);
  const Problem problem = MakeBlackwellProblem(each);
  Arguments arguments = operands.arguments();
  arguments.a = place.Bring(arguments.a, problem.a.size_bytes());
  arguments.b = place.Bring(arguments.b, problem.b.size_bytes());
  arguments.d = place.Bring(arguments.d, problem.d.size_bytes());
  const std::string wrong = place.Run(kernel, problem, arguments, operands.d.data());
  if (!wrong.empty()) return wrong;
  const Sums sums =
      kernel.traits().name == std::string("sm100/c1") ? Sums::kOneByOne : Sums::kTensorCore;
  return CountDifferent(operands.d, operands.Expected(sums)) == 0 &&
                 CountWrittenPadding(operands.d) == 0
             ? ""
             : "wrong bits";
}

std::string WrongMx(Place& place, const Kernel& kernel, const MxCase& each) {
  MxOperands operands(each);
  const Problem problem = operands.MakeProblem();
  Arguments arguments = operands.MakeArguments();
  const auto scale_bytes = [&](std::int64_t lines) {
    return static_cast<std::uint64_t>(each.scaling.count(lines, each.shape.k));
  };
  arguments.a = place.Bring(arguments.a, problem.a.size_bytes());
  arguments.b = place.Bring(arguments.b, problem.b.size_bytes());
  arguments.a_scales = place.Bring(arguments.a_scales, scale_bytes(each.shape.m));
  arguments.b_scales = place.Bring(arguments.b_scales, scale_bytes(each.shape.n));
  arguments.a_tensor_scale =
      static_cast<const float*>(place.Bring(arguments.a_tensor_scale, sizeof(float)));
  arguments.b_tensor_scale =
      static_cast<const float*>(place.Bring(arguments.b_tensor_scale, sizeof(float)));
  arguments.d = place.Bring(arguments.d, problem.d.size_bytes());
  const std::string wrong = place.Run(kernel, problem, arguments, operands.d);
  return wrong.empty() ? FindWrong(operands, MxProduct(operands.a, operands.b)) : wrong;
}

struct Count {
  int right = 0;
  int wrong = 0;
};

template <class Case>
void Try(Place& place, const Kernel& kernel,
         std::string (*wrong_of)(Place&, const Kernel&, const Case&),
         const std::vector<Case>& cases, Count* count) {
  for (const Case& each : cases) {
    const std::string wrong = wrong_of(place, kernel, each);
    place.Empty();
    ++(wrong.empty() ? count->right : count->wrong);
    if (wrong.empty()) continue;
    const Shape& shape = each.shape;
    std::printf("%s %ldx%ldx%ld: %s\n", std::string(kernel.traits().name).c_str(),
                static_cast<long>(shape.m), static_cast<long>(shape.n), static_cast<long>(shape.k),
                wrong.c_str());
  }
}

// Whole tiles, ragged edges, many tiles a block or a pair, K that goes round each ring.
std::vector<BlackwellCase> HalfCases() {
  std::vector<BlackwellCase> cases;
  for (const Shape& shape : {Shape{128, 64, 448}, Shape{77, 131, 333}, Shape{40, 328, 100}}) {
    for (const bool b_is_k_major : {true, false}) {
      cases.push_back({shape, ProductForm::kBf16AccumulateF32, b_is_k_major});
      cases.push_back({shape, ProductForm::kF16AccumulateF32, b_is_k_major});
    }
  }
  return cases;
}

std::vector<MxCase> MxCases(const std::string& name) {
  const std::vector<Shape> shapes = {{256, 256, 1000}, {300, 204, 178}, {512, 1280, 256}};
  std::vector<MxCase> cases;
  for (const Shape& shape : shapes) {
    if (absl::EndsWith(name, "mxfp4")) {
      cases.push_back(Mxfp4Case(shape, 4));
    } else if (absl::EndsWith(name, "nvfp4")) {
      cases.push_back(Nvfp4Case(shape, 4));
    } else {
      cases.push_back({shape, DataType::kFp8E4M3, DataType::kFp8E5M2, 4});
    }
  }
  return cases;
}

int Check(bool is_rehearsal) {
  Place place(is_rehearsal);
  Count all;
  int kernels = 0;
  for (const std::unique_ptr<const Kernel>& each : BuiltinRegistry().kernels()) {
    const std::string name(each->traits().name);
    const bool is_half = absl::StartsWith(name, "sm100/c");
    if (!is_half && !absl::StartsWith(name, "sm100/d") && name != "sm120/mx") continue;
    const std::string reason = each->UnavailableReason(place.device());
    if (!reason.empty()) {
      std::printf("%s: %s\n", name.c_str(), reason.c_str());
      continue;
    }
    Count count;
    if (is_half) {
      Try(place, *each, WrongHalf, HalfCases(), &count);
    } else {
      Try(place, *each, WrongMx, MxCases(name), &count);
    }
    std::printf("%s: %d right, %d wrong\n", name.c_str(), count.right, count.wrong);
    std::fflush(stdout);
    ++kernels;
    all.right += count.right;
    all.wrong += count.wrong;
  }
  std::printf("%d kernels%s: %d passed, %d failures\n", kernels,
              is_rehearsal ? ", in the emulator" : "", all.right, all.wrong);
  return kernels > 0 && all.wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace gemmd::testing

int main(int argc, char** argv) {
  const std::string mode = argc == 2 ? argv[1] : "";
  if (mode == "check") return gemmd::testing::Check(false);
  if (mode == "rehearse") return gemmd::testing::Check(true);
  std::fprintf(stderr, "usage: %s check|rehearse\n", argv[0]);
  return 2;
}
