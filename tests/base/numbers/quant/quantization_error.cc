// Measures how far each format's values are from the real ones, as the table of
// base/numbers/quant/README.md:
//   bazel run --config=opt //tests/base/numbers/quant:quantization_error [-- FILE...]
// Two matrices of 256 lines by 4096: normal, and Student's t with 3 degrees of freedom, whose tails
// are heavy. The error is the root of the sum of squares over that of the matrix. Files of weights
// give a third column: the root of the mean of squared errors of their f32 matrices of at least 128
// lines of 128 elements, K along the lines.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "base/numbers/quant/quantize.h"
#include "client/weights/weight_file.h"
#include "client/weights/weight_form.h"

namespace gemmd {
namespace {

constexpr std::int64_t kLines = 256;
constexpr std::int64_t kSize = 4096;

struct Lines {
  std::int64_t lines = 0;
  std::int64_t k = 0;
  std::vector<float> values;
};
using Matrices = std::vector<Lines>;

Matrices Normal() {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  Lines matrix{kLines, kSize, std::vector<float>(kLines * kSize)};
  for (float& value : matrix.values) value = static_cast<float>(normal(random));
  return {std::move(matrix)};
}

Matrices HeavyTailed() {
  std::mt19937_64 random(2);
  std::student_t_distribution<double> student(3);
  Lines matrix{kLines, kSize, std::vector<float>(kLines * kSize)};
  for (float& value : matrix.values) value = static_cast<float>(student(random));
  return {std::move(matrix)};
}

Matrices Read(const std::vector<std::string>& paths) {
  constexpr std::uint64_t kLeast = 128;
  Matrices matrices;
  for (const std::string& path : paths) {
    const absl::StatusOr<client::WeightFile> file = client::WeightFile::Open(path);
    if (!file.ok()) {
      std::fprintf(stderr, "%s\n", std::string(file.status().message()).c_str());
      std::exit(1);
    }
    for (const client::WeightTensor& tensor : file->tensors()) {
      const auto form = FormOf(tensor);
      if (!form.ok() || form->element != DataType::kF32 || form->parts != 0) continue;
      if (form->rows < kLeast || form->columns < kLeast) continue;
      const auto* const data = reinterpret_cast<const float*>(tensor.bytes.view().data());
      matrices.push_back({static_cast<std::int64_t>(form->rows),
                          static_cast<std::int64_t>(form->columns),
                          {data, data + form->rows * form->columns}});
      std::fprintf(stderr, "%s: %s, %s\n", path.c_str(), tensor.name.c_str(),
                   client::ShapeText(tensor.shape).c_str());
    }
  }
  return matrices;
}

// The square of the relative error of one matrix.
double SquaredError(const QuantFormat& format, const QuantizeOptions& options,
                    const Lines& matrix) {
  const QuantizedMatrix quantized =
      *Quantize(format, {matrix.values.data(), matrix.lines, matrix.k, matrix.k}, options);
  const std::vector<double> decoded = Dequantize(quantized.view());
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < matrix.values.size(); ++i) {
    error += (decoded[i] - matrix.values[i]) * (decoded[i] - matrix.values[i]);
    norm += static_cast<double>(matrix.values[i]) * matrix.values[i];
  }
  return error / norm;
}

double RelativeError(const QuantFormat& format, ScaleRule rule, const Matrices& matrices) {
  QuantizeOptions options;
  options.scale_rule = rule;
  double sum = 0;
  for (const Lines& matrix : matrices) sum += SquaredError(format, options, matrix);
  return std::sqrt(sum / static_cast<double>(matrices.size()));
}

void Print(const std::vector<std::string>& paths) {
  std::vector<Matrices> columns = {Normal(), HeavyTailed()};
  if (!paths.empty()) columns.push_back(Read(paths));
  std::printf("| format | bits | normal | heavy tails |%s\n|---|---|---|---|%s\n",
              paths.empty() ? "" : " files |", paths.empty() ? "" : "---|");
  const auto print = [&](const std::string& name, const QuantFormat& format, ScaleRule rule) {
    std::printf("| `%s` | %.4g |", name.c_str(), BitsPerElement(format));
    for (const Matrices& each : columns) {
      std::printf(" %.3f %% |", 100 * RelativeError(format, rule, each));
    }
    std::printf("\n");
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

int main(int argc, char** argv) { gemmd::Print({argv + 1, argv + argc}); }
