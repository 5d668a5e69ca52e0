// Every form of every format in the emulator: each bit of D is that of the model, whatever shape,
// layout and scale.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/hopper/quant/forms.h"
#include "kernels/hopper/quant/tilings.h"
#include "tests/kernels/emulator/shape.h"
#include "tests/kernels/hopper/quant/entries.h"
#include "tests/kernels/hopper/quant/every_case.h"
#include "tests/kernels/hopper/quant/quant_planes.h"

namespace gemmd::testing {
namespace {

using hopper::quant::CodeFormat;
using hopper::quant::ConfigOf;
using hopper::quant::FewTilingOf;
using hopper::quant::Form;
using hopper::quant::FormKind;
using hopper::quant::FormsOf;
using hopper::quant::kCodeFormats;
using hopper::quant::Takes;
using hopper::quant::WideTiling;
using hopper::quant::WideTilingOf;

std::vector<Form> AllForms() {
  std::vector<Form> all;
  for (const CodeFormat format : kCodeFormats) {
    for (const Form& form : FormsOf(format)) all.push_back(form);
  }
  return all;
}

std::string NameOf(const Form& form) {
  return absl::StrCat(FormatName(form.format), form.kind == FormKind::kFew ? "_few_" : "_wide_",
                      form.tiling);
}

// The case with M and N such that the form takes it.
QuantCase Fitted(const Form& form, QuantCase c) {
  if (form.kind == FormKind::kFew) {
    c.m = std::min<std::int64_t>(c.m, FewTilingOf(form.format, form.tiling).rows);
    return c;
  }
  const WideTiling tiling = WideTilingOf(form.format, form.tiling);
  const std::int64_t lines = 64 * tiling.groups * tiling.line_blocks * tiling.cluster;
  c.n = (c.n + lines - 1) / lines * lines - c.n % 3;
  return c;
}

void ExpectEveryBit(const Form& form, const QuantCase& c, const emulator::Options& options) {
  QuantRun run(Fitted(form, c));
  Problem problem = run.problem;
  problem.b_packing = Packing::kStrips;
  ASSERT_TRUE(Takes(form, problem));
  ExpectBitsOfTheModel(
      &run,
      [&](const LaunchTarget& target) {
        return KernelOf(form.format).Launch(problem, ConfigOf(form), run.MakeArguments(), target);
      },
      options);
}

class Product : public ::testing::TestWithParam<std::tuple<Form, Shape>> {};

TEST_P(Product, GivesEveryBitOfTheModel) {
  const auto& [form, shape] = GetParam();
  const QuantCase c = CaseOf(form.format, shape.m, shape.n, shape.k);
  for (const emulator::Landing landing : {emulator::Landing::kLazy, emulator::Landing::kRandom}) {
    emulator::Options options;
    options.landing = landing;
    ExpectEveryBit(form, c, options);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Product,
                         ::testing::Combine(::testing::ValuesIn(AllForms()),
                                            ::testing::Values(Shape{1, 1, 64},    // almost nothing
                                                              Shape{1, 64, 128},  // one unit
                                                              Shape{11, 130, 704},  // no tile whole
                                                              Shape{70, 33, 1856},
                                                              // Rings go round.
                                                              Shape{8, 64, 6208})),
                         [](const auto& info) {
                           const Shape& shape = std::get<1>(info.param);
                           return absl::StrCat(NameOf(std::get<0>(info.param)), "_", shape.m, "x",
                                               shape.n, "x", shape.k);
                         });

class EachForm : public ::testing::TestWithParam<Form> {};

TEST_P(EachForm, TakesEveryTypeLayoutAndScale) {
  const QuantCase c =
      CaseOf(GetParam().format, GetParam().kind == FormKind::kFew ? 3 : 33, 72, 704);
  ForEveryLayout(c, [](const QuantCase& each) { ExpectEveryBit(GetParam(), each, {}); });
}

TEST_P(EachForm, FusesTheEpilogue) {
  const QuantCase c = CaseOf(GetParam().format, 35, 70, 256);
  ForEveryEpilogue(c, [](const QuantCase& each) { ExpectEveryBit(GetParam(), each, {}); });
}

TEST_P(EachForm, RaisesNothingOnAnySeed) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    emulator::Options options;
    options.seed = seed;
    options.landing = seed > 7 ? emulator::Landing::kLazy : emulator::Landing::kRandom;
    const QuantCase c = CaseOf(GetParam().format, static_cast<std::int64_t>(seed * 5), 64,
                               seed % 4 == 0 ? 6400 : 128 * static_cast<std::int64_t>(seed));
    ExpectEveryBit(GetParam(), c, options);
  }
}

INSTANTIATE_TEST_SUITE_P(All, EachForm, ::testing::ValuesIn(AllForms()),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace gemmd::testing
