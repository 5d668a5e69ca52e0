// The emulator gives the bits that a GPU gave: recorded_sm90.txt says which GPU, and when.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "tests/kernels/conformance/recording.h"

namespace gemmd::conformance {
namespace {

// All of what is quick; of wgmma, a block of each class for every shape. The whole, of an hour and
// a half, is `conformance_emulated replay`.
Extent ExtentOf(const VectorSet& set) {
  return absl::StartsWith(set.name, "wgmma") ? Extent::kFirstBlocks : Extent::kAll;
}

Recording Recorded() {
  std::ifstream file("tests/kernels/conformance/recorded_sm90.txt");
  std::stringstream text;
  text << file.rdbuf();
  const absl::StatusOr<Recording> recording = ParseRecording(text.str());
  EXPECT_TRUE(recording.ok()) << recording.status();
  return recording.ok() ? *recording : Recording();
}

class Conformance : public ::testing::TestWithParam<VectorSet> {};

TEST_P(Conformance, EqualsTheRecording) {
  static const auto* const recording = new Recording(Recorded());
  EXPECT_EQ(ReplaySet(GetParam(), *recording, ExtentOf(GetParam()), EmulatedMemory().get()), "")
      << "recorded on " << recording->head;
}

INSTANTIATE_TEST_SUITE_P(, Conformance, ::testing::ValuesIn(EmulatedVectorSets()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace gemmd::conformance
