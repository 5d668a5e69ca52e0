#include "client/load/report/svg.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/math.h"

namespace gemmd::load {
namespace {

constexpr double kWidth = 520;
constexpr double kHeight = 280;
constexpr double kLeft = 66;
constexpr double kRight = 496;
constexpr double kTop = 34;
constexpr double kBottom = 230;

std::string Open(const std::string& title, double height) {
  return absl::StrFormat(
      "<svg role=\"img\" aria-label=\"%s\" viewBox=\"0 0 %g %g\">\n"
      "<text class=\"title\" x=\"%g\" y=\"18\">%s</text>\n",
      Escape(title), kWidth, height, 10.0, Escape(title));
}

std::string Text(double x, double y, const char* anchor, const std::string& text) {
  return absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor,
                         Escape(text));
}

std::string Line(double x1, double y1, double x2, double y2) {
  return absl::StrFormat("<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
                         x1, y1, x2, y2);
}

// With its name at the top, on the side that has room.
std::string Across(double x, const std::string& name) {
  const bool is_left = x < (kLeft + kRight) / 2;
  return absl::StrFormat("<line class=\"across\" x1=\"%.1f\" y1=\"%g\" x2=\"%.1f\" y2=\"%g\"/>\n",
                         x, kTop, x, kBottom) +
         Text(x + (is_left ? 5 : -5), kTop + 10, is_left ? "start" : "end", name);
}

std::string Label(double value) { return absl::StrFormat("%.5g", value); }

// Maps values of one axis to positions, and knows where its marks are.
class Scale {
 public:
  Scale(const Axis& axis, double low, double high, double from, double to)
      : logarithmic_(axis.logarithmic), from_(from), to_(to) {
    if (!(low <= high)) low = high = logarithmic_ ? 1 : 0;
    if (logarithmic_) {
      low_ = std::log10(low);
      high_ = std::log10(high);
      // Half a decade at least, so that one value is no line across.
      const double margin = std::max(0.02, (0.5 - (high_ - low_)) / 2);
      low_ -= margin;
      high_ += margin;
    } else {
      low_ = std::min(0.0, low);
      step_ = NiceStep((high - low_) / 5);
      high_ = low_ + step_ * std::max(1.0, std::ceil((high - low_) / step_ - 1e-9));
    }
  }

  bool Shows(double value) const { return std::isfinite(value) && (!logarithmic_ || value > 0); }

  double At(double value) const {
    const double place = ((logarithmic_ ? std::log10(value) : value) - low_) / (high_ - low_);
    return from_ + (to_ - from_) * place;
  }

  std::vector<double> Marks() const {
    if (logarithmic_) return LogarithmicMarks();
    std::vector<double> marks;
    for (int i = 0; low_ + i * step_ <= high_ + step_ * 1e-6; ++i) {
      marks.push_back(low_ + i * step_);
    }
    return marks;
  }

 private:
  // Powers of ten and, the fewer decades there are, the more of their multiples: half a decade has
  // three marks at least, so that a value between them can be read.
  std::vector<double> LogarithmicMarks() const {
    const double decades = high_ - low_;
    std::vector<double> factors = {1};
    if (decades <= 3) factors = {1, 2, 5};
    if (decades <= 1) factors = {1, 1.5, 2, 3, 4, 5, 7};
    std::vector<double> marks;
    const int step = std::max(1, static_cast<int>(decades / 6));
    for (int decade = static_cast<int>(std::floor(low_)); decade <= high_; decade += step) {
      for (const double factor : factors) {
        const double place = decade + std::log10(factor);
        if (place >= low_ && place <= high_) marks.push_back(factor * std::pow(10, decade));
      }
    }
    return marks;
  }

  // 1, 2 or 5 times a power of ten, at least `step`.
  static double NiceStep(double step) {
    if (!(step > 0)) return 1;
    const double power = std::pow(10, std::floor(std::log10(step)));
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor * power >= step * (1 - 1e-9)) return factor * power;
    }
    return 10 * power;
  }

  const bool logarithmic_;
  const double from_;
  const double to_;
  double low_ = 0;
  double high_ = 1;
  double step_ = 1;
};

Scale MakeScale(const Axis& axis, const std::vector<Series>& series, bool of_x, double from,
                double to) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const Series& line : series) {
    for (const auto& point : line.points) {
      const double value = of_x ? point.first : point.second;
      if (!std::isfinite(value) || (axis.logarithmic && value <= 0)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  return {axis, low, high, from, to};
}

// The points to mark, without those whose label would lie over the one before.
std::vector<double> PointMarks(const Scale& x, const std::vector<Series>& series) {
  constexpr double kLabelWidth = 36;
  std::set<double> values;
  for (const Series& line : series) {
    for (const auto& point : line.points) {
      if (x.Shows(point.first)) values.insert(point.first);
    }
  }
  std::vector<double> marks;
  for (const double value : values) {
    if (marks.empty() || x.At(value) - x.At(marks.back()) >= kLabelWidth) marks.push_back(value);
  }
  return marks;
}

std::string Rows(const Scale& y, const std::string& title) {
  std::string svg;
  for (const double mark : y.Marks()) {
    svg += Line(kLeft, y.At(mark), kRight, y.At(mark));
    svg += Text(kLeft - 6, y.At(mark) + 4, "end", Label(mark));
  }
  return svg + absl::StrFormat(
                   "<text transform=\"translate(14 %g) rotate(-90)\" text-anchor=\"middle\">%s"
                   "</text>\n",
                   (kTop + kBottom) / 2, Escape(title));
}

std::string Legend(const std::vector<std::string>& names, double y, std::size_t columns) {
  std::string svg;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double x =
        kLeft + (kRight - kLeft) / static_cast<double>(columns) * static_cast<double>(i % columns);
    const std::size_t line = i / columns;
    const double row = y + 16 * static_cast<double>(line);
    absl::StrAppendFormat(
        &svg, "<rect class=\"s%d fill\" x=\"%.1f\" y=\"%.1f\" width=\"10\" height=\"10\"/>\n", i, x,
        row - 9);
    svg += Text(x + 14, row, "start", names[i]);
  }
  return svg;
}

}  // namespace

