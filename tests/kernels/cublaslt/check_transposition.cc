#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/gemm.h"
#include "tests/kernels/cublaslt/programs.h"
#include "tests/kernels/mma/gpu_matrix.h"

namespace gemmd::testing {
namespace {

constexpr std::uint64_t kArenaBytes = std::uint64_t{1} << 30;

std::int64_t Aligned(std::int64_t elements, int element_bytes) {
  const std::int64_t unit = 16 / element_bytes;
  return (elements + unit - 1) / unit * unit;
}

Transposition MakeTransposition(int bytes, std::int64_t rows, std::int64_t columns,
                                const GpuMatrix& from, const GpuMatrix& to) {
  Transposition t;
  t.element_bytes = bytes;
  t.rows = rows;
  t.columns = columns;
  t.from = from.data();
  t.from_leading_dimension = Aligned(columns, bytes);
  t.to = to.data();
  t.padded_rows = Aligned(columns, 1);
  t.padded_columns = Aligned(rows, 1);
  t.to_leading_dimension = t.padded_columns;
  return t;
}

void Run(const Transposition& t) {
  const absl::Status status = LaunchTranspose(t, LaunchTarget());
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

bool IsRight(int bytes, std::int64_t rows, std::int64_t columns) {
  const auto size = static_cast<std::size_t>(bytes);
  const auto from_pitch = static_cast<std::size_t>(Aligned(columns, bytes));
  const auto padded_rows = static_cast<std::size_t>(Aligned(columns, 1));
  const auto to_pitch = static_cast<std::size_t>(Aligned(rows, 1));
  std::vector<unsigned char> from(static_cast<std::size_t>(rows) * from_pitch * size);
  std::vector<unsigned char> to(padded_rows * to_pitch * size, 0xA5);
  std::mt19937 generator(3);
  for (unsigned char& byte : from) byte = static_cast<unsigned char>(generator());
  GpuMatrix gpu_from(from.size());
  GpuMatrix gpu_to(to.size());
  gpu_from.Put(from.data());
  gpu_to.Put(to.data());
  Run(MakeTransposition(bytes, rows, columns, gpu_from, gpu_to));
  CheckCuda(cudaDeviceSynchronize(), "transposition");
  gpu_to.Get(to.data());
  const std::vector<unsigned char> zero(size, 0);
  for (std::size_t line = 0; line < padded_rows; ++line) {
    for (std::size_t i = 0; i < to_pitch; ++i) {
      const bool is_inside =
          line < static_cast<std::size_t>(columns) && i < static_cast<std::size_t>(rows);
      const unsigned char* expected =
          is_inside ? from.data() + (i * from_pitch + line) * size : zero.data();
      if (std::memcmp(to.data() + (line * to_pitch + i) * size, expected, size) != 0) return false;
    }
  }
  return true;
}

}  // namespace

Counts CheckTransposition() {
  Counts counts;
  for (const int bytes : {1, 2, 4, 8}) {
    for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                        {1023, 4097},
                                        {128, 128},
                                        {77, 1000},
                                        {4097, 33}}) {
      const bool is_right = IsRight(bytes, rows, columns);
      counts.passed += is_right;
      counts.failed += !is_right;
    }
  }
  std::printf("transposition: %d shapes right, %d wrong\n", counts.passed, counts.failed);
  GpuMatrix from(kArenaBytes);
  GpuMatrix to(kArenaBytes);
  GpuTimer timer;
  constexpr int kLaunches = 10;
  for (int round = 0; round < 2; ++round) {
    timer.Start();
    for (int i = 0; i < kLaunches; ++i) {
      CheckCuda(cudaMemcpyAsync(to.data(), from.data(), kArenaBytes / 4, cudaMemcpyDeviceToDevice),
                "cudaMemcpyAsync");
    }
    const double copy = timer.Stop() / kLaunches;
    if (round == 0) continue;  // warm-up
    std::printf("copy of 256 MiB on the device: %.0f GB/s read and written\n",
                2.0 * kArenaBytes / 4 / copy * 1e-6);
  }
  for (const int bytes : {1, 2, 4, 8}) {
    const std::int64_t rows = 16384;
    const std::int64_t columns = static_cast<std::int64_t>(kArenaBytes) / 4 / rows / bytes;
    const Transposition t = MakeTransposition(bytes, rows, columns, from, to);
    Run(t);
    timer.Start();
    for (int i = 0; i < kLaunches; ++i) Run(t);
    const double ms = timer.Stop() / kLaunches;
    std::printf("transposition of 256 MiB, %d-byte elements: %.0f GB/s\n", bytes,
                2.0 * kArenaBytes / 4 / ms * 1e-6);
  }
  return counts;
}

}  // namespace gemmd::testing
