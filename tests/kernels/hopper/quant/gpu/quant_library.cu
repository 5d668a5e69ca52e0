// The kernels of kernels/hopper/quant behind a C interface, for check_bench.py: packing, products
// by kernel and tiling, and a reference that sums in their order by plain mma.sync.
#include "kernels/hopper/quant/launch.h"
#include "kernels/hopper/quant/packing_launch.h"

namespace gemmd::hopper::quant {
namespace {

// A product as Python's call states it.
struct Call {
  int is_f16;  // A and D, else bf16
  int zero;    // ZeroKind
  int m;
  int n;
  int k;
  void* stream;
};

Problem ProblemOf(const Call& call) {
  const DataType type = call.is_f16 != 0 ? DataType::kF16 : DataType::kBf16;
  const auto zero = static_cast<ZeroKind>(call.zero);
  Problem problem;
  problem.m = call.m;
  problem.n = call.n;
  problem.k = call.k;
  problem.a = {type, call.m, call.k, Order::kRowMajor, call.k};
  problem.b = {zero == ZeroKind::kNone ? DataType::kUint4 : DataType::kInt4, call.n, call.k,
               Order::kRowMajor, call.k};
  problem.transpose_b = true;
  problem.d = {type, call.m, call.n, Order::kRowMajor, call.n};
  problem.c = problem.d;
  problem.b_scaling.has_scales = true;
  problem.b_scaling.type = DataType::kF16;
  problem.b_scaling.block_lines = 1;
  problem.b_scaling.block_k = kGroupK;
  problem.b_scaling.has_zero_points = zero == ZeroKind::kPlane;
  return problem;
}

// D of codes' values: a warp for 16 rows of A by eight lines, a group of 128 at a time.
struct ReferenceParams {
  const std::uint16_t* a;
  const std::uint16_t* values;
  const float* scales;  // lines x groups
  std::uint16_t* d;
  int m;
  int n;
  int k;
};

template <class Rows, class Out>
GEMMD_KERNEL void Reference(GEMMD_GRID_CONSTANT const ReferenceParams params) {
  const auto lane = static_cast<int>(ptx::LaneIndex());
  const int row = static_cast<int>(ptx::BlockIndexY()) * 16 + lane / 4;
  const int line = static_cast<int>(ptx::BlockIndexX()) * 8;
  const auto pair = [&](const std::uint16_t* of, std::int64_t at, int i, int limit) {
    return i < limit ? ptx::LoadGlobal(reinterpret_cast<const std::uint32_t*>(of + at)) : 0u;
  };
  float total[4] = {};
  float sums[4] = {};
  for (int first = 0; first < params.k; first += 16) {
    const int k = first + lane % 4 * 2;
    const std::int64_t low = std::int64_t{row} * params.k + k;
    const std::int64_t high = low + std::int64_t{8} * params.k;
    const std::int64_t of_line = std::int64_t{line + lane / 4} * params.k + k;
    const std::uint32_t a[4] = {
        pair(params.a, low, row, params.m), pair(params.a, high, row + 8, params.m),
        pair(params.a, low + 8, row, params.m), pair(params.a, high + 8, row + 8, params.m)};
    const std::uint32_t b[2] = {pair(params.values, of_line, 0, 1),
                                pair(params.values, of_line + 8, 0, 1)};
    Rows::Multiply(sums, a, b);
    if (first % kGroupK != kGroupK - kStepK) continue;
    for (int i = 0; i < 4; ++i) {
      const std::int64_t of = std::int64_t{line + lane % 4 * 2 + i % 2};
      total[i] =
          std::fma(params.scales[of * (params.k / kGroupK) + first / kGroupK], sums[i], total[i]);
      sums[i] = 0;
    }
  }
  for (int i = 0; i < 4; ++i) {
    const int r = row + i / 2 * 8;
    const std::int64_t at = std::int64_t{r} * params.n + line + lane % 4 * 2 + i % 2;
    if (r < params.m) params.d[at] = Out::Narrow(total[i]);
  }
}

LaunchTarget TargetOf(void* stream) {
  LaunchTarget target;
  target.stream = static_cast<CUstream_st*>(stream);
  return target;
}

int Said(const absl::Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

using Launch = absl::Status(const Problem&, const Arguments&, const LaunchTarget&);

// With QUANT_QUICK the library has bf16 by int4 alone, which compiles in a sixth of the time.
template <int kTiling>
Launch* FewOf() {
#ifdef QUANT_QUICK
  return LaunchFewOf<kTiling, Int4Decoder<Bf16Rows, ZeroKind::kEight>>;
#else
  return LaunchFew<kTiling>;
#endif
}

template <int kTiling>
Launch* WideOf() {
#ifdef QUANT_QUICK
  return LaunchWideOf<kTiling, Int4Decoder<Bf16Rows, ZeroKind::kEight>>;
#else
  return LaunchWide<kTiling>;
#endif
}

}  // namespace
}  // namespace gemmd::hopper::quant

extern "C" {

// plane: gemmd::WeightPlane.
long long quant_packed_bytes(int plane, int n, int k) {
  using namespace gemmd::hopper::quant;
  constexpr int kBytes[] = {kCodeBytes, kScaleBytes, kZeroBytes};
  return UnitsOf(n, k) * kBytes[plane];
}

int quant_pack(int plane, int zero, int n, int k, const void* sent, void* packed, void* stream) {
  using namespace gemmd::hopper::quant;
  const gemmd::Problem problem = ProblemOf({0, zero, 1, n, k, stream});
  return Said(LaunchPacking(problem, static_cast<gemmd::WeightPlane>(plane), sent, packed,
                            TargetOf(stream)));
}

int quant_reference(int is_f16, const void* a, const void* values, const void* scales, void* d,
                    int m, int n, int k, void* stream) {
  using namespace gemmd::hopper::quant;
  const ReferenceParams params = {static_cast<const std::uint16_t*>(a),
                                  static_cast<const std::uint16_t*>(values),
                                  static_cast<const float*>(scales),
                                  static_cast<std::uint16_t*>(d),
                                  m,
                                  n,
                                  k};
  gemmd::ptx::LaunchShape shape;
  shape.kernel = "reference";
  shape.blocks_x = static_cast<std::uint32_t>(n / 8);
  shape.blocks_y = static_cast<std::uint32_t>((m + 15) / 16);
  return Said(gemmd::ptx::Launch(is_f16 != 0 ? Reference<F16Rows, gemmd::epilogue::F16>
                                             : Reference<Bf16Rows, gemmd::epilogue::Bf16>,
                                 shape, params, {}, TargetOf(stream)));
}

// kernel: 0 for few rows, 1 for many.
int quant_gemm(int kernel, int tiling, int is_f16, int zero, const void* a, const void* codes,
               const void* scales, const void* zeros, void* d, int m, int n, int k, void* stream) {
  using namespace gemmd::hopper::quant;
  static Launch* const kFew[] = {FewOf<0>(), FewOf<1>(), FewOf<2>(),
                                 FewOf<3>(), FewOf<4>(), FewOf<5>()};
  static Launch* const kWide[] = {WideOf<0>(), WideOf<1>(), WideOf<2>(),
                                  WideOf<3>(), WideOf<4>(), WideOf<5>()};
  const Call call = {is_f16, zero, m, n, k, stream};
  gemmd::Arguments arguments;
  arguments.a = a;
  arguments.b = codes;
  arguments.b_scales = scales;
  arguments.b_zero_points = zeros;
  arguments.d = d;
  arguments.b_is_settled = true;
  return Said((kernel == 0 ? kFew : kWide)[tiling](ProblemOf(call), arguments, TargetOf(stream)));
}
}
