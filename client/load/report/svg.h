// Charts as SVG text, for a page that needs neither a network nor scripts. Colours are the
// page's CSS classes s0, s1, ... (html_report.cc).
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace gemmd::load {

struct Axis {
  std::string title;
  bool logarithmic = false;
  bool marks_points = false;  // of the x axis: ticks where points are, for a sweep's few
};

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;
};

// A line across the chart at a value of the x axis.
struct VerticalLine {
  double at = 0;
  std::string name;
};

// Text with what HTML gives a meaning replaced.
std::string Escape(const std::string& text);

// Lines with a mark and a tooltip at every point, and what stands out across them. Values that are
// not finite, or not above 0 on a logarithmic axis, are left out.
std::string LineChart(const std::string& title, const Axis& x, const Axis& y,
                      const std::vector<Series>& series,
                      const std::vector<VerticalLine>& across = {});

// One bar a label.
std::string BarChart(const std::string& title, const Axis& x, const Axis& y,
                     const std::vector<std::pair<std::string, double>>& bars);

// Horizontal bars, each the sum of its parts; the parts' names are a legend below.
struct Stack {
  std::string name;
  std::vector<double> parts;
};
std::string StackChart(const std::string& title, const std::string& unit,
                       const std::vector<std::string>& parts, const std::vector<Stack>& stacks);

}  // namespace gemmd::load
