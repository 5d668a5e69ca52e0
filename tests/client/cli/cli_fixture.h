// The real binary against a scripted server.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/testing/npy_bytes.h"
#include "tests/client/testing/scripted_server.h"
#include "tests/client/testing/subprocess.h"
#include "tests/client/testing/temporary_directory.h"

namespace gemmd::cli {

inline constexpr char kBinary[] = "client/cli/gemm";

class CliTest : public ::testing::Test {
 protected:
  // `gemm arguments...`, with the scripted server in the environment.
  testing::ProcessResult Gemm(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), kBinary);
    return testing::RunProcess(arguments, {"GEMMD_SERVER=" + server_.target()});
  }

  // A file of int8 with `bytes` as its data.
  std::string Int8File(absl::string_view name, absl::string_view shape,
                       absl::string_view bytes) const {
    return directory_.File(name,
                           testing::NpyBytes(testing::NpyDictionaryText("|i1", shape), bytes));
  }

  testing::ScriptedServer server_;
  testing::TemporaryDirectory directory_;
  const std::string a_ = Int8File("a.npy", "(2, 2)", "aaaa");
  const std::string b_ = Int8File("b.npy", "(2, 2)", "bbbb");
};

}  // namespace gemmd::cli
