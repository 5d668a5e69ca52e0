// Every step of ladder D in the emulator: each bit of D, on whole and ragged shapes, and where
// tiles and columns lie.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/workshop/blackwell_mxfp8/ladder_d_launch.h"
#include "kernels/workshop/model/wave_arithmetic.h"
#include "tests/kernels/mma/mx_run.h"
#include "tests/testing/products/exact_product.h"

namespace gemmd::testing {
namespace {

// Steps as they are where products are large, on products that are not.
struct LargeD8 : blackwell_mxfp8::D8 {
  static constexpr int kLargeFrom = 1;
};
struct LargeD10 : blackwell_mxfp8::D10 {
  static constexpr int kLargeFrom = 1;
};
struct LargeD11 : blackwell_mxfp8::D11 {
  static constexpr int kLargeFrom = 1;
};
struct LargeD12 : blackwell_mxfp8::D12 {
  static constexpr int kLargeFrom = 1;
};
struct LargeD14 : blackwell_mxfp8::D14 {
  static constexpr int kLargeFrom = 1;
};
struct Step {
  const char* name;
  MxLaunch* launch;
};

std::ostream& operator<<(std::ostream& out, const Step& step) { return out << step.name; }

const Step kSteps[] = {
    {"d0", blackwell_mxfp8::LaunchLadderD<blackwell_mxfp8::D0>},
    {"d1", blackwell_mxfp8::LaunchLadderD<blackwell_mxfp8::D1>},
    {"d2", blackwell_mxfp8::LaunchLadderD<blackwell_mxfp8::D2>},
    {"d3", blackwell_mxfp8::LaunchLadderD<blackwell_mxfp8::D3>},
    {"d4", blackwell_mxfp8::LaunchLadderD<blackwell_mxfp8::D4>},
    {"d5", blackwell_mxfp8::LaunchLadderD<blackwell_mxfp8::D5>},
    {"d6", blackwell_mxfp8::LaunchLadderD<blackwell_mxfp8::D6>},
    {"d7", blackwell_mxfp8::LaunchLadderD<blackwell_mxfp8::D7>},
    {"d7_evict_first", blackwell_mxfp8::LaunchLadderD<blackwell_mxfp8::D7EvictFirst>},
    {"d8", blackwell_mxfp8::LaunchLadderD<blackwell_mxfp8::D8>},
    {"d8_large", blackwell_mxfp8::LaunchLadderD<LargeD8>},
    {"d9", blackwell_mxfp8::LaunchLadderD<blackwell_mxfp8::D9>},
    {"d10", blackwell_mxfp8::LaunchLadderD<blackwell_mxfp8::D10>},
    {"d10_large", blackwell_mxfp8::LaunchLadderD<LargeD10>},
    {"d11", blackwell_mxfp8::LaunchLadderD<blackwell_mxfp8::D11>},
    {"d11_large", blackwell_mxfp8::LaunchLadderD<LargeD11>},
    {"d12", blackwell_mxfp8::LaunchLadderD<blackwell_mxfp8::D12>},
    {"d12_large", blackwell_mxfp8::LaunchLadderD<LargeD12>},
    {"d7_any_hilbert", blackwell_mxfp8::LaunchLadderD<blackwell_mxfp8::D7AnyHilbert>},
    {"d9_boxes", blackwell_mxfp8::LaunchLadderD<blackwell_mxfp8::D9Boxes>},
    {"d13", blackwell_mxfp8::LaunchLadderD<blackwell_mxfp8::D13>},
    {"d14", blackwell_mxfp8::LaunchLadderD<blackwell_mxfp8::D14>},
    {"d14_large", blackwell_mxfp8::LaunchLadderD<LargeD14>},
    {"d15", blackwell_mxfp8::LaunchLadderD<blackwell_mxfp8::D15>},
};

constexpr DataType kE4m3 = DataType::kFp8E4M3;
constexpr DataType kE5m2 = DataType::kFp8E5M2;
const MxCase kCases[] = {
    {{256, 256, 256}},
    {{512, 256, 384}},
    {{300, 200, 173}, kE4m3, kE5m2, 3, 1},  // every edge ragged, D's rows aligned to nothing
    {{1, 132, 40}, kE5m2, kE4m3, 4},        // N ends in a whole unit of 16 bytes
};
// Five tiles of 256x256 on two pairs: each accumulator is taken again.
const MxCase kManyTiles = {{256, 1280, 64}};
// Ten tiles of 256x256 on two pairs, with more stages than a ring has.
const MxCase kFiveTilesAPair = {{512, 1280, 256}};

// The bits of a case, computed once for all steps of a process.
const std::vector<float>& ExpectedOf(const MxCase& each) {
  static auto* const all = new std::map<std::string, std::vector<float>>();
  std::ostringstream name;
  name << each;
  auto [found, is_new] = all->try_emplace(name.str());
  if (is_new) {
    const MxOperands operands(each);
    found->second = MxProduct(operands.a, operands.b);
  }
  return found->second;
}

class LadderD : public ::testing::TestWithParam<Step> {};

TEST_P(LadderD, GivesEveryBitOfTheProduct) {
  for (const MxCase& each : kCases) {
    EXPECT_EQ(RunMx(GetParam().launch, each, {}, ExpectedOf(each)), "") << each;
  }
}

TEST_P(LadderD, RaisesNothingHoweverCopiesLand) {
  for (const emulator::Landing landing :
       {emulator::Landing::kEager, emulator::Landing::kLazy, emulator::Landing::kRandom}) {
    emulator::Options options;
    options.landing = landing;
    options.seed = 7;
    EXPECT_EQ(RunMx(GetParam().launch, kManyTiles, options, ExpectedOf(kManyTiles)), "");
  }
}

// One step of each form: with arrays and without overlap, with shared scales, with TMA's stores,
// with fewer slots than stages, with halves of tiles, with elected threads.
class LadderDSeeds : public ::testing::TestWithParam<Step> {};

TEST_P(LadderDSeeds, RaiseNothing) {
  const MxCase each = {{200, 700, 264}, kE5m2, kE4m3};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    emulator::Options options;
    options.seed = seed;
    ASSERT_EQ(RunMx(GetParam().launch, each, options, ExpectedOf(each)), "") << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, LadderDSeeds,
                         ::testing::Values(kSteps[0], kSteps[4], kSteps[14], kSteps[16], kSteps[19],
                                           kSteps[22]),
                         [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(AllSteps, LadderD, ::testing::ValuesIn(kSteps),
                         [](const auto& info) { return std::string(info.param.name); });

// Each step on the shapes of the first test and on five tiles a pair, as many seeds as the
// environment says: too long for each build. README.md has what 20 gave.
TEST_P(LadderD, RaisesNothingOnAsManySeedsAsAsked) {
  const char* const seeds = std::getenv("GEMMD_LADDER_D_SEEDS");
  if (seeds == nullptr) GTEST_SKIP() << "GEMMD_LADDER_D_SEEDS is not set";
  for (const MxCase& each : {kCases[0], kCases[1], kFiveTilesAPair}) {
    for (int seed = 1; seed <= std::atoi(seeds); ++seed) {
      emulator::Options options;
      options.seed = static_cast<std::uint64_t>(seed);
      options.landing = emulator::Landing::kRandom;
      ASSERT_EQ(RunMx(GetParam().launch, each, options, ExpectedOf(each)), "")
          << each << ", seed " << seed;
    }
  }
}

TEST(LadderDTiles, FiveAPairGiveTheSameBits) {
  for (const Step& step : kSteps) {
    const std::string name = step.name;
    if (name != "d1" && name != "d9" && name != "d11" && name != "d12" &&
        name != "d7_any_hilbert") {
      continue;
    }
    EXPECT_EQ(RunMx(step.launch, kFiveTilesAPair, {}, ExpectedOf(kFiveTilesAPair)), "") << name;
  }
}

// The registry's bound, with the sum of all products' magnitudes for the largest one.
TEST(LadderDNumerics, BitsAreWithinTheirBound) {
  for (const MxCase& each : kCases) {
    const MxOperands operands(each);
    const ExactProductResult exact = ExactProduct(operands.a.View(), operands.b.View());
    const std::vector<float>& bits = ExpectedOf(each);
    const std::int64_t blocks = (each.shape.k + 31) / 32;
    for (std::size_t i = 0; i < bits.size(); ++i) {
      ASSERT_LE(std::fabs(bits[i] - exact.d[i]),
                static_cast<double>(blocks) * (33 * 0x1p-25 + 0x1p-23) * exact.magnitude[i])
          << each << ", element " << i;
    }
  }
}

// ------------------------------------------------------------ orders and layouts

// mma/tile_order_test has the curve itself.
TEST(TileOrders, TheCurveIsForSquaresOfAPowerOfTwo) {
  const auto is_hilbert = [](std::int64_t m, std::int64_t n, std::int64_t k) {
    const Problem problem = MakeProblem(m, n, k, kE4m3, DataType::kF32, false, true);
    const auto tiles = [](std::int64_t size) { return static_cast<std::uint32_t>(size / 256); };
    return std::vector<bool>{
        blackwell_mxfp8::IsHilbert<blackwell_mxfp8::D5>(problem, tiles(m), tiles(n)),
        blackwell_mxfp8::IsHilbert<blackwell_mxfp8::D6>(problem, tiles(m), tiles(n)),
        blackwell_mxfp8::IsHilbert<blackwell_mxfp8::D8>(problem, tiles(m), tiles(n)),
        blackwell_mxfp8::IsHilbert<blackwell_mxfp8::D7AnyHilbert>(problem, tiles(m), tiles(n))};
  };
  EXPECT_EQ(is_hilbert(4096, 4096, 4096), (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(is_hilbert(8192, 8192, 8192), (std::vector<bool>{false, true, true, true}));
  EXPECT_EQ(is_hilbert(8192, 8192, 4096), (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(is_hilbert(8192, 4096, 8192), (std::vector<bool>{false, false, false, true}));
  EXPECT_EQ(is_hilbert(768, 768, 256), (std::vector<bool>{false, false, false, true}));
  EXPECT_EQ(is_hilbert(256 << 15, 256 << 15, 256), (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(is_hilbert(256 << 16, 256 << 16, 256), (std::vector<bool>{false, false, false, false}));
}

// Other ways to lay out what d9 keeps beside its stages: two buffers of 16 KB cost a stage of 256
// of K, unless stages are of 128.
struct TwoLargeBoxes : blackwell_mxfp8::D9 {
  static constexpr int kBoxes = 2;
};
struct ShortStages : TwoLargeBoxes {
  static constexpr int kTileK = 128;
};

template <class Step, bool kTensorStores>
void ExpectLayout(int stages, int shared_bytes, int columns) {
  using Layout = blackwell_mxfp8::LadderDLayout<Step, kTensorStores>;
  EXPECT_EQ(int{Layout::kStages}, stages) << Step::kName;
  EXPECT_EQ(int{Layout::kSharedBytes}, shared_bytes) << Step::kName;
  EXPECT_EQ(int{Layout::kColumns}, columns) << Step::kName;
  EXPECT_TRUE(Layout::kFits) << Step::kName;
}

TEST(LadderDLayouts, FitInSharedAndTensorMemory) {
  ExpectLayout<blackwell_mxfp8::D0, false>(8, 204984, 320);
  ExpectLayout<blackwell_mxfp8::D1, false>(6, 205976, 456);
  ExpectLayout<blackwell_mxfp8::D2, false>(6, 205976, 456);
  ExpectLayout<blackwell_mxfp8::D3, false>(3, 205928, 456);
  ExpectLayout<blackwell_mxfp8::D8, false>(3, 205928, 456);
  ExpectLayout<blackwell_mxfp8::D9, true>(3, 222312, 456);
  ExpectLayout<blackwell_mxfp8::D9Boxes, true>(3, 222312, 456);
  ExpectLayout<TwoLargeBoxes, true>(2, 170072, 432);
  ExpectLayout<ShortStages, true>(5, 204424, 444);
  // Slots of scales for two of three stages.
  ExpectLayout<blackwell_mxfp8::D11, false>(3, 205928, 496);
  ExpectLayout<blackwell_mxfp8::D11, true>(3, 222312, 496);
  ExpectLayout<blackwell_mxfp8::D14, true>(3, 222312, 456);
  using D3 = blackwell_mxfp8::LadderDLayout<blackwell_mxfp8::D3, false>;
  EXPECT_EQ(D3::kStageBytes, 68608u);
}

// Two whole accumulators of 256 columns leave no room for scales.
struct NaiveD1 : blackwell_mxfp8::D1 {
  static constexpr const char* kName = "d1 without overlap";
  static constexpr int kOverlap = 0;
};
struct NaiveD3 : blackwell_mxfp8::D3 {
  static constexpr const char* kName = "d3 without overlap";
  static constexpr int kOverlap = 0;
};

TEST(LadderDLayouts, NaiveOnesAreRefusedByName) {
  const MxCase each = {{1, 1, 1}};
  EXPECT_EQ(RunMx(blackwell_mxfp8::LaunchLadderD<NaiveD1>, each, {}),
            "INVALID_ARGUMENT: d1 without overlap: its layout takes 524 columns of tensor memory, "
            "512 are there");
  EXPECT_EQ(RunMx(blackwell_mxfp8::LaunchLadderD<NaiveD3>, each, {}),
            "INVALID_ARGUMENT: d3 without overlap: its layout takes 536 columns of tensor memory, "
            "512 are there");
}

// d12's arithmetic. At 2048 cubed 64 tiles are less than a wave whose halves would be 1.73; at 8192
// cubed the last of 13.84 waves is too full.
TEST(LadderDWaves, TheLastOneIsCutWhereItsHalvesFitOne) {
  EXPECT_EQ(blackwell_mxfp8::WholeTiles(256, 74), 3 * 74);
  EXPECT_EQ(blackwell_mxfp8::WholeTiles(64, 74), 64);
  EXPECT_EQ(blackwell_mxfp8::WholeTiles(1024, 74), 1024);
  EXPECT_EQ(blackwell_mxfp8::WholeTiles(4096, 74), 55 * 74);
  EXPECT_EQ(blackwell_mxfp8::WholeTiles(74 + 37, 74), 74);
  EXPECT_EQ(blackwell_mxfp8::WholeTiles(74 + 38, 74), 74 + 38);
  EXPECT_EQ(blackwell_mxfp8::WholeTiles(30, 74), 0);
  EXPECT_EQ(blackwell_mxfp8::WholeTiles(148, 74), 148);
  // The model plays what the kernel does.
  for (int tiles = 1; tiles < 500; ++tiles) {
    EXPECT_EQ(blackwell_mxfp8::WholeTiles(tiles, 74) < tiles, model::NarrowTailPays(tiles, 74))
        << tiles;
  }
}

// Halves in either accumulator, whole tiles before them or not; N that ends in a first half, so
// that the second has no columns, and in a second one; rows aligned to nothing.
TEST(LadderDHalves, GiveEveryBit) {
  const MxCase cases[] = {{{256, 256, 128}},
                          {{256, 90, 160}},
                          {{200, 1100, 96}, kE5m2, kE4m3},
                          {{100, 700, 300}, kE4m3, kE5m2, 3, 1},
                          {{700, 250, 64}}};
  for (const MxCase& each : cases) {
    for (const Step& step : {kSteps[16], kSteps[17]}) {
      for (std::uint64_t seed = 1; seed <= 2; ++seed) {
        emulator::Options options;
        options.seed = seed;
        EXPECT_EQ(RunMx(step.launch, each, options, ExpectedOf(each)), "")
            << step << " " << each << ", seed " << seed;
      }
    }
  }
}

// Shared memory of threads alone: what d9's boxes cost.
TEST(LadderDBanks, NoStepHasConflicts) {
  for (const Step& step : {kSteps[1], kSteps[11], kSteps[19]}) {
    MxOperands operands(MxCase{{256, 256, 32}});
    emulator::Session session;
    session.options.count_bank_conflicts = true;
    LaunchTarget target;
    target.emulator = &session;
    ASSERT_TRUE(step.launch(operands.MakeProblem(), operands.MakeArguments(), target).ok());
    EXPECT_EQ(session.report.statistics.extra_wavefronts(), 0u) << step;
  }
}

}  // namespace
}  // namespace gemmd::testing
