// Every barrier of the transposition is needed.
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/emulator/launch.h"
#include "kernels/landing/transpose_kernel.h"
#include "tests/kernels/emulator/deletions.h"

namespace gemmd::testing {
namespace {

constexpr std::int64_t kRows = 150;  // two tiles, the second ragged
constexpr std::int64_t kColumns = 60;

std::string Wrong(const emulator::Options& options) {
  std::vector<std::uint32_t> from(kRows * kColumns);
  std::vector<std::uint32_t> to(kColumns * kRows, 0xffffffffu);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint32_t>(i);
  landing::TransposeParams params;
  params.from = from.data();
  params.to = to.data();
  params.from_pitch = kColumns;
  params.to_pitch = kRows;
  params.rows = kRows;
  params.columns = kColumns;
  params.padded_rows = kColumns;
  params.padded_columns = kRows;
  params.tiles_along_columns = 1;
  emulator::LaunchRequest request;
  request.kernel = "landing/transpose";
  request.grid.x = 3;
  request.threads = landing::kTransposeThreads;
  request.shared_bytes = landing::TransposeSharedBytes<4>();
  request.buffers = {{from.data(), from.size() * 4, "from", true},
                     {to.data(), to.size() * 4, "to", false}};
  const emulator::Report report =
      emulator::Launch(request, options, [&] { landing::Transpose<4>(params); });
  if (!report.ok()) return report.message;
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t column = 0; column < kColumns; ++column) {
      if (to[column * kRows + row] != from[row * kColumns + column]) return "a wrong word";
    }
  }
  return "";
}

DeletionCheck Transposition() { return {{"kernels/landing/transpose_kernel.h"}, {}, {Wrong}}; }
DELETION_TEST(Transposition)

}  // namespace
}  // namespace gemmd::testing
