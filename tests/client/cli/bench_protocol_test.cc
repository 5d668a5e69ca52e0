// gemm bench --protocol against a real server.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/client/testing/subprocess.h"
#include "tests/client/testing/temporary_directory.h"
#include "tests/testing/server_process.h"

namespace gemmd::cli {
namespace {

using ::testing::HasSubstr;

class BenchProtocolTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new testing::ServerProcess({"--cpu.threads=1"}); }
  static void TearDownTestSuite() { delete std::exchange(server_, nullptr); }

  // `gemm bench` of so many requests that are all due at once.
  testing::ProcessResult Bench(int requests, const std::vector<std::string>& more) const {
    std::string schedule;
    for (int i = 0; i < requests; ++i) absl::StrAppend(&schedule, "0\n");
    std::vector<std::string> words = {"client/cli/gemm", "bench", "--replay",
                                      directory_.File("t", schedule), "-q"};
    words.insert(words.end(), more.begin(), more.end());
    return testing::RunProcess(words, {"GEMMD_SERVER=" + server_->address()});
  }

  // The report of products that were all right.
  nlohmann::json Verified(int requests, std::vector<std::string> more) const {
    more.insert(more.end(), {"--json", "--verify-fraction", "1"});
    const testing::ProcessResult result = Bench(requests, more);
    EXPECT_EQ(result.exit_code, 0) << result.error << result.output;
    auto report = nlohmann::json::parse(result.output, nullptr, /*allow_exceptions=*/false);
    EXPECT_EQ(report["points"][0]["ok"], requests);
    EXPECT_EQ(report["points"][0]["verified"], requests);
    EXPECT_EQ(report["points"][0]["wrong"], 0);
    return report;
  }

  static testing::ServerProcess* server_;
  testing::TemporaryDirectory directory_;
};

testing::ServerProcess* BenchProtocolTest::server_ = nullptr;

TEST_F(BenchProtocolTest, ProductsOfEveryTypeAreRight) {
  for (const char* type : {"f64", "f32", "f16", "bf16", "int8"}) {
    for (const char* operands : {"inline", "resident-b"}) {
      for (const char* call : {"unary", "stream"}) {
        SCOPED_TRACE(absl::StrCat(type, " ", operands, " ", call));
        std::vector<std::string> words = {"--protocol", "oip",    "-s", "9x20x33",    "--type",
                                          type,         "--call", call, "--operands", operands};
        Verified(12, words);
        words.emplace_back("--transpose-b");
        Verified(12, words);
      }
    }
  }
}

TEST_F(BenchProtocolTest, AQuantizedOperandThatStaysIsAModel) {
  for (const char* type : {"a=bf16,b=mxfp4", "a=f32,b=int4-g32-f16", "a=f16,b=int8-row"}) {
    SCOPED_TRACE(type);
    Verified(8, {"--protocol", "oip", "-s", "3x64x64", "--type", type, "--operands", "resident-b"});
  }
}

TEST_F(BenchProtocolTest, OptionsOfTheProductGoAlong) {
  Verified(8, {"--protocol", "oip", "--priority", "high", "--determinism", "fast", "--output-type",
               "f32", "--type", "bf16", "--kernel", "cpu/panel_bf16", "-s", "8x8x8"});
  const testing::ProcessResult result =
      Bench(8, {"--protocol", "oip", "--kernel", "cpu/imagined", "-s", "8x8x8"});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.output, HasSubstr("this server has no kernel of that name"));
}

TEST_F(BenchProtocolTest, TheReportHasTheStagesOfMatmuls) {
  for (const char* call : {"unary", "stream"}) {
    const auto report =
        Verified(20, {"--protocol", "oip", "-s", "64x64x64", "--call", call, "--ceiling"});
    EXPECT_EQ(report["server"]["protocol"], "oip");
    const auto& stages = report["points"][0]["stage_mean_us"];
    for (const char* stage : {"server decode", "queue", "compute", "network and wire"}) {
      EXPECT_GT(stages[stage], 0) << stage;
    }
    EXPECT_FALSE(report["points"][0]["batch_requests"].empty());
    EXPECT_GT(report["ceiling"]["requests_per_s"], 0);
  }
}

TEST_F(BenchProtocolTest, ProtocolsTakeTurns) {
  const testing::ProcessResult result =
      Bench(20, {"--json", "--protocol", "gemmd,oip", "-s", "16x16x16", "--rounds", "5",
                 "--operands", "resident-b", "--verify-fraction", "1"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  const auto report = nlohmann::json::parse(result.output, nullptr, false);
  ASSERT_EQ(report["points"].size(), 2U);
  EXPECT_EQ(report["options"]["rounds"], 5);
  const std::string second = server_->address() + " oip";
  EXPECT_EQ(report["points"][0]["server"], server_->address());
  EXPECT_EQ(report["points"][1]["server"], second);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(report["points"][i]["ok"], 100);
    EXPECT_EQ(report["points"][i]["verified"], 100);
    EXPECT_EQ(report["servers"][i]["protocol"], i == 0 ? "gemmd" : "oip");
  }
  EXPECT_EQ(report["comparisons"][0]["before"], server_->address());
  EXPECT_EQ(report["comparisons"][0]["after"], second);
}

TEST_F(BenchProtocolTest, WhatCannotBeSaidIsRefusedByName) {
  const auto why = [this](const std::vector<std::string>& words) {
    const testing::ProcessResult result = Bench(1, words);
    EXPECT_EQ(result.exit_code, 2) << result.output;
    return result.error;
  };
  EXPECT_THAT(why({"--protocol", "http"}), HasSubstr("--protocol"));
  EXPECT_THAT(why({"--protocol", "oip", "--operands", "resident"}),
              HasSubstr("operands is \"resident\"; with --protocol=oip it must be inline"));
  EXPECT_THAT(why({"--protocol", "gemmd,oip", "--call", "auto"}), HasSubstr("call is \"auto\""));
  EXPECT_THAT(why({"--protocol", "gemmd,oip", "--ceiling"}), HasSubstr("drop --slo"));
  EXPECT_THAT(why({"--protocol", "gemmd,oip", "--find-knee"}), HasSubstr("drop --slo"));
  EXPECT_THAT(why({"--protocol", "oip", "--rounds", "5"}), HasSubstr("--rounds is of --against"));
  EXPECT_THAT(why({"--protocol", "oip", "--null", "5"}), HasSubstr("--null sends bytes"));
  const std::string bad = directory_.File("w", "request { m: 1 n: 1 k: 1 type: 'tf32' }");
  const testing::ProcessResult file = Bench(1, {"--protocol", "oip", "--workload", bad});
  EXPECT_EQ(file.exit_code, 3);
  EXPECT_THAT(file.error, HasSubstr(bad + ": request 1: type is \"tf32\""));
}

}  // namespace
}  // namespace gemmd::cli
