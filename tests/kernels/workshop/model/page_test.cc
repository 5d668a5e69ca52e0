// The page's tables are what the model computes, so that none of their figures is typed.
#include "kernels/workshop/model/page.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace gemmd::model {
namespace {

TEST(Page, HasTheTablesThatTheModelMakes) {
  std::ifstream in("docs/lab/mxfp8-schedule.md");
  const std::string page((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  ASSERT_FALSE(page.empty());
  const absl::StatusOr<std::string> filled = FillPage(page, Tables(Evaluate({})));
  ASSERT_TRUE(filled.ok()) << filled.status();
  EXPECT_TRUE(*filled == page)
      << "kernels/workshop/model/schedule_model.cc says how to write them:\n"
      << *filled;
}

TEST(Page, IsLeftAloneOutsideItsMarks) {
  const std::map<std::string, std::string> tables = {{"a", "| 1 |\n"}, {"b", "| 2 |\n"}};
  const absl::StatusOr<std::string> filled = FillPage(
      "x\n<!-- model: a -->\nold\n<!-- end -->\ny\n<!-- model: b -->\n<!-- end -->\nz\n", tables);
  ASSERT_TRUE(filled.ok()) << filled.status();
  EXPECT_EQ(*filled,
            "x\n<!-- model: a -->\n| 1 |\n<!-- end -->\ny\n<!-- model: b -->\n| 2 |\n<!-- end -->\n"
            "z\n");
}

TEST(Page, FaultsOfMarksAreNamed) {
  const std::map<std::string, std::string> tables = {{"a", ""}};
  EXPECT_EQ(FillPage("<!-- model: c -->\n<!-- end -->\n", tables).status().message(),
            "there is no table \"c\"");
  EXPECT_EQ(FillPage("<!-- model: a -->\n", tables).status().message(), "table \"a\" has no end");
  EXPECT_EQ(FillPage("nothing\n", tables).status().message(), "table \"a\" is not on the page");
}

}  // namespace
}  // namespace gemmd::model
