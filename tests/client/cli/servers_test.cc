// gemm over several real servers.
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/testing/npy_bytes.h"
#include "tests/client/testing/subprocess.h"
#include "tests/client/testing/temporary_directory.h"
#include "tests/testing/server_process.h"

namespace gemmd::cli {
namespace {

class ServersCommand : public ::testing::Test {
 protected:
  std::string both() const { return one_.address() + "," + two_.address(); }
  testing::ProcessResult Gemm(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "client/cli/gemm");
    return testing::RunProcess(arguments, {"GEMMD_SERVER=" + both()});
  }
  nlohmann::json Json(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "--json");
    const testing::ProcessResult result = Gemm(std::move(arguments));
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return nlohmann::json::parse(result.output);
  }

  testing::ServerProcess one_{{"--cpu.threads=1"}};
  testing::ServerProcess two_{{"--cpu.threads=1"}};
  testing::TemporaryDirectory directory_;
  const std::string a_ = directory_.File(
      "a.npy", testing::NpyBytes(testing::NpyDictionaryText("|i1", "(2, 2)"), "aaaa"));
};

TEST_F(ServersCommand, ShowsWhoHoldsAMatrixAndProductsGoThere) {
  const std::string handle = Json({"put", a_, "--name", "w"})["residents"][0]["handle"];
  const nlohmann::json shown = Json({"servers"});
  ASSERT_EQ(shown["servers"].size(), 2u);
  EXPECT_EQ(shown["servers"][0]["address"], one_.address());
  EXPECT_EQ(shown["servers"][1]["state"], "serving");
  ASSERT_EQ(shown["matrices"].size(), 1u);
  EXPECT_EQ(shown["matrices"][0]["names"][0], "w");
  const std::string holder = shown["matrices"][0]["servers"][0];
  for (const std::string& name : {std::string("@w"), "@" + handle}) {
    const nlohmann::json product = Json({"matmul", a_, name});
    EXPECT_EQ(product["client"]["server"], holder);
    EXPECT_EQ(product["client"]["refills"], 0);
  }
  const testing::ProcessResult table = Gemm({"servers"});
  EXPECT_NE(table.output.find(holder + "  @"), std::string::npos) << table.output;
  EXPECT_EQ(Gemm({"rm", "@w"}).exit_code, 0);
  EXPECT_TRUE(Json({"servers"})["matrices"].empty());
}

TEST_F(ServersCommand, AServerThatIsAwayIsShownAndPassed) {
  one_.Signal(SIGKILL);
  one_.WaitForExit();
  const nlohmann::json shown = Json({"servers"});
  EXPECT_EQ(shown["servers"][0]["state"], "UNAVAILABLE");
  EXPECT_EQ(shown["servers"][1]["state"], "serving");
  EXPECT_EQ(Json({"matmul", a_, a_})["client"]["server"], two_.address());
  two_.Signal(SIGKILL);
  two_.WaitForExit();
  EXPECT_EQ(Gemm({"servers"}).exit_code, 5);
}

TEST_F(ServersCommand, ListsAreCheckedAndTellingCommandsWantOne) {
  for (const char* command : {"info", "stats", "top", "kernels", "bench"}) {
    const testing::ProcessResult result = Gemm({command});
    EXPECT_EQ(result.exit_code, 2) << command;
    EXPECT_NE(result.error.find("is about one server, and --server names 2: " + both()),
              std::string::npos)
        << result.error;
  }
  for (const char* command : {"info", "servers", "ls"}) {
    const testing::ProcessResult result = Gemm({"--servers", "a:1,,b", command});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.error.find("entry 2 of --server is \"\""), std::string::npos) << result.error;
  }
}

}  // namespace
}  // namespace gemmd::cli
