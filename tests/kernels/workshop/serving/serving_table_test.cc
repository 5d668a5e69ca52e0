// The page's table is what selection says, and no kernel of the workshop is chosen.
#include "kernels/workshop/serving/serving_table.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/workshop/ampere_mma/ladder_a_registry.h"
#include "kernels/workshop/blackwell_bf16/ladder_c_registry.h"
#include "kernels/workshop/blackwell_mxfp8/ladder_d_registry.h"
#include "kernels/workshop/page_tables/page_tables.h"
#include "kernels/workshop/sm120_mxfp8/mx_registry.h"
#include "kernels/workshop/sm120_tma/ladder_b_registry.h"

namespace gemmd::serving {
namespace {

TEST(ServingTable, IsThatOfThePage) {
  std::ifstream in("kernels/README.md");
  const std::string page((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const absl::StatusOr<std::string> filled =
      page_tables::FillPage(page, {{"serving", ServingTable()}});
  ASSERT_TRUE(filled.ok()) << filled.status();
  EXPECT_TRUE(*filled == page) << "kernels/workshop/serving/write_serving_table.cc says how to "
                                  "write it:\n"
                               << ServingTable();
}

TEST(ServingTable, NamesNoKernelThatTeaches) {
  const std::string table = ServingTable();
  for (const char* name : {"sm80/a05", "sm120/tma_rw", "sm100/"}) {
    EXPECT_EQ(table.find(name), std::string::npos) << name;
  }
  EXPECT_NE(table.find("sm80/a06"), std::string::npos);
  EXPECT_NE(table.find("sm120/tma_r_32"), std::string::npos);
}

// Nor does a server launch one when it starts: WarmUp() asks for what selection may choose.
TEST(Workshop, ServesRequestsThatNameIt) {
  std::vector<std::unique_ptr<const Kernel>> kernels;
  for (const auto append :
       {AppendLadderA, AppendLadderB, AppendLadderC, AppendLadderD, AppendSm120Mx}) {
    const std::size_t before = kernels.size();
    append(&kernels);
    EXPECT_GT(kernels.size(), before);
  }
  for (const std::unique_ptr<const Kernel>& each : kernels) {
    EXPECT_TRUE(each->traits().only_by_name) << each->traits().name;
  }
}

}  // namespace
}  // namespace gemmd::serving
