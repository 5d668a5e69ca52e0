// Measures how far each format's values are from the real ones, as the table of
// base/numbers/quant/README.md:
//   bazel run --config=opt //tests/base/numbers/quant:quantization_error
// Two matrices of 256 lines by 4096: normal, and Student's t with 3 degrees of freedom, whose tails
// are heavy. The error is the root of the sum of squares over that of the matrix.
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "base/numbers/quant/quantize.h"

namespace gemmd {
namespace {

constexpr std::int64_t kLines = 256;
constexpr std::int64_t kSize = 4096;

std::vector<float> Normal() {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  std::vector<float> values(kLines * kSize);
  for (float& value : values) value = static_cast<float>(normal(random));
  return values;
}

std::vector<float> HeavyTailed() {
  std::mt19937_64 random(2);
  std::student_t_distribution<double> student(3);
  std::vector<float> values(kLines * kSize);
  for (float& value : values) value = static_cast<float>(student(random));
  return values;
}

double RelativeError(const QuantFormat& format, ScaleRule rule, const std::vector<float>& values) {
  QuantizeOptions options;
  options.scale_rule = rule;
  const QuantizedMatrix quantized =
      *Quantize(format, {values.data(), kLines, kSize, kSize}, options);
  const std::vector<double> decoded = Dequantize(quantized.view());
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    error += (decoded[i] - values[i]) * (decoded[i] - values[i]);
    norm += static_cast<double>(values[i]) * values[i];
  }
  return std::sqrt(error / norm);
}

void Print() {
  const std::vector<float> normal = Normal();
  const std::vector<float> heavy = HeavyTailed();
  std::printf("| format | bits | normal | heavy tails |\n|---|---|---|---|\n");
  const auto print = [&](const std::string& name, const QuantFormat& format, ScaleRule rule) {
    std::printf("| `%s` | %.4g | %.3f %% | %.3f %% |\n", name.c_str(), BitsPerElement(format),
                100 * RelativeError(format, rule, normal),
                100 * RelativeError(format, rule, heavy));
  };
  for (const NamedFormat& each : QuantFormats()) {
    if (absl::StartsWith(each.name, "uint8") && !each.format.scaling.has_zero_points) continue;
    print(each.name, each.format, ScaleRule::kFloor);
    if (each.format.scaling.type == DataType::kE8M0) {
      print(each.name + " (up)", each.format, ScaleRule::kRoundUp);
    }
    if (HasRule(each.format, ScaleRule::kFullRange)) {
      print(each.name + " (full range)", each.format, ScaleRule::kFullRange);
    }
  }
}

}  // namespace
}  // namespace gemmd

int main() { gemmd::Print(); }
