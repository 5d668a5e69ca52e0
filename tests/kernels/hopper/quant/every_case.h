// The cases that the tests of few and of many rows share.
#pragma once

#include <gtest/gtest.h>

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

// Calls expect(case) for the case in every format and layout.
template <class Expect>
void ForEveryFormatAndLayout(QuantCase c, const Expect& expect) {
  for (int which = 0; which < 32; ++which) {
    c.a = (which & 1) != 0 ? DataType::kF16 : DataType::kBf16;
    c.b = (which & 2) != 0 ? DataType::kUint4 : DataType::kInt4;
    c.has_zero_points = (which & 4) != 0;
    c.b_is_k_major = (which & 8) != 0;
    c.d_order = (which & 16) != 0 ? Order::kColumnMajor : Order::kRowMajor;
    c.d = which % 3 == 0 ? DataType::kF32 : c.a;
    c.b_is_settled = which % 5 != 0;
    SCOPED_TRACE(which);
    expect(c);
  }
}

// Cases of mxfp4, in its layouts.
template <class Expect>
void ForEveryLayoutOfMxfp4(QuantCase c, const Expect& expect) {
  c.b = DataType::kFp4E2M1;
  constexpr DataType kOutputs[] = {DataType::kBf16, DataType::kF16, DataType::kF32};
  for (int which = 0; which < 12; ++which) {
    c.d = kOutputs[which % 3];
    c.b_is_k_major = (which & 1) != 0;
    c.d_order = (which & 2) != 0 ? Order::kColumnMajor : Order::kRowMajor;
    c.has_any_scale = (which & 4) != 0;
    c.b_is_settled = which % 5 != 0;
    SCOPED_TRACE(which);
    expect(c);
  }
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
