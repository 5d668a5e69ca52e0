// The page's table is what selection says.
#include "kernels/workshop/serving/serving_table.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/workshop/page_tables/page_tables.h"

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

}  // namespace
}  // namespace gemmd::serving
