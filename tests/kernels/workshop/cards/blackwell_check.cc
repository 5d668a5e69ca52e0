// The kernels for Blackwell that no card has run: every bit of D against the rule that the emulator
// has. Not a test: it needs a GPU, or is the rehearsal of one. deploy/gpu/blackwell.sh builds and
// runs it, as blackwell_on_gpu or as blackwell_emulated.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "kernels/gemm.h"
#include "tests/kernels/mma/mx_run.h"
#include "tests/kernels/workshop/blackwell_bf16/ladder_c_run.h"
#include "tests/kernels/workshop/cards/place.h"

namespace gemmd::testing {
namespace {

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

bool IsOfBlackwell(absl::string_view name) {
  return absl::StartsWith(name, "sm100/c") || absl::StartsWith(name, "sm100/d") ||
         name == "sm120/mx";
}

// Returns how many of the kernel's products were right, and how many wrong.
Count CheckKernel(Place& place, const Kernel& kernel) {
  const std::string& name = kernel.traits().name;
  Count count;
  if (absl::StartsWith(name, "sm100/c")) {
    Try(place, kernel, WrongHalf, HalfCases(), &count);
  } else {
    Try(place, kernel, WrongMx, MxCases(name), &count);
  }
  std::printf("%s: %d right, %d wrong %s\n", name.c_str(), count.right, count.wrong, place.name());
  std::fflush(stdout);
  return count;
}

// A kernel that faults or hangs takes its process along, so that each may have one of its own.
int Main(const std::string& wanted) {
#ifdef GEMMD_CARD
  const std::unique_ptr<Place> place = GpuPlace();
#else
  const std::unique_ptr<Place> place = EmulatedPlace();
#endif
  int kernels = 0;
  int wrong = 0;
  for (const std::unique_ptr<const Kernel>& each : BuiltinRegistry().kernels()) {
    const std::string& name = each->traits().name;
    if (!IsOfBlackwell(name) || !each->UnavailableReason(place->device()).empty()) continue;
    if (wanted == "list") {
      ++kernels;
      std::printf("%s\n", name.c_str());
    } else if (wanted == name || wanted == "all") {
      ++kernels;
      wrong += CheckKernel(*place, *each).wrong;
    }
  }
  if (kernels == 0) std::fprintf(stderr, "no kernel of that name runs %s\n", place->name());
  return kernels > 0 && wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace gemmd::testing

int main(int argc, char** argv) {
  if (argc == 2) return gemmd::testing::Main(argv[1]);
  std::fprintf(stderr, "usage: %s list|all|KERNEL\n", argv[0]);
  return 2;
}
