// gemm put, get, name, ls, rm and matmul with matrices on the server, against a real one.
#include <iterator>
#include <sstream>
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

class OperandCommands : public ::testing::Test {
 protected:
  testing::ProcessResult Gemm(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "client/cli/gemm");
    return testing::RunProcess(arguments, {"GEMMD_SERVER=" + server_.address()});
  }
  nlohmann::json Json(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "--json");
    const testing::ProcessResult result = Gemm(std::move(arguments));
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return nlohmann::json::parse(result.output);
  }
  std::string Int8File(const std::string& name, const std::string& shape,
                       const std::string& bytes) const {
    return directory_.File(name,
                           testing::NpyBytes(testing::NpyDictionaryText("|i1", shape), bytes));
  }

  testing::ServerProcess server_{{"--cpu.threads=1"}};
  testing::TemporaryDirectory directory_;
  const std::string a_ = Int8File("a.npy", "(2, 2)", std::string("\1\2\3\4", 4));
};

TEST_F(OperandCommands, MatricesWithoutElementsMultiplyAndDoNotStay) {
  const std::string a = Int8File("no_columns.npy", "(2, 0)", "");
  const std::string b = Int8File("no_rows.npy", "(0, 3)", "");
  const std::string d = directory_.Path("d.npy");
  const testing::ProcessResult result = Gemm({"matmul", a, b, "-o", d});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(testing::FileBytes(d),
            testing::NpyBytes(testing::NpyDictionaryText("<i4", "(2, 3)"), std::string(24, '\0')));
  const testing::ProcessResult refused = Gemm({"put", a});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_NE(refused.error.find("2 x 0 int8 row-major: an uploaded matrix has elements"),
            std::string::npos)
      << refused.error;
}

TEST_F(OperandCommands, AMatrixStaysMultipliesComesBackAndGoes) {
  const nlohmann::json put = Json({"put", a_, "--lease", "1h"});
  const std::string handle = put["residents"][0]["handle"];
  const std::string digest = put["residents"][0]["digest"];
  EXPECT_EQ(put["residents"][0]["lease_s"], 3600);
  EXPECT_EQ(digest.size(), 64u);

  const testing::ProcessResult list = Gemm({"ls"});
  EXPECT_EQ(list.exit_code, 0);
  EXPECT_NE(list.output.find("@" + handle + "  2 x 2 int8 row-major"), std::string::npos)
      << list.output;
  EXPECT_TRUE(Json({"--tenant", "another", "ls"})["residents"].empty());

  const std::string d = directory_.Path("d.npy");
  ASSERT_EQ(Gemm({"matmul", a_, "@" + handle, "-o", d}).exit_code, 0);
  const std::string e = directory_.Path("e.npy");
  ASSERT_EQ(Gemm({"matmul", a_, a_, "-o", e}).exit_code, 0);
  EXPECT_EQ(testing::FileBytes(d), testing::FileBytes(e));
  const nlohmann::json kept = Json({"matmul", "@" + digest, "@" + handle, "--keep"});
  const std::string f = directory_.Path("f.npy");
  ASSERT_EQ(Gemm({"get", kept["handle"], "-o", f}).exit_code, 0);
  EXPECT_EQ(testing::FileBytes(f), testing::FileBytes(e));

  EXPECT_EQ(Gemm({"rm", handle, kept["handle"]}).exit_code, 0);
  EXPECT_TRUE(Json({"ls"})["residents"].empty());
  const testing::ProcessResult gone = Gemm({"get", handle});
  EXPECT_EQ(gone.exit_code, 4);
  EXPECT_NE(gone.error.find("NOT_FOUND: handle is \"" + handle + "\""), std::string::npos)
      << gone.error;
}

