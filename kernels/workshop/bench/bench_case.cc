#include "kernels/workshop/bench/bench_case.h"

#include <algorithm>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/math.h"
#include "kernels/padded_line.h"

namespace gemmd::bench {
namespace {

using cublaslt::Arithmetic;

constexpr std::int64_t kLargestExtent = 1 << 20;

struct Table {
  const char* name;
  std::vector<Shape> shapes;
};

const std::vector<Table>& Tables() {
  static const auto* const tables = new std::vector<Table>{
      {"ladder", {{4096, 4096, 4096}, {8192, 8192, 8192}, {1023, 4095, 4097}}},
      {"hopper",
       {{512, 512, 512},
        {1024, 1024, 1024},
        {2048, 2048, 2048},
        {4096, 4096, 4096},
        {8192, 8192, 8192},
        {16384, 16384, 16384},
        {128, 8192, 28672},
        {256, 7168, 4096},
        {512, 8192, 8192},
        {4096, 4096, 7168},
        {4096, 24576, 1536},
        {4096, 7168, 16384},
        {4096, 32768, 512},
        {1023, 4095, 4097},
        {300, 300, 300},
        {77, 1000, 4111}}},
      {"decode",
       {{1, 8192, 8192},
        {2, 8192, 8192},
        {4, 8192, 8192},
        {8, 8192, 8192},
        {16, 8192, 8192},
        {32, 8192, 8192},
        {64, 8192, 8192}}}};
  return *tables;
}

// Scales lie as cuBLASLt reads them.
constexpr Scaling kBlocks1x128 = {true, DataType::kF32, 1, 128, ScaleOrder::kAlongLines};
constexpr Scaling kBlocks128x128 = {true, DataType::kF32, 128, 128, ScaleOrder::kAlongK};
constexpr Scaling kMx = {true, DataType::kE8M0, 1, 32, ScaleOrder::kTiles128x4};

constexpr Types kTypes[] = {
    {"f16", DataType::kF16, DataType::kF16, DataType::kF16, DataType::kF32, Arithmetic::kF16},
    {"f16_f16", DataType::kF16, DataType::kF16, DataType::kF16, DataType::kF16, Arithmetic::kF16},
    {"f16_f32", DataType::kF16, DataType::kF16, DataType::kF32, DataType::kF32, Arithmetic::kF16},
    {"bf16", DataType::kBf16, DataType::kBf16, DataType::kBf16, DataType::kF32, Arithmetic::kBf16},
    {"bf16_f32", DataType::kBf16, DataType::kBf16, DataType::kF32, DataType::kF32,
     Arithmetic::kBf16},
    {"tf32", DataType::kTf32, DataType::kTf32, DataType::kF32, DataType::kF32, Arithmetic::kTf32},
    {"f32", DataType::kF32, DataType::kF32, DataType::kF32, DataType::kF32, Arithmetic::kF32},
    {"f64", DataType::kF64, DataType::kF64, DataType::kF64, DataType::kF64, Arithmetic::kF64},
    {"int8", DataType::kInt8, DataType::kInt8, DataType::kInt32, DataType::kInt32,
     Arithmetic::kInt8},
    {"fp8", DataType::kFp8E4M3, DataType::kFp8E4M3, DataType::kBf16, DataType::kF32,
     Arithmetic::kFp8Promoted},
    {"fp8_fast", DataType::kFp8E4M3, DataType::kFp8E4M3, DataType::kBf16, DataType::kF32,
     Arithmetic::kFp8Fast},
    {"fp8_f32", DataType::kFp8E4M3, DataType::kFp8E4M3, DataType::kF32, DataType::kF32,
     Arithmetic::kFp8Promoted},
    {"fp8_blocks", DataType::kFp8E4M3, DataType::kFp8E4M3, DataType::kBf16, DataType::kF32,
     Arithmetic::kFp8Blocks, kBlocks1x128, kBlocks128x128},
    {"fp8_1x128", DataType::kFp8E4M3, DataType::kFp8E4M3, DataType::kBf16, DataType::kF32,
     Arithmetic::kFp8Blocks, kBlocks1x128, kBlocks1x128},
    {"int8_bf16", DataType::kInt8, DataType::kInt8, DataType::kBf16, DataType::kInt32,
     Arithmetic::kInt8, Scaling::kVector, Scaling::kVector},
    {"mxfp8", DataType::kFp8E4M3, DataType::kFp8E4M3, DataType::kF32, DataType::kF32,
     Arithmetic::kFp8Promoted, kMx, kMx},
};

absl::StatusOr<Shape> ParseShape(absl::string_view item) {
  const std::vector<std::string> parts = absl::StrSplit(item, 'x');
  std::int64_t extents[3];
  bool is_right = parts.size() == 3;
  for (std::size_t i = 0; is_right && i < 3; ++i) {
    is_right =
        absl::SimpleAtoi(parts[i], &extents[i]) && extents[i] >= 1 && extents[i] <= kLargestExtent;
  }
  if (is_right) return Shape{extents[0], extents[1], extents[2]};
  std::vector<std::string> names;
  for (const Table& table : Tables()) names.emplace_back(table.name);
  return absl::InvalidArgumentError(
      absl::StrCat("shapes: \"", item, "\" is neither MxNxK, each of 1 to ", kLargestExtent,
                   ", nor one of ", absl::StrJoin(names, ", ")));
}

}  // namespace

bool operator==(const Shape& x, const Shape& y) { return x.m == y.m && x.n == y.n && x.k == y.k; }

std::string ToString(const Shape& shape) {
  return absl::StrCat(shape.m, "x", shape.n, "x", shape.k);
}

absl::StatusOr<std::vector<Shape>> ParseShapes(absl::string_view list) {
  std::vector<Shape> shapes;
  for (const absl::string_view item : absl::StrSplit(list, ',')) {
    const auto table = std::find_if(Tables().begin(), Tables().end(),
                                    [item](const Table& each) { return item == each.name; });
    if (table != Tables().end()) {
      shapes.insert(shapes.end(), table->shapes.begin(), table->shapes.end());
      continue;
    }
    const absl::StatusOr<Shape> shape = ParseShape(item);
    if (!shape.ok()) return shape.status();
    shapes.push_back(*shape);
  }
  return shapes;
}

absl::StatusOr<std::vector<Types>> ParseTypes(absl::string_view list) {
  std::vector<Types> types;
  for (const absl::string_view item : absl::StrSplit(list, ',')) {
    const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                     [item](const Types& each) { return item == each.name; });
    if (found == std::end(kTypes)) {
      const std::string names = absl::StrJoin(
          kTypes, ", ", [](std::string* out, const Types& each) { out->append(each.name); });
      return absl::InvalidArgumentError(absl::StrCat("types: \"", item, "\" is none of ", names));
    }
    types.push_back(*found);
  }
  return types;
}

