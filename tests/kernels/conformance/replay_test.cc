// The emulator gives the bits that a GPU gave: the recording, whose path is this test's argument,
// says which GPU, and when.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "tests/kernels/conformance/recording.h"

namespace gemmd::conformance {
namespace {

// All of what is quick; of wgmma and tcgen05, a block of each class for every shape. The whole, of
// some hours, is `conformance_emulated replay`.
Extent ExtentOf(const VectorSet& set) {
  const bool is_long = absl::StartsWith(set.name, "wgmma") || absl::StartsWith(set.name, "tcgen05");
  return is_long ? Extent::kFirstBlocks : Extent::kAll;
}

absl::StatusOr<Recording> Recorded(const char* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return ParseRecording(text.str());
}

class Conformance : public ::testing::Test {
 public:
  Conformance(const Recording* recording, VectorSet set)
      : recording_(*recording), set_(std::move(set)) {}

  void TestBody() override {
    EXPECT_EQ(ReplaySet(set_, recording_, ExtentOf(set_), EmulatedMemory().get()), "")
        << "recorded on " << recording_.head;
  }

 private:
  const Recording& recording_;
  const VectorSet set_;
};

int Run(const char* path) {
  const absl::StatusOr<Recording> recording = Recorded(path);
  const absl::optional<Card> card = recording.ok() ? CardOf(recording->head) : absl::nullopt;
  if (!card.has_value()) {
    std::fprintf(stderr, "%s is no recording of a card\n", path);
    return 1;
  }
  for (const VectorSet& set : EmulatedVectorSets(*card)) {
    ::testing::RegisterTest(
        "Conformance", set.name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
        [&recording, set]() -> Conformance* { return new Conformance(&*recording, set); });
  }
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace gemmd::conformance

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return gemmd::conformance::Run(argc == 2 ? argv[1] : "");
}