TEST_F(OperandCommands, WhatLsPrintsIsAName) {
  ASSERT_EQ(Gemm({"put", a_}).exit_code, 0);
  const std::string e = directory_.Path("e.npy");
  ASSERT_EQ(Gemm({"matmul", a_, a_, "-o", e}).exit_code, 0);
  const std::string table = Gemm({"ls"}).output;
  std::istringstream row(table.substr(table.find('\n') + 1));
  const std::vector<std::string> cells{std::istream_iterator<std::string>(row), {}};
  for (const std::string& name : {cells.front(), cells.back()}) {
    const std::string d = directory_.Path("d.npy");
    EXPECT_EQ(Gemm({"matmul", name, name, "-o", d}).exit_code, 0) << name;
    EXPECT_EQ(testing::FileBytes(d), testing::FileBytes(e));
    EXPECT_EQ(Gemm({"get", name, "-o", d}).exit_code, 0) << name;
    EXPECT_EQ(testing::FileBytes(d), testing::FileBytes(a_));
    EXPECT_EQ(Gemm({"get", name, "-o", "-"}).output, testing::FileBytes(a_));
    EXPECT_EQ(Gemm({"estimate", "-s", "2x2x2", "--a", name, "--b", name, "--probe-bytes", "0",
                    "--cpu-gflops", "1"})
                  .exit_code,
              0);
  }
  EXPECT_EQ(Gemm({"rm", cells.back()}).exit_code, 0);
  EXPECT_EQ(Gemm({"put", a_}).exit_code, 0);
  const std::string handle = Json({"ls"})["residents"][0]["handle"];
  EXPECT_EQ(Gemm({"rm", "@" + handle}).exit_code, 0);
}

TEST_F(OperandCommands, ANameStandsWhereAHandleDoes) {
  const testing::ProcessResult put = Gemm({"put", a_, "--name", "encoder.w"});
  EXPECT_EQ(put.exit_code, 0) << put.error;
  EXPECT_NE(put.output.find("  " + a_ + "  @encoder.w\n"), std::string::npos) << put.output;
  const std::string e = directory_.Path("e.npy");
  ASSERT_EQ(Gemm({"matmul", a_, a_, "-o", e}).exit_code, 0);
  const std::string d = directory_.Path("d.npy");
  const testing::ProcessResult product = Gemm({"matmul", "@encoder.w", "@encoder.w", "-o", d});
  ASSERT_EQ(product.exit_code, 0) << product.error;
  EXPECT_EQ(testing::FileBytes(d), testing::FileBytes(e));
  EXPECT_EQ(Gemm({"get", "encoder.w", "-o", d}).exit_code, 0);
  EXPECT_EQ(testing::FileBytes(d), testing::FileBytes(a_));
  EXPECT_EQ(Gemm({"estimate", "-s", "2x2x2", "--a", "@encoder.w", "--b", "@encoder.w",
                  "--probe-bytes", "0", "--cpu-gflops", "1"})
                .exit_code,
            0);
  EXPECT_NE(Gemm({"ls"}).output.find("@encoder.w  @"), std::string::npos);
  EXPECT_EQ(Json({"ls", "enc*"})["residents"].size(), 1U);
  EXPECT_TRUE(Json({"ls", "dec*"})["residents"].empty());
  const testing::ProcessResult unknown = Gemm({"matmul", a_, "@decoder.w", "-o", d});
  EXPECT_EQ(unknown.exit_code, 4);
  EXPECT_NE(unknown.error.find("b.name is \"decoder.w\": no operand of this tenant has it"),
            std::string::npos)
      << unknown.error;
}

