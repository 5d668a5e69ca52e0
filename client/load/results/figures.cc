#include "client/load/results/figures.h"

#include <array>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace gemmd::load {
namespace {

using Kind = FigureKind;

constexpr std::array<Figure, 11> kFigures = {{
    {"throughput", "requests/s", "/requests_per_s", Kind::kRate, -1},
    {"gb/s", "GB/s", "/gb_per_s", Kind::kRate, -1},
    {"tflop/s", "TFLOP/s", "/tflops", Kind::kRate, -1},
    {"mean", "mean ms", "/latency_us/mean", Kind::kTime, -1},
    {"p50", "p50 ms", "/latency_us/p50", Kind::kTime, 50},
    {"p90", "p90 ms", "/latency_us/p90", Kind::kTime, 90},
    {"p95", "p95 ms", "/latency_us/p95", Kind::kTime, 95},
    {"p99", "p99 ms", "/latency_us/p99", Kind::kTime, 99},
    {"p99.9", "p99.9 ms", "/latency_us/p99.9", Kind::kTime, 99.9},
    {"max", "max ms", "/latency_us/max", Kind::kTime, 100},
    {"failed", "not OK %", "", Kind::kShare, -1},
}};

}  // namespace

double Figure::scale() const {
  switch (kind) {
    case Kind::kTime:
      return 1e-3;
    case Kind::kShare:
      return 100;
    case Kind::kRate:
      break;
  }
  return 1;
}

absl::Span<const Figure> Figures() { return kFigures; }

const Figure* FindFigure(absl::string_view name) {
  for (const Figure& figure : kFigures) {
    if (figure.name == name) return &figure;
  }
  return nullptr;
}

std::string FigureNames() {
  return absl::StrJoin(kFigures, ", ", [](std::string* text, const Figure& figure) {
    text->append(figure.name.data(), figure.name.size());
  });
}

std::string FigureText(const Figure& figure, double value) {
  switch (figure.kind) {
    case Kind::kTime:
      return absl::StrFormat("%.3f ms", value * figure.scale());
    case Kind::kShare:
      return absl::StrFormat("%.3g%%", value * figure.scale());
    case Kind::kRate:
      break;
  }
  return figure.name == "throughput" ? absl::StrFormat("%.1f/s", value)
                                     : absl::StrFormat("%.4g %s", value, figure.title);
}

}  // namespace gemmd::load