std::string ToString(const Layout& layout) {
  return absl::StrCat(layout.transpose_a ? "T" : "N", layout.transpose_b ? "T" : "N");
}

absl::StatusOr<std::vector<Layout>> ParseLayouts(absl::string_view list) {
  std::vector<Layout> layouts;
  for (const absl::string_view item : absl::StrSplit(list, ',')) {
    const std::string upper = absl::AsciiStrToUpper(item);
    bool is_known = false;
    for (const Layout& layout :
         {Layout{false, false}, {false, true}, {true, false}, {true, true}}) {
      if (upper != ToString(layout)) continue;
      layouts.push_back(layout);
      is_known = true;
    }
    if (!is_known) {
      return absl::InvalidArgumentError(
          absl::StrCat("layouts: \"", item, "\" is none of NN, NT, TN, TT"));
    }
  }
  return layouts;
}

Problem MakeProblem(const Case& c) {
  Shape shape = c.shape;
  if (c.is_padded && SizeBits(c.types.a) == 8 && c.types.a_scaling.scales_whole_lines()) {
    shape.n = RoundUp(shape.n, 16);
    shape.k = RoundUp(shape.k, 16);
  }
  Problem problem = gemmd::MakeProblem(shape.m, shape.n, shape.k, c.types.a, c.types.d,
                                       c.layout.transpose_a, c.layout.transpose_b);
  problem.b.type = c.types.b;
  problem.accumulate = c.types.accumulate;
  problem.a_scaling = c.types.a_scaling;
  problem.b_scaling = c.types.b_scaling;
  problem.determinism = Determinism::kFast;
  if (!c.is_padded) return problem;
  for (MatrixLayout* layout : {&problem.a, &problem.b, &problem.c, &problem.d}) {
    layout->leading_dimension = PaddedLine(*layout);
  }
  return problem;
}

std::uint64_t ScaleBytes(const Scaling& scaling, std::int64_t lines, std::int64_t k) {
  return static_cast<std::uint64_t>(scaling.count(lines, k) * SizeBits(scaling.type) / 8);
}

}  // namespace gemmd::bench
