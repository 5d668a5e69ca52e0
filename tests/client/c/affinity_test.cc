// The header that says to proxies which matrix a call is about, as the C interface asks for it.
#include <cstddef>
#include <string>
#include <vector>

#include "client/include/gemmd/gemmd.h"
#include "gtest/gtest.h"
#include "tests/client/c/c_fixture.h"
#include "tests/client/testing/scripted_server.h"

namespace gemmd {
namespace {

class AffinityTest : public ::testing::Test {
 protected:
  // The header of a product by a digest; "none" without one.
  std::string HeaderWith(const gemmd_client_options& given) {
    std::string header = "none";
    server_.Then([&header](auto& context, const auto&, auto&) {
      const auto found = context.client_metadata().find("gemmd-affinity");
      if (found != context.client_metadata().end()) {
        header.assign(found->second.data(), found->second.size());
      }
      return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "it was seen");
    });
    gemmd_client_options options = given;
    const std::string target = server_.target();
    options.target = target.c_str();
    gemmd_client* client = nullptr;
    EXPECT_EQ(GEMMD_OK, gemmd_client_new(&options, &client, nullptr));
    std::vector<float> values(4);
    const gemmd_array array = ArrayOf(values, 2, 2);
    const gemmd_operand a = OperandOf(array);
    const gemmd_operand b = OperandOf(digest_.c_str());
    gemmd_result* result = nullptr;
    EXPECT_EQ(GEMMD_INVALID_ARGUMENT, gemmd_matmul(client, &a, &b, nullptr, &result, nullptr));
    EXPECT_EQ(GEMMD_OK, gemmd_client_free(client, nullptr));
    return header;
  }

  testing::ScriptedServer server_;
  const std::string digest_ = std::string(64, 'a');
};

TEST_F(AffinityTest, ItIsThereWhereTheOptionsAskForIt) {
  gemmd_client_options options = GEMMD_CLIENT_OPTIONS_INIT;
  EXPECT_EQ("none", HeaderWith(options));
  options.affinity_header = true;
  EXPECT_EQ(digest_, HeaderWith(options));
}

TEST_F(AffinityTest, AProgramThatIsOlderThanTheOptionHasNone) {
  gemmd_client_options options = GEMMD_CLIENT_OPTIONS_INIT;
  options.size = offsetof(gemmd_client_options, affinity_header);
  options.affinity_header = true;  // memory behind its struct
  EXPECT_EQ("none", HeaderWith(options));
}

}  // namespace
}  // namespace gemmd
