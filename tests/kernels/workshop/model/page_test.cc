// The page's tables are what the model computes, so that none of their figures is typed.
#include "kernels/workshop/model/page.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/workshop/page_tables/page_tables.h"

namespace gemmd::model {
namespace {

TEST(Page, HasTheTablesThatTheModelMakes) {
  std::ifstream in("docs/lab/mxfp8-schedule.md");
  const std::string page((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  ASSERT_FALSE(page.empty());
  const absl::StatusOr<std::string> filled = page_tables::FillPage(page, Tables(Evaluate({})));
  ASSERT_TRUE(filled.ok()) << filled.status();
  EXPECT_TRUE(*filled == page)
      << "kernels/workshop/model/schedule_model.cc says how to write them:\n"
      << *filled;
}

}  // namespace
}  // namespace gemmd::model
