// The cases that the tests of few and of many rows share.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "kernels/hopper/quant/packed.h"
#include "tests/kernels/hopper/quant/quant_planes.h"

namespace gemmd::testing {

// Expects that a launch reports nothing and leaves each bit of the model's D and nothing else.
// `launch`: of a LaunchTarget.
template <class Launch>
void ExpectBitsOfTheModel(QuantRun* run, const Launch& launch, const emulator::Options& options) {
  const emulator::Report report = QuantRun::RunIn(launch, options);
  ASSERT_EQ(report.message, "");
  EXPECT_EQ(run->CountWrong(), 0);
  EXPECT_TRUE(run->d_plane.IsPaddingUntouched());
}

// Calls expect(case) for the case in every layout of its format, with every kind of scale.
template <class Expect>
void ForEveryLayout(QuantCase c, const Expect& expect) {
  constexpr DataType kOutputs[] = {DataType::kBf16, DataType::kF16, DataType::kF32};
  constexpr ScalesOf kScales[] = {ScalesOf::kGroups, ScalesOf::kBlocks, ScalesOf::kLines,
                                  ScalesOf::kAll};
  const bool is_int4 = c.b == DataType::kInt4;
  const bool is_int8 = c.b == DataType::kInt8;
  const bool has_two_terms = c.has_two_terms();
  for (unsigned which = 0; which < 24; ++which) {
    c.d = kOutputs[which % 3];
    c.b_is_k_major = (which & 1) != 0;
    c.d_order = (which & 2) != 0 ? Order::kColumnMajor : Order::kRowMajor;
    c.b_is_settled = which % 5 != 0;
    c.has_nan = which % 3 == 1;
    c.has_any_scale = (which & 4) != 0;
    if (c.is_e2m1()) {
      if (which == 12) break;
    } else {
      c.a = (which & 4) != 0 ? DataType::kF16 : DataType::kBf16;
      c.has_zero_points = c.is_integer() && !c.has_offsets && (which & 8) != 0;
      c.has_bf16_scales = which % 5 < 2;
      if (c.has_float_scales() && c.group_k == 128) c.scales_of = kScales[which / 2 % 4];
      if (is_int8) c.b = which % 7 < 4 ? DataType::kUint8 : DataType::kInt8;
      if (has_two_terms) c.b = which % 7 < 3 ? DataType::kBnbFp4 : DataType::kNf4;
      if (is_int4) c.b = which % 7 < 3 ? DataType::kUint4 : DataType::kInt4;
    }
    SCOPED_TRACE(which);
    expect(c);
  }
}

inline std::string FormatName(hopper::quant::CodeFormat format) {
  const QuantCase c = CaseOf(format, 1, 64, 128);
  if (c.is_nvfp4) return "nvfp4";
  std::string name(Name(c.b));
  if (c.is_mx) return name + "_mx";
  if (c.has_offsets) name += c.has_f32_scales ? "_float_offset" : "_offset";
  if (c.has_table() && c.has_f32_scales) name += "_float";
  return c.group_k == 128 ? name : name + "_g" + std::to_string(c.group_k);
}

// Calls expect(case) for the case with an epilogue, in every type of D.
template <class Expect>
void ForEveryEpilogue(QuantCase c, const Expect& expect) {
  for (const DataType type : {DataType::kBf16, DataType::kF16, DataType::kF32}) {
    c.d = type;
    c.epilogue = {0.5, -1.5, true, Activation::kRelu};
    expect(c);
  }
}

}  // namespace gemmd::testing
