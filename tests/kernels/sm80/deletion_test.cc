// Every wait, barrier and commit of ladder A is needed by one of its steps.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/emulator/launch.h"
#include "kernels/mma/half_gemm_types.h"
#include "kernels/sm80/ladder_a.h"
#include "tests/kernels/emulator/deletions.h"
#include "tests/kernels/emulator/half_matrix.h"

namespace gemmd::testing {
namespace {

constexpr ProductForm kForm = ProductForm::kF16AccumulateF32;

template <class Step>
std::string Wrong(const emulator::Options& options, std::int64_t k) {
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
  const emulator::Report report = emulator::Launch(
      request, options, [&] { sm80::LadderA<Step, mma::F16AccumulateF32>(params); });
  if (!report.ok()) return report.message;
  const bool is_right = CountDifferent(d, ExactProduct(kForm, a, b, false)) == 0;
  return is_right ? "" : std::string(Step::kName) + ": wrong bits";
}

template <class... Step>
DeletionCheck CheckOf(std::vector<const char*> sources) {
  DeletionCheck check{std::move(sources), {}, {}};
  for (const std::int64_t k : {64, 384}) {
    (check.runs.emplace_back(
         [k](const emulator::Options& options) { return Wrong<Step>(options, k); }),
     ...);
  }
  return check;
}

DeletionCheck LadderA() {
  return CheckOf<sm80::A01a, sm80::A01b, sm80::A02, sm80::A03, sm80::A04, sm80::A05>(
      {"kernels/sm80/ladder_a.h"});
}
DELETION_TEST(LadderA, LadderA)

}  // namespace
}  // namespace gemmd::testing
