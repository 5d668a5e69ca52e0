// Exits with 1 where the landing transposition, as KERNEL_HEADER has it, breaks a rule of
// the emulator or moves an element wrongly. deploy/check/delete_synchronisation.py compiles
// it against copies of the kernel with one statement deleted.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "kernels/emulator/launch.h"

#include KERNEL_HEADER

namespace gemmd::landing {
namespace {

// A 96 x 80 matrix of 4-byte elements: two tiles by two.
bool IsRight(std::uint64_t seed) {
  constexpr std::int64_t kRows = 96;
  constexpr std::int64_t kColumns = 80;
  std::vector<std::uint32_t> from(kRows * kColumns);
  std::vector<std::uint32_t> to(kRows * kColumns, 0xA5A5A5A5);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint32_t>(i);
  TransposeParams params;
  params.from = from.data();
  params.to = to.data();
  params.from_pitch = kColumns;
  params.to_pitch = kRows;
  params.rows = kRows;
  params.columns = kColumns;
  params.padded_rows = kColumns;
  params.padded_columns = kRows;
  params.tiles_along_columns = 2;
  emulator::LaunchRequest request;
  request.kernel = "landing/transpose";
  request.grid = {4, 1, 1};
  request.threads = kTransposeThreads;
  request.shared_bytes = TransposeSharedBytes<4>();
  request.buffers = {{from.data(), from.size() * 4, "from", true},
                     {to.data(), to.size() * 4, "to", false}};
  emulator::Options options;
  options.seed = seed;
  const emulator::Report report = emulator::Launch(request, options, [&] { Transpose<4>(params); });
  if (!report.ok()) {
    std::printf("%s\n", report.message.c_str());
    return false;
  }
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t column = 0; column < kColumns; ++column) {
      const auto source = static_cast<std::size_t>(row * kColumns + column);
      const auto target = static_cast<std::size_t>(column * kRows + row);
      if (to[target] != from[source]) return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace gemmd::landing

int main() {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    if (!gemmd::landing::IsRight(seed)) return 1;
  }
  return 0;
}
