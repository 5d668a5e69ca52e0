// The kernels of kernels/hopper/quant behind a C interface, for check_bench.py: packing, products
// by kernel and tiling, and a reference that sums in their order by plain mma.sync.
#include "kernels/hopper/quant/launch.h"
#include "kernels/hopper/quant/packing_launch.h"

namespace gemmd::hopper::quant {
namespace {

// B as Python's call states it: the first three are ZeroKind's, of 4 bits.
enum class Format {
  kUint4,
  kInt4,
  kInt4Zeros,
  kMxfp4,
  kNvfp4,
  kInt8,
  kInt8Zeros,
  kInt8Lines,
  kE4m3
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

DataType TypeOf(Format format) {
  switch (format) {
    case Format::kUint4:
      return DataType::kUint4;
    case Format::kInt4:
    case Format::kInt4Zeros:
      return DataType::kInt4;
    case Format::kMxfp4:
    case Format::kNvfp4:
      return DataType::kFp4E2M1;
    case Format::kInt8:
    case Format::kInt8Zeros:
    case Format::kInt8Lines:
      return DataType::kInt8;
    case Format::kE4m3:
      break;
  }
  return DataType::kFp8E4M3;
}

Problem ProblemOf(const Call& call) {
  const DataType type = call.is_f16 != 0 ? DataType::kF16 : DataType::kBf16;
  const auto format = static_cast<Format>(call.format);
  Problem problem;
  problem.m = call.m;
  problem.n = call.n;
  problem.k = call.k;
  problem.a = {type, call.m, call.k, Order::kRowMajor, call.k};
  problem.b = {TypeOf(format), call.n, call.k, Order::kRowMajor, call.k};
  problem.transpose_b = true;
  problem.d = {type, call.m, call.n, Order::kRowMajor, call.n};
  problem.c = problem.d;
  problem.b_scaling.has_scales = true;
  problem.b_scaling.block_lines = 1;
  problem.b_scaling.block_k = kGroupK;
  if (format < Format::kMxfp4) problem.b_scaling.type = DataType::kF16;
  if (format == Format::kMxfp4) {
    problem.b_scaling.type = DataType::kE8M0;
    problem.b_scaling.block_k = 32;
  }
  if (format == Format::kNvfp4) {
    problem.b_scaling.type = DataType::kFp8E4M3;
    problem.b_scaling.block_k = 16;
    problem.b_scaling.has_tensor_scale = true;
  }
  if (format == Format::kInt8Lines) problem.b_scaling.block_k = kWhole;
  problem.b_scaling.has_zero_points = format == Format::kInt4Zeros || format == Format::kInt8Zeros;
  return problem;
}

// D of codes' values: a warp for 16 rows of A by eight lines, a group of 128 at a time or, without
// scales, one chain.
struct ReferenceParams {
  const std::uint16_t* a;
  const std::uint16_t* values;
  const float* scales;        // lines x groups, or null
  const float* tensor_scale;  // or null
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
    const float sum = params.scales == nullptr ? sums[i] : total[i];
    if (r < params.m) {
      params.d[at] = Out::Narrow(params.tensor_scale == nullptr ? sum : sum * *params.tensor_scale);
    }
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

// With QUANT_QUICK the library has bf16 by int4, mxfp4, nvfp4, int8 and fp8 without zero points
// alone, which compiles in a quarter of the time.
template <template <class> class Launcher>
absl::Status LaunchIntegers(const Problem& problem, const Arguments& arguments,
                            const LaunchTarget& target) {
#ifdef QUANT_QUICK
  return Launcher<Int4Decoder<Bf16Rows, ZeroKind::kEight>>::Do(problem, arguments, target);
#else
  return LaunchInt4<Launcher>(problem, arguments, target);
#endif
}
template <template <class> class Launcher>
absl::Status LaunchCodesOf8(const Problem& problem, const Arguments& arguments,
                            const LaunchTarget& target) {
#ifdef QUANT_QUICK
  return CodeFormatOf(problem) == CodeFormat::kInt8
             ? Launcher<Int8Decoder<Bf16Rows, ZeroKind::kNone>>::Do(problem, arguments, target)
             : Launcher<E4m3Decoder<Bf16Rows>>::Do(problem, arguments, target);
#else
  return LaunchBytes<Launcher>(problem, arguments, target);
#endif
}

// Not every format has as many tilings for few rows.
template <int kTiling>
absl::Status LaunchFew(const Problem& problem, const Arguments& arguments,
                       const LaunchTarget& target) {
  const CodeFormat format = CodeFormatOf(problem);
  if constexpr (kTiling < FewTilingCount(CodeFormat::kMxfp4)) {
    if (format == CodeFormat::kMxfp4) return LaunchFewMxfp4<kTiling>(problem, arguments, target);
    if (format == CodeFormat::kNvfp4) return LaunchFewNvfp4<kTiling>(problem, arguments, target);
  }
  if constexpr (kTiling < FewTilingCount(CodeFormat::kInt4)) {
    if (format == CodeFormat::kInt4) {
      return LaunchIntegers<Few<kTiling>::template Launcher>(problem, arguments, target);
    }
  }
  if constexpr (kTiling < FewTilingCount(CodeFormat::kInt8)) {
    if (CodeBits(format) == 8) {
      return LaunchCodesOf8<Few<kTiling>::template Launcher>(problem, arguments, target);
    }
  }
  return absl::InvalidArgumentError("the format has no such tiling");
}

template <int kTiling>
absl::Status LaunchWide(const Problem& problem, const Arguments& arguments,
                        const LaunchTarget& target) {
  const CodeFormat format = CodeFormatOf(problem);
  if (format == CodeFormat::kMxfp4) return LaunchWideMxfp4<kTiling>(problem, arguments, target);
  if (format == CodeFormat::kNvfp4) return LaunchWideNvfp4<kTiling>(problem, arguments, target);
  return CodeBits(format) == 8
             ? LaunchCodesOf8<Wide<kTiling>::template Launcher>(problem, arguments, target)
             : LaunchIntegers<Wide<kTiling>::template Launcher>(problem, arguments, target);
}

}  // namespace
}  // namespace gemmd::hopper::quant

extern "C" {

// plane: gemmd::WeightPlane.
long long quant_packed_bytes(int plane, int format, int n, int k) {
  using namespace gemmd::hopper::quant;
  const gemmd::Problem problem = ProblemOf({0, format, 1, n, k, nullptr});
  const auto which = static_cast<gemmd::WeightPlane>(plane);
  return UnitsOf(problem, which, n) * PieceBytes(CodeFormatOf(problem), which);
}

int quant_pack(int plane, int format, int n, int k, const void* sent, void* packed, void* stream) {
  using namespace gemmd::hopper::quant;
  const gemmd::Problem problem = ProblemOf({0, format, 1, n, k, stream});
  return Said(LaunchPacking(problem, static_cast<gemmd::WeightPlane>(plane), sent, packed,
                            TargetOf(stream)));
}

int quant_reference(int is_f16, const void* a, const void* values, const void* scales,
                    const void* tensor_scale, void* d, int m, int n, int k, void* stream) {
  using namespace gemmd::hopper::quant;
  const ReferenceParams params = {static_cast<const std::uint16_t*>(a),
                                  static_cast<const std::uint16_t*>(values),
                                  static_cast<const float*>(scales),
                                  static_cast<const float*>(tensor_scale),
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
int quant_gemm(int kernel, int tiling, int is_f16, int format, const void* a, const void* codes,
               const void* scales, const void* zeros, const void* tensor_scale, void* d, int m,
               int n, int k, void* stream) {
  using namespace gemmd::hopper::quant;
  static Launch* const kKernels[][10] = {
      {LaunchFew<0>, LaunchFew<1>, LaunchFew<2>, LaunchFew<3>, LaunchFew<4>, LaunchFew<5>,
       LaunchFew<6>, LaunchFew<7>, LaunchFew<8>, LaunchFew<9>},
      {LaunchWide<0>, LaunchWide<1>, LaunchWide<2>, LaunchWide<3>, LaunchWide<4>, LaunchWide<5>}};
  const Call call = {is_f16, format, m, n, k, stream};
  gemmd::Arguments arguments;
  arguments.a = a;
  arguments.b = codes;
  arguments.b_scales = scales;
  arguments.b_zero_points = zeros;
  arguments.b_tensor_scale = static_cast<const float*>(tensor_scale);
  arguments.d = d;
  arguments.b_is_settled = true;
  return Said(kKernels[kernel][tiling](ProblemOf(call), arguments, TargetOf(stream)));
}
}
