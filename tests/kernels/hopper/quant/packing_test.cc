// Weights are packed as packed.h says, byte for byte, whatever their layout, and come back as they
// were.
#include "kernels/hopper/quant/packing.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/kernels/hopper/quant/every_case.h"
#include "tests/kernels/hopper/quant/quant_planes.h"

namespace gemmd::testing {
namespace {

struct PlaneCase {
  WeightPlane plane;
  const Bytes* sent;
  std::uint64_t sent_bytes;
  const Bytes* packed;
};

void ExpectPlane(const Problem& problem, const PlaneCase& c) {
  const std::uint64_t bytes = PackedBytes(problem, c.plane);
  Bytes packed(static_cast<std::int64_t>(bytes));
  const emulator::Report report = QuantRun::RunIn(
      [&](const LaunchTarget& target) {
        return PackPlane(problem, c.plane, c.sent->data(), packed.data(), target);
      },
      {});
  ASSERT_EQ(report.message, "");
  EXPECT_EQ(std::memcmp(packed.data(), c.packed->data(), bytes), 0);

  // In parts of uneven sizes, over what may lie there.
  Bytes sent(static_cast<std::int64_t>(c.sent_bytes));
  const std::uint64_t piece_bytes = PackedPieceBytes(problem, c.plane);
  const auto pieces = static_cast<std::int64_t>(bytes / piece_bytes);
  for (std::int64_t first = 0, count = 1; first < pieces; first += count, count += 2) {
    count = std::min(count, pieces - first);
    UnpackPieces(problem, c.plane, first, count,
                 packed.data() + static_cast<std::uint64_t>(first) * piece_bytes, sent.data());
  }
  EXPECT_EQ(std::memcmp(sent.data(), c.sent->data(), c.sent_bytes), 0);
}

TEST(Packing, GivesEveryByteAndTakesItBack) {
  constexpr std::int64_t kSizes[][2] = {{64, 256}, {200, 192}, {1, 64}};
  for (const hopper::quant::CodeFormat format : hopper::quant::kCodeFormats) {
    for (const auto& [n, k] : kSizes) {
      SCOPED_TRACE(FormatName(format));
      ForEveryLayout(CaseOf(format, 1, n, k), [](const QuantCase& c) {
        QuantRun run(c);
        const auto scales = static_cast<std::uint64_t>(run.scale_count);
        ExpectPlane(run.problem, {WeightPlane::kCodes, &run.codes, run.problem.b.size_bytes(),
                                  &run.packed_codes});
        ExpectPlane(run.problem,
                    {WeightPlane::kScales, &run.scales,
                     scales * static_cast<std::uint64_t>(run.ScaleSize()), &run.packed_scales});
        if (c.has_offsets) {
          ExpectPlane(run.problem,
                      {WeightPlane::kOffsets, &run.offsets,
                       scales * static_cast<std::uint64_t>(run.ScaleSize()), &run.packed_offsets});
        }
        if (!c.has_zero_points) return;
        ExpectPlane(run.problem, {WeightPlane::kZeroPoints, &run.zeros, scales, &run.packed_zeros});
      });
    }
  }
}

// The last columns of a B, whose packed scales lie right behind those that were sent.
TEST(Packing, ReadsNoFurtherThanAPanelsOwnScales) {
  for (const bool b_is_k_major : {true, false}) {
    SCOPED_TRACE(b_is_k_major);
    QuantCase c = {1, 512, 256};
    c.b = DataType::kInt8;
    c.b_is_k_major = b_is_k_major;
    QuantRun run(c);
    Problem panel = run.problem;
    (panel.transpose_b ? panel.b.rows : panel.b.columns) = panel.n = 128;
    panel.b_scale_lines = c.n;
    constexpr std::int64_t kScaleBytes = 512 * 2 * 4;
    Bytes memory(kScaleBytes + static_cast<std::int64_t>(PackedBytes(panel, WeightPlane::kScales)));
    std::memcpy(memory.data(), run.scales.data(), kScaleBytes);
    const std::int64_t first = panel.b_scaling.index(c.n, c.k, c.n - 128, 0) * 4;
    const emulator::Report report = QuantRun::RunIn(
        [&](const LaunchTarget& target) {
          return PackPlane(panel, WeightPlane::kScales, memory.data() + first,
                           memory.data() + kScaleBytes, target);
        },
        {});
    EXPECT_EQ(report.message, "");
    const std::uint64_t at = PackedOffset(run.problem, WeightPlane::kScales, c.n - 128);
    EXPECT_EQ(std::memcmp(memory.data() + kScaleBytes, run.packed_scales.data() + at,
                          PackedBytes(panel, WeightPlane::kScales)),
              0);
  }
}

TEST(Packing, TakesAsManyBytesAsWereSent) {
  QuantCase c;
  c.n = 256;
  c.k = 640;
  c.has_zero_points = true;
  const Problem problem = MakeQuantProblem(c);
  EXPECT_EQ(PackedBytes(problem, WeightPlane::kCodes), 256 * 640 / 2);
  EXPECT_EQ(PackedBytes(problem, WeightPlane::kScales), 256 * 5 * 2);
  EXPECT_EQ(PackedBytes(problem, WeightPlane::kZeroPoints), 256 * 5);
  c.group_k = 32;
  EXPECT_EQ(PackedBytes(MakeQuantProblem(c), WeightPlane::kCodes), 256 * 640 / 2);
  EXPECT_EQ(PackedBytes(MakeQuantProblem(c), WeightPlane::kScales), 256 * 640 / 32 * 2);
  EXPECT_EQ(PackedBytes(MakeQuantProblem(c), WeightPlane::kZeroPoints), 256 * 640 / 32);
  c.group_k = 128;
  c.b = DataType::kFp4E2M1;
  c.has_zero_points = false;
  EXPECT_EQ(PackedBytes(MakeQuantProblem(c), WeightPlane::kCodes), 256 * 640 / 2);
  EXPECT_EQ(PackedBytes(MakeQuantProblem(c), WeightPlane::kScales), 256 * 640 / 32);
  c.is_nvfp4 = true;
  EXPECT_EQ(PackedBytes(MakeQuantProblem(c), WeightPlane::kScales), 256 * 640 / 16);
  c.is_nvfp4 = false;
  c.b = DataType::kFp6E3M2;
  EXPECT_EQ(PackedBytes(MakeQuantProblem(c), WeightPlane::kCodes), 256 * 640 * 6 / 8);
  c.b = DataType::kInt8;
  c.has_zero_points = true;
  EXPECT_EQ(PackedBytes(MakeQuantProblem(c), WeightPlane::kCodes), 256 * 640);
  EXPECT_EQ(PackedBytes(MakeQuantProblem(c), WeightPlane::kScales), 256 * 5 * 4);
  c.scales_of = ScalesOf::kLines;
  EXPECT_EQ(PackedBytes(MakeQuantProblem(c), WeightPlane::kScales), 256 * 4);
  EXPECT_EQ(PackedBytes(MakeQuantProblem(c), WeightPlane::kZeroPoints), 256);
  EXPECT_EQ(PackedOffset(MakeQuantProblem(c), WeightPlane::kScales, 128), 128 * 4);
  // But for scales of several lines.
  c.scales_of = ScalesOf::kBlocks;
  EXPECT_EQ(PackedBytes(MakeQuantProblem(c), WeightPlane::kScales), 256 * 5 * 4);
}

TEST(Packing, SaysWhatItDoesNotTake) {
  Problem problem = MakeQuantProblem({});
  EXPECT_EQ(PackingRejection(problem), "");
  problem.n = 31;
  EXPECT_EQ(PackingRejection(problem),
            "takes N x K that padding to 128 makes at most 4 times as large, not 31 x 128");
  problem.n = 32;
  EXPECT_EQ(PackingRejection(problem), "");
  problem.k = 100;
  EXPECT_EQ(PackingRejection(problem), "takes K that is a multiple of 64, not 100");
  problem.b_scaling.has_tensor_scale = true;
  constexpr char kOfInt4[] =
      "takes f16 or bf16 scales of 1 x 32, 1 x 64 or 1 x 128 for B of int4, not ";
  EXPECT_EQ(PackingRejection(problem), absl::StrCat(kOfInt4, "f16/1x128+tensor"));
  problem.b_scaling.has_tensor_scale = false;
  problem.b_scaling.block_k = 16;
  EXPECT_EQ(PackingRejection(problem), absl::StrCat(kOfInt4, "f16/1x16"));
  problem.b_scaling.block_k = 64;
  problem.b_scaling.block_lines = 128;
  EXPECT_EQ(PackingRejection(problem), absl::StrCat(kOfInt4, "f16/128x64"));
  problem.b_scaling.block_lines = 1;
  problem.b.type = DataType::kFp8E5M2;
  EXPECT_EQ(
      PackingRejection(problem),
      "takes f32 scales of 1 x 128, of 128 x 128 or of all of K, or e8m0 ones of 1 x 32, for B "
      "of fp8_e5m2, not f16/1x64");
  problem.b.type = DataType::kFp6E2M3;
  EXPECT_EQ(PackingRejection(problem),
            "takes e8m0 scales of 1 x 32 for B of fp6_e2m3, not f16/1x64");
  problem.b.type = DataType::kBf16;
  EXPECT_EQ(PackingRejection(problem), "takes B of quantized weights, not bf16");
  problem.b.type = DataType::kNf4;
  EXPECT_EQ(PackingRejection(problem), "takes f32 scales of 1 x 64 for B of nf4, not f16/1x64");
  problem.b.type = DataType::kIq4Nl;
  EXPECT_EQ(PackingRejection(problem),
            "takes f16, bf16 or f32 scales of 1 x 32 for B of iq4_nl, not f16/1x64");
  problem.b.type = DataType::kInt8;
  constexpr char kOfInt8[] =
      "takes f32 scales of 1 x 32, 1 x 64, 1 x 128, of 128 x 128 or of all of K for B of int8, "
      "not ";
  EXPECT_EQ(PackingRejection(problem), absl::StrCat(kOfInt8, "f16/1x64"));
  problem.b_scaling.block_k = 128;
  EXPECT_EQ(PackingRejection(problem), absl::StrCat(kOfInt8, "f16/1x128"));
  problem.a.type = DataType::kInt8;
  EXPECT_EQ(PackingRejection(problem), "takes A of f16, bf16 or f32, not int8");

  problem = MakeQuantProblem(CaseOf(hopper::quant::CodeFormat::kUint4G64Offset, 1, 64, 128));
  EXPECT_EQ(PackingRejection(problem), "");
  problem.b_scaling.type = DataType::kF32;
  EXPECT_EQ(PackingRejection(problem),
            "takes f16 or bf16 scales and offsets of 1 x 32, 1 x 64 or 1 x 128, or f32 ones of 1 x "
            "32, for B of uint4, not f32/1x64+offset");
  problem.b.type = DataType::kUint8;
  EXPECT_EQ(PackingRejection(problem),
            "takes f32 scales and offsets of 1 x 32 for B of uint8, not f32/1x64+offset");
  problem.b.type = DataType::kInt4;
  EXPECT_EQ(PackingRejection(problem), "takes offsets beside uint4 and uint8, not int4");

  QuantCase c;
  c.b = DataType::kFp4E2M1;
  problem = MakeQuantProblem(c);
  EXPECT_EQ(PackingRejection(problem), "");
  problem.a.type = DataType::kF16;
  EXPECT_EQ(PackingRejection(problem), "takes A of bf16 or f32 by B of fp4_e2m1, not f16");
  problem.b_scaling.block_k = 16;
  constexpr char kScalesTaken[] =
      "takes e8m0 scales of 1 x 32, or fp8_e4m3 ones of 1 x 16 with one of the tensor, for B of "
      "fp4_e2m1, not ";
  EXPECT_EQ(PackingRejection(problem), absl::StrCat(kScalesTaken, "e8m0/1x16"));
  c.is_nvfp4 = true;
  problem = MakeQuantProblem(c);
  EXPECT_EQ(PackingRejection(problem), "");
  problem.a.type = DataType::kF16;
  EXPECT_EQ(PackingRejection(problem), "takes A of bf16 or f32 by B of fp4_e2m1, not f16");
  problem.b_scaling.block_k = 32;
  EXPECT_EQ(PackingRejection(problem), absl::StrCat(kScalesTaken, "fp8_e4m3/1x32+tensor"));
  problem.b_scaling.block_k = 16;
  problem.b_scaling.has_tensor_scale = false;
  EXPECT_EQ(PackingRejection(problem), absl::StrCat(kScalesTaken, "fp8_e4m3/1x16"));
}

}  // namespace
}  // namespace gemmd::testing
