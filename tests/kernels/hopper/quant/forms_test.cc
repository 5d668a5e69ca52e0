// The tiling that serves a problem, and its expected time.
#include "kernels/hopper/quant/forms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/hopper/quant/zero_kind.h"
#include "tests/kernels/hopper/quant/quant_planes.h"

namespace gemmd::testing {
namespace {

using hopper::quant::CodeFormat;
using hopper::quant::ConfigOf;
using hopper::quant::Form;
using hopper::quant::FormKind;
using hopper::quant::FormsOf;
using hopper::quant::QuickestForm;
using hopper::quant::Takes;

DeviceTraits H100() {
  DeviceTraits traits;
  traits.kind = DeviceKind::kCuda;
  traits.compute_capability = 90;
  traits.compute_units = 132;
  traits.memory_gbps = 3084;
  return traits;
}

Problem Of(std::int64_t m, std::int64_t n, std::int64_t k) { return MakeQuantProblem({m, n, k}); }

Problem OfMxfp4(std::int64_t m, std::int64_t n, std::int64_t k) {
  QuantCase c = {m, n, k};
  c.b = DataType::kFp4E2M1;
  return MakeQuantProblem(c);
}

constexpr CodeFormat kFormats[] = {CodeFormat::kInteger, CodeFormat::kE2m1};

std::string NameOf(const Form& form) {
  const char* const kind = form.kind == FormKind::kFew     ? "f"
                           : form.kind == FormKind::kChain ? "c"
                                                           : "w";
  return absl::StrCat(kind, form.tiling);
}

TEST(Forms, HaveConfigsOfTheirOwn) {
  for (const CodeFormat format : kFormats) {
    for (const Form& x : FormsOf(format)) {
      for (const Form& y : FormsOf(format)) EXPECT_EQ(ConfigOf(x) == ConfigOf(y), x == y);
    }
  }
}

TEST(Forms, TakeEveryProblem) {
  DeviceTraits emulated;
  emulated.kind = DeviceKind::kEmulated;
  for (std::int64_t m = 1; m < 3000; m += 1 + m / 5) {
    for (std::int64_t n = 1; n < 9000; n += 1 + n / 3) {
      for (const DeviceTraits& device : {H100(), emulated}) {
        for (const Problem& problem : {Of(m, n, 256), OfMxfp4(m, n, 256)}) {
          EXPECT_TRUE(Takes(QuickestForm(problem, device), problem));
        }
      }
    }
  }
}

// Those that an H100 took least time with, or at most 5 % more.
TEST(Forms, AreThoseThatWereMeasuredAsQuickest) {
  const std::pair<Problem, std::vector<std::string>> cases[] = {
      {Of(1, 4096, 4096), {"f0", "f1"}},    {Of(1, 8192, 8192), {"f0", "f2"}},
      {Of(1, 28672, 8192), {"f0"}},         {Of(8, 8192, 8192), {"f2"}},
      {Of(16, 8192, 8192), {"f3"}},         {Of(16, 28672, 8192), {"w5"}},
      {Of(32, 8192, 8192), {"w0"}},         {Of(32, 28672, 8192), {"w1"}},
      {Of(64, 8192, 8192), {"w0"}},         {Of(64, 28672, 8192), {"w1"}},
      {Of(256, 8192, 8192), {"w2"}},        {Of(1024, 8192, 8192), {"w3", "w4"}},
      {Of(4096, 4096, 4096), {"w3", "w4"}}, {Of(4096, 8192, 8192), {"w3", "w4"}},
      {OfMxfp4(1, 4096, 4096), {"c0"}},     {OfMxfp4(1, 8192, 8192), {"c0"}},
      {OfMxfp4(1, 28672, 8192), {"c0"}},    {OfMxfp4(8, 8192, 8192), {"c1"}},
      {OfMxfp4(16, 8192, 8192), {"c2"}},    {OfMxfp4(16, 28672, 8192), {"c2"}},
      {OfMxfp4(64, 8192, 8192), {"w0"}},    {OfMxfp4(64, 28672, 8192), {"w1"}},
      {OfMxfp4(256, 8192, 8192), {"w2"}},   {OfMxfp4(4096, 8192, 8192), {"w3", "w4"}}};
  for (const auto& [problem, quickest] : cases) {
    const std::string chosen = NameOf(QuickestForm(problem, H100()));
    EXPECT_TRUE(std::find(quickest.begin(), quickest.end(), chosen) != quickest.end())
        << ToString(problem) << " is given " << chosen;
  }
}

TEST(Forms, TakeNoLessForMore) {
  for (const CodeFormat format : kFormats) {
    const auto of = format == CodeFormat::kInteger ? Of : OfMxfp4;
    for (const Form& form : FormsOf(format)) {
      const std::int64_t m = form.kind == FormKind::kWide ? 64 : 1;
      const double us = PredictedUs(form, of(m, 8192, 8192), H100());
      EXPECT_LE(us, PredictedUs(form, of(m, 16384, 8192), H100())) << NameOf(form);
      EXPECT_LE(us, PredictedUs(form, of(m, 8192, 16384), H100())) << NameOf(form);
    }
  }
}

}  // namespace
}  // namespace gemmd::testing
