// The tiling that serves a problem, and its expected time.
#include "kernels/hopper/quant/forms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/hopper/quant/packed_places.h"
#include "tests/kernels/hopper/quant/every_case.h"

namespace gemmd::testing {
namespace {

using hopper::quant::CodeFormat;
using hopper::quant::ConfigOf;
using hopper::quant::Form;
using hopper::quant::FormKind;
using hopper::quant::FormsOf;
using hopper::quant::kCodeFormats;
using hopper::quant::QuickestForm;
using hopper::quant::Takes;

DeviceTraits H200() {
  DeviceTraits traits;
  traits.kind = DeviceKind::kCuda;
  traits.compute_capability = 90;
  traits.compute_units = 132;
  traits.memory_gbps = 4814;
  return traits;
}

Problem Of(CodeFormat format, std::int64_t m, std::int64_t n, std::int64_t k) {
  return MakeQuantProblem(CaseOf(format, m, n, k));
}
constexpr CodeFormat kInt4 = CodeFormat::kInt4;
constexpr CodeFormat kMxfp4 = CodeFormat::kMxfp4;
constexpr CodeFormat kNvfp4 = CodeFormat::kNvfp4;
constexpr CodeFormat kInt8 = CodeFormat::kInt8;
constexpr CodeFormat kInt4G32 = CodeFormat::kInt4G32;
constexpr CodeFormat kInt8G32 = CodeFormat::kInt8G32;
constexpr CodeFormat kNf4 = CodeFormat::kTableG64Float;
constexpr CodeFormat kIq4Nl = CodeFormat::kIq4NlG32;

std::string NameOf(const Form& form) {
  return absl::StrCat(form.kind == FormKind::kFew ? "f" : "w", form.tiling);
}

TEST(Forms, HaveConfigsOfTheirOwn) {
  for (const CodeFormat format : kCodeFormats) {
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
      for (const DeviceTraits& device : {H200(), emulated}) {
        for (const CodeFormat b : kCodeFormats) {
          const Problem problem = Of(b, m, n, 256);
          EXPECT_TRUE(Takes(QuickestForm(problem, device), problem));
        }
      }
    }
  }
}

// Those that an H200 took least time with, or at most 5 % more.
TEST(Forms, AreThoseThatWereMeasuredAsQuickest) {
  const std::pair<Problem, std::vector<std::string>> cases[] = {
      {Of(kInt4, 1, 1024, 8192), {"f2"}},
      {Of(kInt4, 1, 4096, 4096), {"f1"}},
      {Of(kInt4, 1, 8192, 8192), {"f0", "f1"}},
      {Of(kInt4, 1, 28672, 8192), {"f0"}},
      {Of(kInt4, 8, 1024, 8192), {"f6"}},
      {Of(kInt4, 8, 8192, 8192), {"f4"}},
      {Of(kInt4, 16, 8192, 8192), {"f7", "f8"}},
      {Of(kInt4, 16, 28672, 8192), {"w5"}},
      {Of(kInt4, 64, 8192, 8192), {"w0"}},
      {Of(kInt4, 64, 28672, 8192), {"w1"}},
      {Of(kInt4, 256, 8192, 8192), {"w2"}},
      {Of(kInt4, 1024, 8192, 8192), {"w3", "w4"}},
      {Of(kInt4G32, 1, 1024, 8192), {"f2"}},
      {Of(kInt4G32, 1, 4096, 4096), {"f1"}},
      {Of(kInt4G32, 1, 8192, 8192), {"f1"}},
      {Of(kInt4G32, 1, 28672, 8192), {"f0", "f1"}},
      {Of(kInt4G32, 8, 1024, 8192), {"f5"}},
      {Of(kInt4G32, 8, 8192, 8192), {"f4"}},
      {Of(kInt4G32, 16, 8192, 8192), {"f6"}},
      {Of(kInt4G32, 16, 28672, 8192), {"w3"}},
      {Of(kInt4G32, 64, 8192, 8192), {"w0"}},
      {Of(kInt4G32, 64, 28672, 8192), {"w1"}},
      {Of(kInt4G32, 256, 8192, 8192), {"w2"}},
      {Of(kInt4G32, 4096, 8192, 8192), {"w2"}},
      {Of(kInt8G32, 1, 1024, 8192), {"f2"}},
      {Of(kInt8G32, 1, 4096, 4096), {"f1"}},
      {Of(kInt8G32, 1, 8192, 8192), {"f1"}},
      {Of(kInt8G32, 1, 28672, 8192), {"f0", "f1"}},
      {Of(kInt8G32, 16, 8192, 8192), {"f4"}},
      {Of(kInt8G32, 64, 28672, 8192), {"w1"}},
      {Of(kMxfp4, 1, 8192, 8192), {"f0"}},
      {Of(kMxfp4, 1, 28672, 8192), {"f0"}},
      {Of(kMxfp4, 8, 8192, 8192), {"f1"}},
      {Of(kMxfp4, 16, 8192, 8192), {"f2"}},
      {Of(kMxfp4, 64, 8192, 8192), {"w0"}},
      {Of(kMxfp4, 64, 28672, 8192), {"w1"}},
      {Of(kMxfp4, 256, 8192, 8192), {"w2"}},
      {Of(kMxfp4, 4096, 8192, 8192), {"w2", "w3", "w4"}},
      {Of(kNvfp4, 1, 8192, 8192), {"f0"}},
      {Of(kNvfp4, 1, 28672, 8192), {"f0"}},
      {Of(kNvfp4, 8, 8192, 8192), {"f1"}},
      {Of(kNvfp4, 16, 28672, 8192), {"f2"}},
      {Of(kNvfp4, 64, 8192, 8192), {"w0"}},
      {Of(kNvfp4, 64, 28672, 8192), {"w1"}},
      {Of(kNvfp4, 256, 8192, 8192), {"w2"}},
      {Of(kNvfp4, 4096, 8192, 8192), {"w2", "w3", "w4"}},
      {Of(kInt8, 1, 1024, 8192), {"f2"}},
      {Of(kInt8, 1, 4096, 4096), {"f1"}},
      {Of(kInt8, 1, 8192, 8192), {"f0", "f1", "f3", "f4"}},
      {Of(kInt8, 8, 8192, 8192), {"f4", "f5"}},
      {Of(kInt8, 16, 8192, 8192), {"f6", "f7"}},
      {Of(kInt8, 16, 28672, 8192), {"w5"}},
      {Of(kInt8, 64, 8192, 8192), {"w0"}},
      {Of(kInt8, 64, 28672, 8192), {"w1"}},
      {Of(kInt8, 256, 8192, 8192), {"w2"}},
      {Of(kInt8, 4096, 8192, 8192), {"w2", "w3", "w4"}},
      {Of(kNf4, 1, 1024, 8192), {"f2"}},
      {Of(kNf4, 1, 4096, 4096), {"f0"}},
      {Of(kNf4, 1, 8192, 8192), {"f0", "f1", "f3"}},
      {Of(kNf4, 1, 28672, 8192), {"f0", "f1"}},
      {Of(kNf4, 8, 8192, 8192), {"f4"}},
      {Of(kNf4, 16, 8192, 8192), {"f7"}},
      {Of(kNf4, 64, 8192, 8192), {"w0"}},
      {Of(kNf4, 64, 28672, 8192), {"w1"}},
      {Of(kNf4, 256, 8192, 8192), {"w2"}},
      {Of(kIq4Nl, 1, 1024, 8192), {"f2"}},
      {Of(kIq4Nl, 1, 4096, 4096), {"f0"}},
      {Of(kIq4Nl, 1, 8192, 8192), {"f1", "f3"}},
      {Of(kIq4Nl, 8, 4096, 4096), {"f5"}},
      {Of(kIq4Nl, 16, 8192, 8192), {"f7"}},
      {Of(kIq4Nl, 32, 8192, 28672), {"w0"}},
      {Of(kIq4Nl, 64, 28672, 8192), {"w1"}},
      {Of(kIq4Nl, 4096, 8192, 8192), {"w2"}}};
  for (const auto& [problem, quickest] : cases) {
    const std::string chosen = NameOf(QuickestForm(problem, H200()));
    EXPECT_TRUE(std::find(quickest.begin(), quickest.end(), chosen) != quickest.end())
        << ToString(problem) << " is given " << chosen;
  }
}

TEST(Forms, TakeNoLessForMore) {
  for (const CodeFormat b : kCodeFormats) {
    for (const Form& form : FormsOf(b)) {
      const std::int64_t m = form.kind == FormKind::kWide ? 64 : 1;
      const double us = PredictedUs(form, Of(b, m, 8192, 8192), H200());
      EXPECT_LE(us, PredictedUs(form, Of(b, m, 16384, 8192), H200())) << NameOf(form);
      EXPECT_LE(us, PredictedUs(form, Of(b, m, 8192, 16384), H200())) << NameOf(form);
    }
  }
}

}  // namespace
}  // namespace gemmd::testing
