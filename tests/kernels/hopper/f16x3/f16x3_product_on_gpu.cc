// sm90/f32_f16x3 on this machine's GPU. Not a test: it needs one.
//   check    every tiling, layout and order of D, M of 1 to 512: the bits of f16x3_planes.h's model
//   rows     600 products of some rows of A: the bits that these rows have in the product of all
//   special  how much longer products take whose operands are infinities
//   errors   errors beside cublaslt/f32 and sm90/f32_bf16x6, and the share of the bound, as a table
// Without arguments: all. Build with
//   bazel build --config=h200 --config=opt //tests/kernels/hopper/f16x3:f16x3_product_on_gpu
#include <cstdio>
#include <limits>
#include <random>
#include <string>

#include "tests/kernels/hopper/f16x3/f16x3_run.h"
#include "tests/kernels/hopper/f32/error_data.h"
#include "tests/kernels/hopper/f32/on_gpu.h"
#include "tests/testing/h200.h"

namespace gemmd::testing {
namespace {

int Check() {
  int wrong = 0;
  int runs = 0;
  const auto check = [&](const F32Case& c, int tiling) {
    F16x3Run run(c);
    LaunchOnGpu(&run, F16x3Kernel(), F16x3Config(tiling));
    const std::int64_t different = run.CountWrongHalves();
    const bool is_right = different == 0 && run.d_plane.IsPaddingUntouched();
    if (!is_right) {
      std::printf("tiling %d, %s: %lld elements differ\n", tiling, ToString(run.problem).c_str(),
                  static_cast<long long>(different));
    }
    wrong += !is_right;
    ++runs;
  };
  for (int tiling = 0; tiling < hopper::f16x3::kTilingCount; ++tiling) {
    for (int which = 0; which < 16; ++which) {
      F32Case c = {77, 262, 300, (which & 1) != 0, (which & 2) != 0};
      c.d_order = (which & 4) != 0 ? Order::kColumnMajor : Order::kRowMajor;
      c.a_gap = (which & 8) != 0 ? 1 : 0;
      c.b_gap = (which & 5) != 0 ? 3 : 0;
      check(c, tiling);
    }
    for (const std::int64_t m : {1, 2, 7, 16, 33, 64, 65, 129, 512}) check({m, 132, 520}, tiling);
  }
  std::printf("check: %d runs, %d differ\n", runs, wrong);
  return wrong == 0 ? 0 : 1;
}

int Rows() {
  constexpr std::int64_t kRows = 512;
  int wrong = 0;
  int runs = 0;
  std::mt19937 random(1);
  for (const F32Case& c : {F32Case{kRows, 262, 520}, F32Case{kRows, 1000, 300, false, false},
                           F32Case{kRows, 64, 2049, true, true}}) {
    F16x3Run whole(c);
    OnGpu on_gpu(whole);
    on_gpu.Launch(whole.problem, F16x3Kernel(), F16x3Kernel().Configure(whole.problem, H200()));
    on_gpu.GetD(whole.d_plane.data());
    F16x3Run part(c);
    for (int i = 0; i < 200; ++i) {
      F32Case some = c;
      some.m = 1 + random() % (i % 2 == 0 ? 32 : kRows);
      const auto first = static_cast<std::int64_t>(random() % (kRows - some.m + 1));
      Problem problem = MakeF32Problem(some);
      problem.a.leading_dimension = whole.problem.a.leading_dimension;
      const Config config =
          i % 3 == 0 ? F16x3Config(static_cast<int>(random() % hopper::f16x3::kTilingCount))
                     : F16x3Kernel().Configure(problem, H200());
      on_gpu.Launch(problem, F16x3Kernel(), config, first);
      on_gpu.GetD(part.d_plane.data());
      bool is_same = true;
      for (std::int64_t row = 0; row < some.m; ++row) {
        for (std::int64_t column = 0; column < c.n; ++column) {
          is_same = is_same && part.BitsAt(row, column) == whole.BitsAt(first + row, column);
        }
      }
      wrong += !is_same;
      ++runs;
    }
  }
  std::printf("rows: %d runs, %d differ\n", runs, wrong);
  return wrong == 0 ? 0 : 1;
}

int Special() {
  for (const F32Case& c : {F32Case{1024, 1024, 1024}, F32Case{4096, 4096, 4096}}) {
    F32Run run(c);
    const Config config = F16x3Kernel().Configure(run.problem, H200());
    const double usual = MsOnGpu(run, F16x3Kernel(), config);
    for (std::int64_t row = 0; row < c.m; ++row) {
      run.SetA(row, 0, std::numeric_limits<float>::infinity());
    }
    const double special = MsOnGpu(run, F16x3Kernel(), config);
    std::printf("special: %s: %.3f ms, with infinities %.3f ms, %.1f times\n",
                ToString(run.problem).c_str(), usual, special, special / usual);
    std::fflush(stdout);
  }
  return 0;
}

int Errors() {
  constexpr std::int64_t kSide = 192;
  int past_bound = 0;
  std::printf(
      "| data | K | SGEMM largest, RMS | sm90/f32_bf16x6 | sm90/f32_f16x3 | of its bound |\n"
      "|---|---|---|---|---|---|\n");
  for (const Data& data : AllData()) {
    for (const std::int64_t k : {64, 256, 1024, 4096, 16384}) {
      ErrorRun run(data, kSide, k);
      std::printf("| %s | %lld |", data.name, static_cast<long long>(k));
      for (const char* const name : {"cublaslt/f32", "sm90/f32_bf16x6", kF16x3Entry}) {
        const Kernel& kernel = *BuiltinRegistry().Find(name);
        LaunchOnGpu(&run.run, kernel, kernel.Configure(run.run.problem, H200()));
        const Error error = run.ErrorOfD();
        std::printf(" %.4g, %.4g |", error.largest, error.rms());
      }
      const double share = run.LargestOfF16x3Bound();
      past_bound += !(share <= 1);
      std::printf(" %.4f |\n", share);
      std::fflush(stdout);
    }
  }
  std::printf("errors: %d past the bound\n", past_bound);
  return past_bound == 0 ? 0 : 1;
}

}  // namespace
}  // namespace gemmd::testing

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  int failures = 0;
  if (mode.empty() || mode == "check") failures += gemmd::testing::Check();
  if (mode.empty() || mode == "rows") failures += gemmd::testing::Rows();
  if (mode.empty() || mode == "special") failures += gemmd::testing::Special();
  if (mode.empty() || mode == "errors") failures += gemmd::testing::Errors();
  return failures == 0 ? 0 : 1;
}
