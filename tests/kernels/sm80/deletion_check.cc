// Exits with 1 where any step of ladder A breaks a rule of the emulator or gives a wrong bit.
// deploy/check/delete_synchronisation.py compiles it against copies of the kernel with one
// statement deleted.
//
// Deletes from: kernels/sm80/ladder_a.h
#include <cstdio>

#include "kernels/emulator/launch.h"
#include "kernels/mma/half_gemm_types.h"
#include "kernels/sm80/ladder_a.h"
#include "tests/kernels/emulator/half_matrix.h"

namespace gemmd::testing {
namespace {

constexpr ProductForm kForm = ProductForm::kF16AccumulateF32;

template <class Step>
bool IsRight(std::uint64_t seed, emulator::Landing landing, std::int64_t k) {
  HalfMatrix a(128, k);
  HalfMatrix b(k, 128);
  HalfMatrix d(128, 128);
  a.FillRandom(FormatOf(kForm), 1);
  b.FillRandom(FormatOf(kForm), 2);
  d.Fill(0x7fc1);
  const mma::HalfGemmParams params = {a.data(),
                                      b.data(),
                                      d.data(),
                                      a.leading_dimension(),
                                      b.leading_dimension(),
                                      d.leading_dimension(),
                                      128,
                                      128,
                                      static_cast<std::int32_t>(k),
                                      1,
                                      1};
  emulator::LaunchRequest request;
  request.kernel = Step::kName;
  request.threads = sm80::kThreads;
  request.shared_bytes = sm80::LadderASharedBytes(Step::kStages);
  request.buffers = {a.ReadOnly("A"), b.ReadOnly("B"), d.Writable("D")};
  emulator::Options options;
  options.seed = seed;
  options.landing = landing;
  const emulator::Report report = emulator::Launch(
      request, options, [&] { sm80::LadderA<Step, mma::F16AccumulateF32>(params); });
  if (!report.ok()) {
    std::printf("%s\n", report.message.c_str());
    return false;
  }
  if (CountDifferent(d, ExactProduct(kForm, a, b, false)) == 0) return true;
  std::printf("%s: wrong bits\n", Step::kName);
  return false;
}

template <class Step>
bool IsRight() {
  for (const std::int64_t k : {64, 384}) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      if (!IsRight<Step>(seed, emulator::Landing::kRandom, k)) return false;
    }
    if (!IsRight<Step>(1, emulator::Landing::kLazy, k)) return false;
  }
  return true;
}

}  // namespace
}  // namespace gemmd::testing

int main() {
  using gemmd::testing::IsRight;
  namespace sm80 = gemmd::sm80;
  const bool is_right = IsRight<sm80::A01a>() && IsRight<sm80::A01b>() && IsRight<sm80::A02>() &&
                        IsRight<sm80::A03>() && IsRight<sm80::A04>() && IsRight<sm80::A05>();
  return is_right ? 0 : 1;
}
