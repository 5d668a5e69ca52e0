// Every wait, fence, barrier and arrival of the ragged product is needed.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "kernels/emulator/session.h"
#include "kernels/hopper/ragged/launch.h"
#include "tests/kernels/emulator/deletions.h"
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

struct RaggedShape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  std::int64_t gap;  // elements between the lines
  bool b_is_settled = false;
};

std::string Wrong(const RaggedShape& shape, const emulator::Options& options) {
  const auto [m, n, k, gap, b_is_settled] = shape;
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
  Lines d(nothing, n + gap);
  std::vector<ptx::Vector4> workspace(hopper::ragged::PlaneBytes(problem, m) / 16 + 8);
  void* plane = workspace.data();
  std::size_t workspace_bytes = workspace.size() * sizeof(ptx::Vector4);
  Arguments arguments;
  arguments.a = a_lines.data();
  arguments.b = b_lines.data();
  arguments.d = d.data();
  arguments.b_is_settled = b_is_settled;
  arguments.workspace =
      std::align(128, hopper::ragged::PlaneBytes(problem, m), plane, workspace_bytes);
  emulator::Session session;
  session.options = options;
  LaunchTarget target;
  target.emulator = &session;
  const absl::Status status = hopper::ragged::LaunchProduct(problem, arguments, target);
  if (!status.ok()) return status.ToString();
  for (std::int64_t row = 0; row < m; ++row) {
    if (std::memcmp(d.data() + row * (n + gap), &expected[static_cast<std::size_t>(row * n)],
                    static_cast<std::size_t>(n) * 2) != 0) {
      return "wrong bits in row " + std::to_string(row);
    }
  }
  return "";
}

DeletionCheck Ragged() {
  return {{"kernels/hopper/ragged/product.h", "kernels/hopper/ragged/repack.h"},
          {},
          RunsOf<RaggedShape>({Wrong},
                              {
                                  {60, 140, 421, 0},  // tight and odd, more blocks of K than stages
                                  {40, 130, 72, 8},   // A aligned, so that no repack goes ahead
                                  {20, 30, 71, 1},    // fewer blocks of K than stages
                                  {20, 30, 72, 8, true},  // B before the grid's turn
                              })};
}
DELETION_TEST(Ragged)

}  // namespace
}  // namespace gemmd::testing
