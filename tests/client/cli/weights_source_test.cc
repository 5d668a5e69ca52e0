#include "client/cli/files/weights_source.h"

#include <unistd.h>

#include <string>

#include "client/cli/views/message_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/temporary_directory.h"
#include "tests/client/testing/weight_bytes.h"

namespace gemmd::cli {
namespace {

using ::gemmd::testing::SafetensorsBytes;

class WeightsSource : public ::testing::Test {
 protected:
  // "FILE" or "FILE|TENSOR", without the directory; "" where there is none.
  std::string Found(const std::string& path) const {
    const auto found = FindWeights(path);
    if (!found) return "";
    const std::string file = found->file.substr(directory_.Path("").size());
    return found->tensor ? file + "|" + *found->tensor : file;
  }

  testing::TemporaryDirectory directory_;
  const std::string bytes_ = SafetensorsBytes({{"w", "U8", "[1,1]", "x"}});
};

TEST_F(WeightsSource, ATensorStandsBehindAColon) {
  const std::string path = directory_.File("a", bytes_);
  EXPECT_EQ(Found(path), "a");
  EXPECT_EQ(Found(path + ":w"), "a|w");
  EXPECT_EQ(Found(path + ":"), "a|");
  EXPECT_EQ(Found(path + ":v:w"), "a|v:w");
  EXPECT_EQ(Found(directory_.Path("missing")), "");
  EXPECT_EQ(Found(directory_.Path("missing:w")), "");
  EXPECT_FALSE(FindWeights(""));
  EXPECT_FALSE(FindWeights(":w"));
}

TEST_F(WeightsSource, AFileWithAColonGoesBeforeATensor) {
  static_cast<void>(directory_.File("a", bytes_));
  const std::string path = directory_.File("a:w", bytes_);
  EXPECT_EQ(Found(path), "a:w");
  EXPECT_EQ(Found(path + ":w"), "a:w|w");
}

TEST_F(WeightsSource, OtherFilesAreLeftToTheirReaders) {
  EXPECT_EQ(Found(directory_.File("n", "\x93NUMPY\x01 and so on")), "");
  EXPECT_EQ(Found(directory_.File(
                "c", SafetensorsBytes({{"data", "U8", "[1,1]", "x"}}, R"({"gemmd.version":"1"})"))),
            "");
  EXPECT_EQ(Found(directory_.File("x.gq", bytes_)), "");
  // The reader of weights says what is wrong with it.
  EXPECT_EQ(Found(directory_.File("s", testing::SafetensorsOf("{\"", ""))), "s");
}

TEST_F(WeightsSource, NamesAreShownInPrintableCharacters) {
  EXPECT_EQ(Shown("blk.0 weight"), "blk.0 weight");
  EXPECT_EQ(Shown("a\x1b[2Jb"), "\"a\\x1b[2Jb\"");
  EXPECT_EQ(Shown("caf\xc3\xa9"), "\"caf\\xc3\\xa9\"");
  EXPECT_THAT(Shown(std::string(129, 'x')), ::testing::HasSubstr("(129 bytes)"));
}

TEST_F(WeightsSource, AFileThatIsCutEndsTheProcessWithALine) {
  const std::string path =
      directory_.File("a", SafetensorsBytes({{"w", "U8", "[1000,100]", std::string(100000, 'x')}}));
  const auto read_of_cut_file = [&path] {
    std::shared_ptr<const client::WeightFile> file;
    if (OpenWeights(path, file)) ::_exit(1);
    if (::truncate(path.c_str(), 100) != 0) ::_exit(1);
    ::_exit(file->tensors()[0].bytes.view().back() == 'x' ? 0 : 2);
  };
  EXPECT_EXIT(read_of_cut_file(), ::testing::ExitedWithCode(3), "a file of weights was cut");
}

}  // namespace
}  // namespace gemmd::cli
