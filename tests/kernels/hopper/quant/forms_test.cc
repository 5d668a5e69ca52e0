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

using hopper::quant::ConfigOf;
using hopper::quant::Form;
using hopper::quant::Forms;
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

std::string NameOf(const Form& form) { return absl::StrCat(form.is_few ? "f" : "w", form.tiling); }

TEST(Forms, HaveConfigsOfTheirOwn) {
  for (const Form& x : Forms()) {
    for (const Form& y : Forms()) EXPECT_EQ(ConfigOf(x) == ConfigOf(y), x == y);
  }
}

TEST(Forms, TakeEveryProblem) {
  DeviceTraits emulated;
  emulated.kind = DeviceKind::kEmulated;
  for (std::int64_t m = 1; m < 3000; m += 1 + m / 5) {
    for (std::int64_t n = 1; n < 9000; n += 1 + n / 3) {
      for (const DeviceTraits& device : {H100(), emulated}) {
        EXPECT_TRUE(Takes(QuickestForm(Of(m, n, 256), device), Of(m, n, 256)));
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
      {Of(4096, 4096, 4096), {"w3", "w4"}}, {Of(4096, 8192, 8192), {"w3", "w4"}}};
  for (const auto& [problem, quickest] : cases) {
    const std::string chosen = NameOf(QuickestForm(problem, H100()));
    EXPECT_TRUE(std::find(quickest.begin(), quickest.end(), chosen) != quickest.end())
        << ToString(problem) << " is given " << chosen;
  }
}

TEST(Forms, TakeNoLessForMore) {
  for (const Form& form : Forms()) {
    const std::int64_t m = form.is_few ? 1 : 64;
    EXPECT_LE(PredictedUs(form, Of(m, 8192, 8192), H100()),
              PredictedUs(form, Of(m, 16384, 8192), H100()))
        << NameOf(form);
    EXPECT_LE(PredictedUs(form, Of(m, 8192, 8192), H100()),
              PredictedUs(form, Of(m, 8192, 16384), H100()))
        << NameOf(form);
  }
}

}  // namespace
}  // namespace gemmd::testing
