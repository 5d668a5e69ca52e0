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

TEST_F(ServersCommand, AProductIsSplitAndHasTheBitsOfOneServers) {
  std::string bytes(1024 * 1024, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 % 251);
  const auto file = [&](const std::string& name, std::size_t rows) {
    const std::string shape = "(" + std::to_string(rows) + ", 1024)";
    return directory_.File(name, testing::NpyBytes(testing::NpyDictionaryText("|i1", shape),
                                                   bytes.substr(0, rows * 1024)));
  };
  const std::string a = file("rows.npy", 256);
  const std::string b = file("square.npy", 1024);
  const std::string whole = directory_.Path("whole.npy");
  const std::string split = directory_.Path("split.npy");
  EXPECT_EQ(Json({"matmul", a, b, "-o", whole}).count("parts"), 0u);
  const nlohmann::json report = Json({"matmul", a, b, "--split", "-o", split});
  EXPECT_EQ(testing::FileBytes(split), testing::FileBytes(whole));
  ASSERT_EQ(report["parts"].size(), 2u);
  EXPECT_EQ(report["parts"][0]["rows"], nlohmann::json({0, 128}));
  EXPECT_EQ(report["parts"][0]["client"]["server"], one_.address());
  EXPECT_EQ(report["parts"][1]["client"]["server"], two_.address());
  EXPECT_EQ(report["parts"][1]["receipt"]["numerics_id"], report["numerics_id"]);
  EXPECT_EQ(report["d"]["rows"], 256);
  const testing::ProcessResult table = Gemm({"matmul", a, b, "--split"});
  for (const std::string& part :
       {"128-256  " + two_.address(), std::string("0-128    "), std::string("0.537 GFLOP in ")}) {
    EXPECT_NE(table.output.find(part), std::string::npos) << table.output;
  }
  // A small one goes to one of them.
  EXPECT_EQ(Json({"matmul", a_, a_, "--split"})["parts"].size(), 1u);
}

TEST_F(ServersCommand, WhatCannotBeSplitIsRefused) {
  const auto refused = [&](std::vector<std::string> arguments, const std::string& why) {
    arguments.insert(arguments.begin(), {"matmul", a_});
    arguments.emplace_back("--split");
    const testing::ProcessResult result = Gemm(arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.error.find("--split: " + why), std::string::npos) << result.error;
  };
  refused({"@w"}, "b is a name, which one server has");
  refused({a_, "--keep"}, "D is to stay on a server");
  refused({a_, "--determinism", "fast"}, "determinism is fast");
  refused({a_, "--output-order", "column-major"}, "output_order is column_major");
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
