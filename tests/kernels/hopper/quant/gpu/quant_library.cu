// The kernels of kernels/hopper/quant behind a C interface, for check_bench.py: packing, products
// by kernel and tiling, and a reference that sums in their order by plain mma.sync.
#include "kernels/hopper/quant/launch.h"
#include "kernels/hopper/quant/packing_launch.h"

namespace gemmd::hopper::quant {
namespace {

// B as Python's call states it: the first three are ZeroKind's.
constexpr int kMxfp4 = 3;
constexpr int kMxfp4InGroups = 4;

// mxfp4 in the order of integers, sums of 128 of K, for comparison with the chain that it has
// (docs/decisions/041-mxfp4-one-chain.md).
struct GroupedMxfp4 {
  using Rows = Bf16Rows;
  static constexpr bool kIsChain = false;
  static constexpr bool kHasZeros = false;
  static constexpr int kScaleBytes = Mxfp4Decoder::kScaleBytes;
  std::uint32_t scales;  // of the sums, f16
  Mxfp4Decoder of_codes;
  GEMMD_DEVICE void Load(ptx::SharedAddress scales_at, ptx::SharedAddress zeros_at) {
    scales = 0x44004400;  // 4, as Mxfp4Decoder's sums want
    of_codes.Load(scales_at, zeros_at);
  }
  template <bool kLarge = false>
  GEMMD_DEVICE void Decode(std::uint32_t word, int step, std::uint32_t (&fragment)[4]) const {
    of_codes.Decode<kLarge>(word, step, fragment);
  }
};

// A product as Python's call states it.
struct Call {
  int is_f16;  // A and D, else bf16
  int format;  // of B
  int m;
  int n;
  int k;
  void* stream;
};

Problem ProblemOf(const Call& call) {
  const DataType type = call.is_f16 != 0 ? DataType::kF16 : DataType::kBf16;
  const bool is_mxfp4 = call.format >= kMxfp4;
  const auto zero = static_cast<ZeroKind>(call.format);
  Problem problem;
  problem.m = call.m;
  problem.n = call.n;
  problem.k = call.k;
  problem.a = {type, call.m, call.k, Order::kRowMajor, call.k};
  problem.b = {zero == ZeroKind::kNone ? DataType::kUint4 : DataType::kInt4, call.n, call.k,
               Order::kRowMajor, call.k};
  if (is_mxfp4) problem.b.type = DataType::kFp4E2M1;
  problem.transpose_b = true;
  problem.d = {type, call.m, call.n, Order::kRowMajor, call.n};
  problem.c = problem.d;
  problem.b_scaling.has_scales = true;
  problem.b_scaling.type = is_mxfp4 ? DataType::kE8M0 : DataType::kF16;
  problem.b_scaling.block_lines = 1;
  problem.b_scaling.block_k = is_mxfp4 ? 32 : kGroupK;
  problem.b_scaling.has_zero_points = !is_mxfp4 && zero == ZeroKind::kPlane;
  return problem;
}

// D of codes' values: a warp for 16 rows of A by eight lines, a group of 128 at a time or, without
// scales, one chain.
struct ReferenceParams {
  const std::uint16_t* a;
  const std::uint16_t* values;
  const float* scales;  // lines x groups, or null
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
    if (params.scales == nullptr || first % kGroupK != kGroupK - kStepK) continue;
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
    if (r < params.m) params.d[at] = Out::Narrow(params.scales == nullptr ? sums[i] : total[i]);
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

// With QUANT_QUICK the library has bf16 by int4 and mxfp4 alone, which compiles in a quarter of the
// time.
template <int kTiling>
absl::Status FewOf(const Problem& problem, const Arguments& arguments, const LaunchTarget& target) {
#ifdef QUANT_QUICK
  return LaunchFewOf<kTiling, Int4Decoder<Bf16Rows, ZeroKind::kEight>>(problem, arguments, target);
#else
  return LaunchFew<kTiling>(problem, arguments, target);
#endif
}

template <int kTiling>
absl::Status WideOf(const Problem& problem, const Arguments& arguments,
                    const LaunchTarget& target) {
#ifdef QUANT_QUICK
  if (CodeFormatOf(problem) == CodeFormat::kInteger) {
    return LaunchWideOf<kTiling, Int4Decoder<Bf16Rows, ZeroKind::kEight>>(problem, arguments,
                                                                          target);
  }
  return LaunchWideOf<kTiling, Mxfp4Decoder>(problem, arguments, target);
#else
  return LaunchWide<kTiling>(problem, arguments, target);
#endif
}

}  // namespace
}  // namespace gemmd::hopper::quant

extern "C" {

// plane: gemmd::WeightPlane.
long long quant_packed_bytes(int plane, int format, int n, int k) {
  using namespace gemmd::hopper::quant;
  const gemmd::Problem problem = ProblemOf({0, format, 1, n, k, nullptr});
  return UnitsOf(n, k) * PieceBytes(CodeFormatOf(problem), static_cast<gemmd::WeightPlane>(plane));
}

int quant_pack(int plane, int format, int n, int k, const void* sent, void* packed, void* stream) {
  using namespace gemmd::hopper::quant;
  const gemmd::Problem problem = ProblemOf({0, format, 1, n, k, stream});
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

// kernel: 0 for few rows, 1 for many, 2 for few rows in one chain.
int quant_gemm(int kernel, int tiling, int is_f16, int format, const void* a, const void* codes,
               const void* scales, const void* zeros, void* d, int m, int n, int k, void* stream) {
  using namespace gemmd::hopper::quant;
  static Launch* const kKernels[][6] = {
      {FewOf<0>, FewOf<1>, FewOf<2>, FewOf<3>, FewOf<4>, FewOf<5>},
      {WideOf<0>, WideOf<1>, WideOf<2>, WideOf<3>, WideOf<4>, WideOf<5>},
      {LaunchChain<0>, LaunchChain<1>, LaunchChain<2>}};
  static Launch* const kGrouped[][6] = {
      {LaunchFewOf<0, GroupedMxfp4>, LaunchFewOf<1, GroupedMxfp4>, LaunchFewOf<2, GroupedMxfp4>,
       LaunchFewOf<3, GroupedMxfp4>, LaunchFewOf<4, GroupedMxfp4>, LaunchFewOf<5, GroupedMxfp4>},
      {LaunchWideOf<0, GroupedMxfp4>, LaunchWideOf<1, GroupedMxfp4>, LaunchWideOf<2, GroupedMxfp4>,
       LaunchWideOf<3, GroupedMxfp4>, LaunchWideOf<4, GroupedMxfp4>,
       LaunchWideOf<5, GroupedMxfp4>}};
  const Call call = {is_f16, format, m, n, k, stream};
  gemmd::Arguments arguments;
  arguments.a = a;
  arguments.b = codes;
  arguments.b_scales = scales;
  arguments.b_zero_points = zeros;
  arguments.d = d;
  arguments.b_is_settled = true;
  Launch* const launch =
      format == kMxfp4InGroups ? kGrouped[kernel][tiling] : kKernels[kernel][tiling];
  return Said(launch(ProblemOf(call), arguments, TargetOf(stream)));
}
}
