// The kernels of kernels/hopper/quant behind a C interface, for check_bench.py: packing, products
// by kernel and tiling (quant_products.cu), and a reference that sums in their order by plain
// mma.sync.
#include "kernels/hopper/quant/float_rows_launch.h"
#include "kernels/hopper/quant/packing_launch.h"
#include "tests/kernels/hopper/quant/gpu/quant_products.h"

namespace gemmd::hopper::quant {
namespace {

// A format of B, and a row of FORMATS in tilings.py each.
struct Format {
  DataType type;
  DataType scale_type;
  std::uint16_t scale_k;
  bool has_zero_points = false;
  bool has_tensor_scale = false;
  bool has_offsets = false;
};
constexpr Format kFormats[] = {
    {DataType::kUint4, DataType::kF16, 128},
    {DataType::kInt4, DataType::kF16, 128},
    {DataType::kInt4, DataType::kF16, 128, true},
    {DataType::kFp4E2M1, DataType::kE8M0, 32},
    {DataType::kFp4E2M1, DataType::kFp8E4M3, 16, false, true},
    {DataType::kInt8, DataType::kF32, 128},
    {DataType::kInt8, DataType::kF32, 128, true},
    {DataType::kInt8, DataType::kF32, kWhole},
    {DataType::kFp8E4M3, DataType::kF32, 128},
    {DataType::kInt4, DataType::kF16, 32},
    {DataType::kUint4, DataType::kBf16, 32, true},
    {DataType::kInt4, DataType::kF16, 64},
    {DataType::kUint4, DataType::kBf16, 64, true},
    {DataType::kInt8, DataType::kF32, 32},
    {DataType::kUint8, DataType::kF32, 32, true},
    {DataType::kInt8, DataType::kF32, 64},
    {DataType::kUint8, DataType::kF32, 64, true},
    {DataType::kUint8, DataType::kF32, 128},
    {DataType::kFp8E5M2, DataType::kF32, 128},
    {DataType::kFp8E4M3, DataType::kE8M0, 32},
    {DataType::kFp8E5M2, DataType::kE8M0, 32},
    {DataType::kFp6E3M2, DataType::kE8M0, 32},
    {DataType::kFp6E2M3, DataType::kE8M0, 32},
    {DataType::kUint4, DataType::kF16, 128, false, false, true},
    {DataType::kUint4, DataType::kBf16, 64, false, false, true},
    {DataType::kUint4, DataType::kF16, 32, false, false, true},
    {DataType::kUint4, DataType::kF32, 32, false, false, true},
    {DataType::kUint8, DataType::kF32, 32, false, false, true},
    {DataType::kNf4, DataType::kF32, 64},
    {DataType::kBnbFp4, DataType::kF32, 64},
    {DataType::kIq4Nl, DataType::kF16, 32},
    {DataType::kIq4Nl, DataType::kF32, 32},
};

// The types of A and D, by their place in TYPES of check_bench.py.
struct Types {
  DataType a;
  DataType d;
};
constexpr Types kTypes[] = {{DataType::kBf16, DataType::kBf16},
                            {DataType::kF16, DataType::kF16},
                            {DataType::kF32, DataType::kF32},
                            {DataType::kBf16, DataType::kF32}};

// A product as Python's call states it.
struct Call {
  int types;   // its place in kTypes
  int format;  // of B: its place in kFormats
  int m;
  int n;
  int k;
  void* stream;
};

Problem ProblemOf(const Call& call) {
  const Types& types = kTypes[call.types];
  const Format& format = kFormats[call.format];
  Problem problem;
  problem.m = call.m;
  problem.n = call.n;
  problem.k = call.k;
  problem.a = {types.a, call.m, call.k, Order::kRowMajor, call.k};
  problem.b = {format.type, call.n, call.k, Order::kRowMajor, call.k};
  problem.transpose_b = true;
  problem.d = {types.d, call.m, call.n, Order::kRowMajor, call.n};
  problem.c = problem.d;
  problem.b_scaling.has_scales = true;
  problem.b_scaling.block_lines = 1;
  problem.b_scaling.type = format.scale_type;
  problem.b_scaling.block_k = format.scale_k;
  problem.b_scaling.has_zero_points = format.has_zero_points;
  problem.b_scaling.has_tensor_scale = format.has_tensor_scale;
  problem.b_scaling.has_offsets = format.has_offsets;
  return problem;
}

// D of codes' values: a warp for 16 rows of A by eight lines, a group of 128 at a time, in parts if
// scales are of less, or, without scales, one chain.
struct ReferenceParams {
  const std::uint16_t* a;
  const std::uint16_t* values;
  const std::uint16_t* rests;  // what values leave of their numbers, or null
  const float* scales;         // lines x K / scale_k, or null
  const float* offsets;        // likewise
  int scale_k;                 // at most 128
  const float* tensor_scale;   // or null
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
  float group[4] = {};
  float sums[4] = {};
  float rows[4] = {};
  constexpr std::uint32_t kOnes[2] = {Rows::kOneBits * 0x00010001, Rows::kOneBits * 0x00010001};
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
    if (params.rests != nullptr) {
      const std::uint32_t rest[2] = {pair(params.rests, of_line, 0, 1),
                                     pair(params.rests, of_line + 8, 0, 1)};
      Rows::Multiply(sums, a, rest);
    }
    Rows::Multiply(rows, a, kOnes);
    if (params.scales == nullptr || (first + kStepK) % params.scale_k != 0) continue;
    const bool is_whole = params.scale_k == kGroupK && params.offsets == nullptr;
    for (int i = 0; i < 4; ++i) {
      const std::int64_t of = std::int64_t{line + lane % 4 * 2 + i % 2};
      const std::int64_t at = of * (params.k / params.scale_k) + first / params.scale_k;
      float& sum = is_whole ? total[i] : group[i];
      sum = std::fma(params.scales[at], sums[i], sum);
      if (params.offsets != nullptr) sum = std::fma(params.offsets[at], rows[i], sum);
      sums[i] = 0;
      rows[i] = 0;
      if (is_whole || (first + kStepK) % kGroupK != 0) continue;
      total[i] += group[i];
      group[i] = 0;
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

// Null where the library was built without the format, or the format has no such tiling.
Launch* ProductFor(CodeFormat format, int kernel, int tiling) {
  switch (format) {
#define QUANT_CASE(of) \
  case CodeFormat::of: \
    return ProductOf<CodeFormat::of>(kernel, tiling);
    QUANT_FORMATS
#undef QUANT_CASE
    default:
      return nullptr;
  }
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

int quant_reference(int is_f16, const void* a, const void* values, const void* rests,
                    const void* scales, const void* offsets, const void* tensor_scale, int scale_k,
                    void* d, int m, int n, int k, void* stream) {
  using namespace gemmd::hopper::quant;
  const ReferenceParams params = {static_cast<const std::uint16_t*>(a),
                                  static_cast<const std::uint16_t*>(values),
                                  static_cast<const std::uint16_t*>(rests),
                                  static_cast<const float*>(scales),
                                  static_cast<const float*>(offsets),
                                  scale_k,
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

// kernel: 0 for few rows, 1 for many. workspace: where B has offsets, as many f32 as 128 more rows
// than A's have parts of 32 of K; for rows of f32, at most kFloatRowsAtOnce, as for three times as
// many of bf16, behind these and their products.
int quant_gemm(int kernel, int tiling, int types, int format, const void* a, const void* codes,
               const void* scales, const void* zeros, const void* offsets, const void* tensor_scale,
               void* workspace, void* d, int m, int n, int k, void* stream) {
  using namespace gemmd::hopper::quant;
  const Call call = {types, format, m, n, k, stream};
  gemmd::Arguments arguments;
  arguments.a = a;
  arguments.b = codes;
  arguments.b_scales = scales;
  arguments.b_zero_points = zeros;
  arguments.b_offsets = offsets;
  arguments.workspace = workspace;
  arguments.b_tensor_scale = static_cast<const float*>(tensor_scale);
  arguments.d = d;
  arguments.b_is_settled = true;
  const gemmd::Problem problem = ProblemOf(call);
  Launch* const launch = ProductFor(CodeFormatOf(problem), kernel, tiling);
  if (launch == nullptr) return Said(absl::InvalidArgumentError("the library has no such form"));
  const gemmd::LaunchTarget target = TargetOf(stream);
  if (problem.a.type != gemmd::DataType::kF32) return Said(launch(problem, arguments, target));
  const gemmd::Problem parts = ProductOfParts(problem);
  gemmd::Arguments of_parts = arguments;
  of_parts.a = workspace;
  of_parts.d = static_cast<std::uint8_t*>(workspace) + PlacesOfParts(parts).sums;
  of_parts.workspace = static_cast<std::uint8_t*>(workspace) + PlacesOfParts(parts).row_sums;
  return Said(LaunchSplitRows(problem, arguments, target)) | Said(launch(parts, of_parts, target)) |
         Said(LaunchAddRows(problem, arguments, target));
}
}
