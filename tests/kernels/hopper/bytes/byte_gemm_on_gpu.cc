// The products of 8-bit operands on this machine's GPU. Not a test: it needs one.
//   check   every form and tiling, M of 1 to 512: the bits of byte_planes.h's model
//   rows    600 products a form, of the first rows of A by any tiling: the bits that these rows
//   have
//           in the product of all
// Without arguments: both. Build with
//   bazel build --config=h200 --config=opt //tests/kernels/hopper/bytes:byte_gemm_on_gpu
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "tests/kernels/hopper/bytes/byte_forms.h"
#include "tests/kernels/mma/gpu_matrix.h"
#include "tests/testing/h200.h"

namespace gemmd::testing {
namespace {

// A run's planes on the GPU.
class OnGpu {
 public:
  explicit OnGpu(ByteRun& run)
      : a_(run.problem.a.size_bytes()),
        b_(run.problem.b.size_bytes()),
        d_(run.problem.d.size_bytes()),
        a_scales_(run.a_scales.size() * 4 + 4),
        b_scales_(run.b_scales.size() * 4 + 4) {
    a_.Put(run.a_plane.data());
    b_.Put(run.b_plane.data());
    d_.Put(run.d_plane.data());
    run.a_scales.push_back(0);
    run.b_scales.push_back(0);
    a_scales_.Put(run.a_scales.data());
    b_scales_.Put(run.b_scales.data());
    run.a_scales.pop_back();
    run.b_scales.pop_back();
  }

  void Launch(const Problem& problem, const std::string& name, bool settles) {
    const Kernel& kernel = KernelOf(name);
    if (const std::string rejection = kernel.Rejection(problem); !rejection.empty()) {
      Die(name + ": " + rejection);
    }
    Arguments arguments;
    arguments.a = a_.data();
    arguments.b = b_.data();
    arguments.d = d_.data();
    arguments.a_scales = a_scales_.data();
    arguments.b_scales = b_scales_.data();
    arguments.a_is_settled = arguments.b_is_settled = settles;
    const absl::Status status =
        kernel.Launch(problem, kernel.Configure(problem, H200()), arguments, LaunchTarget());
    if (!status.ok()) Die(status.ToString());
  }

  void GetD(void* to) {
    CheckCuda(cudaDeviceSynchronize(), "launch");
    d_.Get(to);
  }

 private:
  [[noreturn]] static void Die(const std::string& why) {
    std::fprintf(stderr, "%s\n", why.c_str());
    std::exit(1);
  }

  GpuMatrix a_;
  GpuMatrix b_;
  GpuMatrix d_;
  GpuMatrix a_scales_;
  GpuMatrix b_scales_;
};

int Check() {
  int wrong = 0;
  int runs = 0;
  for (const Form& form : kForms) {
    for (int tiling = 0; tiling < TilingsOf(form.a); ++tiling) {
      for (const std::int64_t m : {1, 2, 7, 16, 33, 64, 65, 129, 300, 512}) {
        ByteRun run(CaseOf(form, m, m % 2 == 0 ? 262 : 132, m % 3 == 0 ? 1000 : 260));
        OnGpu on_gpu(run);
        on_gpu.Launch(run.problem, EntryOf(tiling, run.c), m % 2 == 0);
        on_gpu.GetD(run.d_plane.data());
        const std::int64_t different = run.CountWrong();
        const bool is_right = different == 0 && run.d_plane.IsPaddingUntouched();
        if (!is_right) {
          std::printf("%s, %s: %lld elements differ\n", EntryOf(tiling, run.c).c_str(),
                      ToString(run.problem).c_str(), static_cast<long long>(different));
        }
        wrong += !is_right;
        ++runs;
      }
    }
  }
  std::printf("check: %d runs, %d differ\n", runs, wrong);
  return wrong == 0 ? 0 : 1;
}

int Rows() {
  constexpr std::int64_t kRows = 512;
  constexpr int kRuns = 600;
  std::mt19937 random(1);
  int failures = 0;
  for (const Form& form : kForms) {
    if (form.a_scaling.block_lines == 128 || form.d_order == Order::kColumnMajor) continue;
    ByteCase c = CaseOf(form, kRows, 1000, 2064);
    // A row's scales lie where they lie in a smaller product.
    if (form.a_scaling.block_k == 128) c.a_scaling = k1x128AlongK;
    ByteRun whole(c);
    OnGpu on_gpu(whole);
    on_gpu.Launch(whole.problem, EntryOf(0, c), false);
    on_gpu.GetD(whole.d_plane.data());
    ByteRun part(c);
    int wrong = 0;
    for (int i = 0; i < kRuns; ++i) {
      ByteCase some = c;
      some.m = 1 + random() % (i % 2 == 0 ? 32 : kRows);
      const int tiling = (static_cast<int>(random()) & 0x7fffffff) % TilingsOf(form.a);
      on_gpu.Launch(MakeByteProblem(some), EntryOf(tiling, c), i % 3 == 0);
      on_gpu.GetD(part.d_plane.data());
      bool is_same = true;
      for (std::int64_t row = 0; row < some.m; ++row) {
        for (std::int64_t column = 0; column < c.n; ++column) {
          is_same = is_same && part.BitsAt(row, column) == whole.BitsAt(row, column);
        }
      }
      wrong += !is_same;
    }
    std::printf("rows: %s, %d runs, %d differ\n", form.name, kRuns, wrong);
    failures += wrong;
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace gemmd::testing

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  int failures = 0;
  if (mode.empty() || mode == "check") failures += gemmd::testing::Check();
  if (mode.empty() || mode == "rows") failures += gemmd::testing::Rows();
  return failures == 0 ? 0 : 1;
}
