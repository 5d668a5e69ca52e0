// Measures how fast the emulator runs kernels, in 10^9 multiply-adds a second with every check on;
// of all kernels, or of those whose name contains the argument.
// Not a test: timing decides nothing here. Run it by hand:
//   bazel run --config=opt --config=cpu //tests/kernels/emulator:emulator_speed
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "kernels/emulator/launch.h"
#include "kernels/mma/copy_async/gemm.h"
#include "kernels/mma/half_gemm_types.h"
#include "kernels/workshop/ampere_mma/ladder_a_steps.h"
#include "tests/kernels/emulator/cluster_product.h"
#include "tests/kernels/emulator/half_matrix.h"

namespace gemmd::testing {
namespace {

constexpr int kRepeats = 5;

// The fastest of a few runs, in processor time: others share the machine.
void Report(const char* name, std::int64_t m, std::int64_t n, std::int64_t k,
            const std::function<emulator::Report()>& run) {
  double best = 0;
  for (int i = 0; i < kRepeats; ++i) {
    const std::clock_t start = std::clock();
    const emulator::Report report = run();
    const double taken = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    if (!report.ok()) std::printf("%s\n", report.message.c_str());
    best = std::max(best, static_cast<double>(m * n * k) / taken / 1e9);
  }
  std::printf("%-24s %5lld x %5lld x %5lld  %.3f GMAC/s\n", name, static_cast<long long>(m),
              static_cast<long long>(n), static_cast<long long>(k), best);
}

template <class Step, class Types>
void TimeLadderA(const char* name, ProductForm form) {
  const std::int64_t m = 256;
  const std::int64_t n = 128;
  const std::int64_t k = 512;
  HalfMatrix a(m, k);
  HalfMatrix b(k, n);
  HalfMatrix d(m, n);
  a.FillRandom(FormatOf(form), 1);
  b.FillRandom(FormatOf(form), 2);
  const mma::HalfGemmParams params = {a.data(),
                                      b.data(),
                                      d.data(),
                                      a.leading_dimension(),
                                      b.leading_dimension(),
                                      d.leading_dimension(),
                                      static_cast<std::int32_t>(m),
                                      static_cast<std::int32_t>(n),
                                      static_cast<std::int32_t>(k),
                                      1,
                                      1};
  emulator::LaunchRequest request;
  request.kernel = Step::kName;
  request.threads = copy_async::BlockShape<Step>::kThreads;
  request.shared_bytes = copy_async::BlockShape<Step>::kSharedBytes;
  request.buffers = {a.ReadOnly("A"), b.ReadOnly("B"), d.Writable("D")};
  Report(name, m, n, k, [&] {
    return emulator::Launch(request, {}, [&] { copy_async::CopyAsyncGemm<Step, Types>(params); });
  });
}

ptx::TensorMap MapOf(const HalfMatrix& matrix, std::uint32_t box_rows) {
  ptx::TensorMapSpec spec;
  spec.base = matrix.data();
  spec.element = ptx::TensorElement::kBf16;
  spec.size[0] = static_cast<std::uint64_t>(matrix.columns());
  spec.size[1] = static_cast<std::uint64_t>(matrix.rows());
  spec.stride_bytes[1] = static_cast<std::uint64_t>(matrix.leading_dimension()) * 2;
  spec.box[0] = 64;
  spec.box[1] = box_rows;
  spec.swizzle = ptx::Swizzle::k128B;
  return *ptx::MakeTensorMap(spec);
}

void TimeClusterProduct() {
  const std::int64_t m = 256;
  const std::int64_t n = 128;
  const std::int64_t k = 512;
  HalfMatrix a(m, k);
  HalfMatrix b(n, k);
  std::vector<float> d(static_cast<std::size_t>(m * n));
  a.FillRandom(emulator::HalfFormat::kBf16, 5);
  b.FillRandom(emulator::HalfFormat::kBf16, 6);
  const ClusterProductParams params = {MapOf(a, 64),
                                       MapOf(b, 32),
                                       d.data(),
                                       static_cast<std::int32_t>(m),
                                       static_cast<std::int32_t>(n),
                                       static_cast<std::int32_t>(k / 64)};
  emulator::LaunchRequest request;
  request.kernel = "cluster_product";
  request.grid = {4, 2};
  request.cluster_size = 2;
  request.threads = ClusterProduct::kThreads;
  request.shared_bytes = ClusterProduct::kSharedBytes;
  request.buffers = {a.ReadOnly("A"), b.ReadOnly("B"), {d.data(), d.size() * 4, "D", false}};
  Report("wgmma, TMA, clusters", m, n, k, [&] {
    return emulator::Launch(request, {},
                            [&] { ClusterProductKernel<ClusterFault::kNone>(params); });
  });
}

void TimeAll(const std::string& wanted) {
  const auto is_wanted = [&](const std::string& name) {
    return name.find(wanted) != std::string::npos;
  };
  if (is_wanted("a01a f16/f32"))
    TimeLadderA<ampere_mma::A01a, mma::F16AccumulateF32>("a01a f16/f32",
                                                         ProductForm::kF16AccumulateF32);
  if (is_wanted("a05 f16/f32"))
    TimeLadderA<ampere_mma::A05, mma::F16AccumulateF32>("a05 f16/f32",
                                                        ProductForm::kF16AccumulateF32);
  if (is_wanted("a05 f16/f16"))
    TimeLadderA<ampere_mma::A05, mma::F16AccumulateF16>("a05 f16/f16",
                                                        ProductForm::kF16AccumulateF16);
  if (is_wanted("a05 bf16/f32"))
    TimeLadderA<ampere_mma::A05, mma::Bf16AccumulateF32>("a05 bf16/f32",
                                                         ProductForm::kBf16AccumulateF32);
  if (is_wanted("wgmma")) TimeClusterProduct();
}

}  // namespace
}  // namespace gemmd::testing

int main(int argc, char** argv) { gemmd::testing::TimeAll(argc > 1 ? argv[1] : ""); }