TEST_F(OperandCommands, ANameMovesWhenItIsToBeReplaced) {
  ASSERT_EQ(Gemm({"put", a_, "--name", "w"}).exit_code, 0);
  const std::string b = Int8File("b.npy", "(2, 2)", "\5\6\7\10");
  const testing::ProcessResult taken = Gemm({"put", b, "--name", "w"});
  EXPECT_EQ(taken.exit_code, 4);
  EXPECT_NE(taken.error.find("ALREADY_EXISTS: new_name is \"w\""), std::string::npos)
      << taken.error;
  // The matrix is there, and is not sent again.
  const nlohmann::json put = Json({"put", b, "--name", "w", "--replace"});
  EXPECT_EQ(put["residents"][0]["names"], nlohmann::json({"w"}));
  const std::string d = directory_.Path("d.npy");
  ASSERT_EQ(Gemm({"get", "w", "-o", d}).exit_code, 0);
  EXPECT_EQ(testing::FileBytes(d), testing::FileBytes(b));

  // A result that is kept may have a name, and is kept if it may not.
  EXPECT_EQ(Json({"matmul", a_, "@w", "--keep", "--name", "y"}).count("handle"), 1U);
  EXPECT_EQ(Gemm({"get", "@y"}).exit_code, 0);
  const testing::ProcessResult kept = Gemm({"matmul", a_, a_, "--keep", "--name", "y"});
  EXPECT_EQ(kept.exit_code, 4);
  EXPECT_NE(kept.error.find("ALREADY_EXISTS: D is @"), std::string::npos) << kept.error;
  EXPECT_EQ(Gemm({"matmul", a_, a_, "--keep", "--name", "y", "--replace"}).exit_code, 0);
  EXPECT_EQ(Json({"rm", "y"})["released"], nlohmann::json({"y"}));

  const nlohmann::json named = Json({"name", "@w", "tied"});
  EXPECT_EQ(named["resident"]["names"], nlohmann::json({"tied", "w"}));
  EXPECT_EQ(named["replaced_handle"], "");
  // One of several names goes alone, the last one with its matrix.
  EXPECT_EQ(Json({"rm", "w"})["released"], nlohmann::json({"w"}));
  EXPECT_EQ(Gemm({"get", "tied"}).exit_code, 0);
  EXPECT_EQ(Json({"rm", "t?ed"})["released"], nlohmann::json({"tied"}));
  EXPECT_EQ(Json({"ls"})["residents"].size(), 3U);  // none of them with a name
  EXPECT_TRUE(Json({"ls", "*"})["residents"].empty());
  const testing::ProcessResult none = Gemm({"rm", "t*"});
  EXPECT_EQ(none.exit_code, 4);
  EXPECT_NE(none.error.find("no matrix has a name like \"t*\""), std::string::npos) << none.error;
}

TEST_F(OperandCommands, NamesThatCannotBeAreRefusedBeforeAnythingIsSent) {
  const auto refusal = [&](std::vector<std::string> arguments) {
    const testing::ProcessResult result = Gemm(std::move(arguments));
    EXPECT_EQ(result.exit_code, 2) << result.error;
    return result.error;
  };
  EXPECT_NE(refusal({"put", a_, "--name", "a1b2c3d4-7"})
                .find("--name is \"a1b2c3d4-7\"; a name has not the form of a handle"),
            std::string::npos);
  EXPECT_NE(refusal({"put", a_, a_, "--name", "w"}).find("--name is \"w\" for 2 files"),
            std::string::npos);
  EXPECT_NE(refusal({"put", a_, "--name", "x/{}"}).find("is no tensor, FILE:NAME"),
            std::string::npos);
  EXPECT_NE(refusal({"matmul", a_, a_, "--name", "y"}).find("--name goes with --keep"),
            std::string::npos);
  EXPECT_NE(refusal({"name", "w", std::string(256, 'n')}).find("NAME has 256 bytes"),
            std::string::npos);
  EXPECT_TRUE(Json({"ls"})["residents"].empty());
}

TEST_F(OperandCommands, OperatorsSeeWhatEveryTenantHas) {
  ASSERT_EQ(Gemm({"--tenant", "x", "put", a_, "--name", "w"}).exit_code, 0);
  ASSERT_EQ(Gemm({"--tenant", "y", "put", a_, "--name", "w"}).exit_code, 0);
  const nlohmann::json all = Json({"ls", "--all-tenants"})["residents"];
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0]["tenant"], "x");
  EXPECT_EQ(all[1]["tenant"], "y");
  EXPECT_EQ(all[0]["digest"], all[1]["digest"]);
  EXPECT_EQ(Gemm({"ls", "--all-tenants"}).output.rfind("tenant  handle", 0), 0U);
}