std::string Escape(const std::string& text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string LineChart(const std::string& title, const Axis& x_axis, const Axis& y_axis,
                      const std::vector<Series>& series, const std::vector<VerticalLine>& across) {
  const Scale x = MakeScale(x_axis, series, true, kLeft, kRight);
  const Scale y = MakeScale(y_axis, series, false, kBottom, kTop);
  const std::size_t columns = series.size() > 4 ? 2 : 4;
  const std::size_t lines = CeilOfRatio(series.size(), columns);
  const double height = kHeight + 16 * (static_cast<double>(lines) - 1);
  std::string svg = Open(title, height) + Rows(y, y_axis.title);
  for (const double mark : x_axis.marks_points ? PointMarks(x, series) : x.Marks()) {
    svg += Text(x.At(mark), kBottom + 16, "middle", Label(mark));
  }
  svg += Text((kLeft + kRight) / 2, kBottom + 32, "middle", x_axis.title);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < series.size(); ++i) {
    names.push_back(series[i].name);
    std::string path;
    std::string marks;
    for (const auto& [px, py] : series[i].points) {
      if (!x.Shows(px) || !y.Shows(py)) continue;
      absl::StrAppendFormat(&path, "%s%.1f,%.1f", path.empty() ? "" : " ", x.At(px), y.At(py));
      absl::StrAppendFormat(&marks,
                            "<circle class=\"s%d fill\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"><title>"
                            "%s: %s, %s</title></circle>\n",
                            i, x.At(px), y.At(py), Escape(series[i].name), Label(px), Label(py));
    }
    absl::StrAppendFormat(&svg, "<polyline class=\"s%d\" points=\"%s\"/>\n%s", i, path, marks);
  }
  for (const VerticalLine& line : across) {
    if (x.Shows(line.at)) svg += Across(x.At(line.at), line.name);
  }
  return svg + Legend(names, kHeight - 4, columns) + "</svg>\n";
}

std::string BarChart(const std::string& title, const Axis& x_axis, const Axis& y_axis,
                     const std::vector<std::pair<std::string, double>>& bars) {
  Series values;
  for (const auto& bar : bars) values.points.emplace_back(0, bar.second);
  const Scale y = MakeScale(y_axis, {values}, false, kBottom, kTop);
  std::string svg = Open(title, kHeight) + Rows(y, y_axis.title);
  const double width =
      (kRight - kLeft) / static_cast<double>(std::max<std::size_t>(1, bars.size()));
  const std::size_t every = bars.size() / 10 + 1;
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const auto& [name, value] = bars[i];
    const double left = kLeft + width * static_cast<double>(i);
    if (y.Shows(value)) {
      absl::StrAppendFormat(&svg,
                            "<rect class=\"s0 fill\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                            "height=\"%.1f\"><title>%s: %s</title></rect>\n",
                            left + width * 0.1, y.At(value), width * 0.8, kBottom - y.At(value),
                            Escape(name), Label(value));
    }
    if (i % every == 0) svg += Text(left + width / 2, kBottom + 16, "middle", name);
  }
  return svg + Text((kLeft + kRight) / 2, kBottom + 34, "middle", x_axis.title) + "</svg>\n";
}

std::string StackChart(const std::string& title, const std::string& unit,
                       const std::vector<std::string>& parts, const std::vector<Stack>& stacks) {
  constexpr double kRow = 26;
  constexpr double kBars = 130;  // where bars begin: names stand before it
  double most = 0;
  for (const Stack& stack : stacks) {
    double sum = 0;
    for (const double part : stack.parts) sum += part;
    most = std::max(most, sum);
  }
  const Scale x({}, 0, most, kBars, kRight);
  const double bottom = kTop + kRow * static_cast<double>(stacks.size());
  const double legend = bottom + 54;
  const std::size_t legend_lines = (parts.size() + 2) / 3;
  const double height = legend + 16 * static_cast<double>(legend_lines);
  std::string svg = Open(absl::StrCat(title, ", ", unit), height);
  for (const double mark : x.Marks()) {
    svg += Line(x.At(mark), kTop, x.At(mark), bottom);
    svg += Text(x.At(mark), bottom + 16, "middle", Label(mark));
  }
  for (std::size_t row = 0; row < stacks.size(); ++row) {
    const double top = kTop + kRow * static_cast<double>(row) + 4;
    svg += Text(kBars - 6, top + 13, "end", stacks[row].name);
    double sum = 0;
    for (std::size_t i = 0; i < stacks[row].parts.size(); ++i) {
      const double part = stacks[row].parts[i];
      absl::StrAppendFormat(&svg,
                            "<rect class=\"s%d fill\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                            "height=\"%g\"><title>%s: %s %s</title></rect>\n",
                            i, x.At(sum), top, x.At(sum + part) - x.At(sum), kRow - 8,
                            Escape(parts[i]), Label(part), unit);
      sum += part;
    }
  }
  return svg + Legend(parts, legend, 3) + "</svg>\n";
}

}  // namespace gemmd::load
