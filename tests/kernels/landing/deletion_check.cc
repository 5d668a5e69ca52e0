// Exits with 1 where the transposition breaks a rule of the emulator or gives a wrong byte.
// deploy/check/delete_synchronisation.py compiles it against copies of the kernel with one
// statement deleted.
//
// Deletes from: kernels/landing/transpose_kernel.h
#include <cstdint>
#include <cstdio>
#include <vector>

#include "kernels/emulator/launch.h"
#include "kernels/landing/transpose_kernel.h"

namespace gemmd::testing {
namespace {

constexpr std::int64_t kRows = 150;  // two tiles, the second ragged
constexpr std::int64_t kColumns = 60;

bool IsRight(std::uint64_t seed) {
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
  emulator::Options options;
  options.seed = seed;
  const emulator::Report report =
      emulator::Launch(request, options, [&] { landing::Transpose<4>(params); });
  if (!report.ok()) {
    std::printf("%s\n", report.message.c_str());
    return false;
  }
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t column = 0; column < kColumns; ++column) {
      if (to[column * kRows + row] == from[row * kColumns + column]) continue;
      std::printf("a wrong word\n");
      return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace gemmd::testing

int main() {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    if (!gemmd::testing::IsRight(seed)) return 1;
  }
  return 0;
}