TEST_F(OperandCommands, LeasesAreRefusedInUnitsThatPeopleWrite) {
  EXPECT_NE(Gemm({"put", a_, "--lease", "48h"}).error.find("lease is 48h; it must be 0s to 24h"),
            std::string::npos);
  EXPECT_NE(
      Gemm({"put", a_, "--lease", "9999h"}).error.find("lease is 9999h; it must be 0s to 8784h"),
      std::string::npos);
}

TEST_F(OperandCommands, ALoadOfResidentsIsUploadedOnce) {
  const std::string schedule = directory_.File("t", "0\n0\n0\n0\n0\n0\n0\n0\n");
  const auto bench = [&](const std::string& operands, const std::string& call) {
    return Json({"--tenant", "team", "bench", "--replay", schedule, "-s", "8x9x10", "--operands",
                 operands, "--call", call, "--verify-fraction", "1", "-q"});
  };
  const nlohmann::json both = bench("resident", "unary");
  EXPECT_EQ(both["points"][0]["verified"], 8);
  EXPECT_EQ(both["points"][0]["wrong"], 0);
  EXPECT_EQ(both["workload"][0]["bytes_in"], 0);
  const std::size_t uploaded = Json({"--tenant", "team", "ls"})["residents"].size();
  EXPECT_GE(uploaded, 2U);
  EXPECT_TRUE(Json({"ls"})["residents"].empty());
  const nlohmann::json weights = bench("resident-b", "stream");
  EXPECT_EQ(weights["points"][0]["verified"], 8);
  EXPECT_EQ(weights["points"][0]["wrong"], 0);
  EXPECT_EQ(weights["workload"][0]["bytes_in"], 8 * 10 * 4);
  EXPECT_EQ(Json({"--tenant", "team", "ls"})["residents"].size(), uploaded);
}

TEST_F(OperandCommands, ALoadMayKeepWeightsAsLinesOfK) {
  const nlohmann::json report =
      Json({"bench", "-s", "8x9x10", "-s", "3x40x300", "--transpose-b", "--operands", "resident-b",
            "--replay", directory_.File("t", "0\n0\n0\n0\n"), "--verify-fraction", "1", "-q"});
  EXPECT_EQ(report["workload"][0]["name"], "8x9x10 f32 transposed");
  EXPECT_EQ(report["points"][0]["verified"], 4);
  EXPECT_EQ(report["points"][0]["wrong"], 0);
}

TEST_F(OperandCommands, WrongUseIsExplained) {
  const auto error = [this](std::vector<std::string> arguments) {
    const testing::ProcessResult result = Gemm(std::move(arguments));
    EXPECT_EQ(result.exit_code, 2) << result.error;
    return result.error;
  };
  EXPECT_NE(error({"matmul", a_, "@x", "--keep", "-o", "d.npy"}).find("--keep leaves D"),
            std::string::npos);
  EXPECT_NE(error({"matmul", a_, a_, "--lease", "1h"}).find("--lease goes with --keep"),
            std::string::npos);
  EXPECT_NE(error({"matmul", a_, "@x", "--b-scales", "s.npy"}).find("@x has its own"),
            std::string::npos);
  EXPECT_NE(error({"put", a_, "--lease", "soon"}).find("'soon' is no duration"), std::string::npos);
  EXPECT_EQ(Gemm({"--tenant", "a b", "ls"}).exit_code, 4);
  const testing::ProcessResult newline = Gemm({"--tenant", "a\nb", "ls"});
  EXPECT_EQ(newline.exit_code, 4);
  EXPECT_NE(newline.error.find("gemmd-tenant has a character"), std::string::npos) << newline.error;
}

}  // namespace
}  // namespace gemmd::cli
