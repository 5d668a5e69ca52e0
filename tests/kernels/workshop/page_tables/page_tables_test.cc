#include "kernels/workshop/page_tables/page_tables.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace gemmd::page_tables {
namespace {

TEST(Page, IsLeftAloneOutsideItsMarks) {
  const std::map<std::string, std::string> tables = {{"a", "| 1 |\n"}, {"b", "| 2 |\n"}};
  const absl::StatusOr<std::string> filled = FillPage(
      "x\n<!-- table: a -->\nold\n<!-- end -->\ny\n<!-- table: b -->\n<!-- end -->\nz\n", tables);
  ASSERT_TRUE(filled.ok()) << filled.status();
  EXPECT_EQ(*filled,
            "x\n<!-- table: a -->\n| 1 |\n<!-- end -->\ny\n<!-- table: b -->\n| 2 |\n<!-- end -->\n"
            "z\n");
}

TEST(Page, FaultsOfMarksAreNamed) {
  const std::map<std::string, std::string> tables = {{"a", ""}};
  EXPECT_EQ(FillPage("<!-- table: c -->\n<!-- end -->\n", tables).status().message(),
            "there is no table \"c\"");
  EXPECT_EQ(FillPage("<!-- table: a -->\n", tables).status().message(), "table \"a\" has no end");
  EXPECT_EQ(FillPage("nothing\n", tables).status().message(), "table \"a\" is not on the page");
}

}  // namespace
}  // namespace gemmd::page_tables
