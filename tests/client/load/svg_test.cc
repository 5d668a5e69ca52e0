#include "client/load/report/svg.h"

#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace gemmd::load {
namespace {

int Count(const std::string& text, absl::string_view what) {
  int count = 0;
  for (std::size_t at = text.find(what.data(), 0, what.size()); at != std::string::npos;
       at = text.find(what.data(), at + 1, what.size())) {
    ++count;
  }
  return count;
}

// Marks of a logarithmic axis of y alone: x has one point, and so its own marks stay the same.
int MarksOf(double low, double high) {
  const Axis x{"x", false, true};
  const std::string chart = LineChart("t", x, {"y", true}, {{"s", {{1, low}, {1, high}}}});
  return Count(chart, "text-anchor=\"end\"");
}

TEST(Svg, AnyRangeOfALogarithmicAxisHasMarksToReadBy) {
  for (const double low : {0.013, 0.9, 1.0, 4.2, 17.0, 990.0}) {
    for (const double factor : {1.0, 1.4, 2.0, 3.1, 9.0, 50.0, 2000.0}) {
      const int marks = MarksOf(low, low * factor);
      EXPECT_GE(marks, 3) << low << " to " << low * factor;
      EXPECT_LE(marks, 10) << low << " to " << low * factor;
    }
  }
}

}  // namespace
}  // namespace gemmd::load
