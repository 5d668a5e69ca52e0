// Exits with 1 where the ragged product breaks a rule of the emulator or gives a wrong bit.
// deploy/check/delete_synchronisation.py compiles it against copies of the sources with one
// statement deleted.
//
// Deletes from: kernels/sm90/ragged_gemm.h
// Deletes from: kernels/sm90/ragged_repack.h
//
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/emulator/session.h"
#include "kernels/sm90/ragged_launch.h"
#include "tests/kernels/emulator/half_matrix.h"

namespace gemmd::testing {
namespace {

// A matrix's elements in lines of `pitch`, at an address that is a multiple of 128 bytes.
class Lines {
 public:
  Lines(const HalfMatrix& from, std::int64_t pitch)
      : elements_(static_cast<std::size_t>(from.rows() * pitch) + 64) {
    for (std::int64_t row = 0; row < from.rows(); ++row) {
      std::memcpy(data() + row * pitch, &from.data()[row * from.leading_dimension()],
                  static_cast<std::size_t>(from.columns()) * 2);
    }
  }
  std::uint16_t* data() {
    const auto at = reinterpret_cast<std::uintptr_t>(elements_.data());
    return elements_.data() + (128 - at % 128) % 128 / 2;
  }

 private:
  std::vector<std::uint16_t> elements_;
};

// `gap` elements between the lines.
bool IsRight(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t gap,
             bool b_is_settled = false) {
  HalfMatrix a(m, k);
  HalfMatrix b(n, k);
  const HalfMatrix nothing(m, n);
  a.FillRandom(emulator::HalfFormat::kF16, 1);
  b.FillRandom(emulator::HalfFormat::kF16, 2);
  Problem problem = MakeProblem(m, n, k, DataType::kF16, DataType::kF16, false, true);
  problem.a.leading_dimension = problem.b.leading_dimension = k + gap;
  problem.d.leading_dimension = n + gap;
  Lines a_lines(a, k + gap);
  Lines b_lines(b, k + gap);
  const std::vector<std::uint16_t> expected =
      ExactProduct(ProductForm::kF16AccumulateF32, a, b, true);
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    Lines d(nothing, n + gap);
    std::vector<ptx::Vector4> workspace(sm90::RaggedPlaneBytes(problem, m) / 16 + 8);
    Arguments arguments;
    arguments.a = a_lines.data();
    arguments.b = b_lines.data();
    arguments.d = d.data();
    arguments.b_is_settled = b_is_settled;
    arguments.workspace = reinterpret_cast<void*>(
        (reinterpret_cast<std::uintptr_t>(workspace.data()) + 127) / 128 * 128);
    emulator::Session session;
    session.options.seed = seed;
    session.options.landing = seed == 3 ? emulator::Landing::kLazy : emulator::Landing::kRandom;
    LaunchTarget target;
    target.emulator = &session;
    const absl::Status status = sm90::LaunchRaggedGemm(problem, arguments, target);
    if (!status.ok()) {
      std::printf("%s\n", status.ToString().c_str());
      return false;
    }
    for (std::int64_t row = 0; row < m; ++row) {
      if (std::memcmp(d.data() + row * (n + gap), &expected[static_cast<std::size_t>(row * n)],
                      static_cast<std::size_t>(n) * 2) != 0) {
        std::printf("wrong bits in row %ld\n", static_cast<long>(row));
        return false;
      }
    }
  }
  return true;
}

}  // namespace
}  // namespace gemmd::testing

int main() {
  using gemmd::testing::IsRight;
  // Tight and odd, more blocks of K than stages; A aligned, so that no repack goes ahead; fewer
  // blocks of K than stages; B before the grid's turn.
  return IsRight(60, 140, 421, 0) && IsRight(40, 130, 72, 8) && IsRight(20, 30, 71, 1) &&
                 IsRight(20, 30, 72, 8, true)
             ? 0
             : 1;
}
