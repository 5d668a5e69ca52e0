// Every barrier of the decoder is needed.
#include <cstdint>
#include <string>
#include <vector>

#include "base/numbers/quant/elements.h"
#include "base/numbers/quant/packed_codes.h"
#include "kernels/dequantize/dequantize_launch.h"
#include "kernels/emulator/session.h"
#include "tests/kernels/emulator/deletions.h"

namespace gemmd::testing {
namespace {

constexpr std::int64_t kLines = 70;  // two tiles of lines, and of K
constexpr std::int64_t kSize = 96;

// int8 codes of column-major lines, with scales of 2^0 to 2^7 for each 32 of K.
std::string Wrong(const emulator::Options& options) {
  std::vector<std::int8_t> codes(kLines * kSize);
  std::vector<std::uint8_t> scales(kLines * 3);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::int8_t>(i * 37);
  for (std::size_t i = 0; i < scales.size(); ++i)
    scales[i] = static_cast<std::uint8_t>(127 + i % 8);
  std::vector<float> line_scales(kLines, -1);
  const std::int64_t pitch = DequantizedPitch(kSize);
  std::vector<double> values(static_cast<std::size_t>(kLines * pitch), -1);
  Dequantization d;
  d.element = DataType::kInt8;
  d.scaling = {true, DataType::kE8M0, 1, 32};
  d.lines = kLines;
  d.k = kSize;
  d.codes = codes.data();
  d.codes_bytes = codes.size();
  d.line_stride = 1;
  d.k_stride = kLines;
  d.scales = scales.data();
  d.output = DataType::kF64;
  d.values = values.data();
  d.line_scales = d.line_factors = line_scales.data();
  emulator::Session session;
  session.options = options;
  LaunchTarget target;
  target.emulator = &session;
  const absl::Status status = dequantize::LaunchChecked(d, target);
  if (!status.ok()) return std::string(status.message());
  for (std::int64_t line = 0; line < kLines; ++line) {
    for (std::int64_t k = 0; k < kSize; ++k) {
      const double scale =
          std::ldexp(1.0, scales[static_cast<std::size_t>(line * 3 + k / 32)] - 127);
      const double wanted = codes[static_cast<std::size_t>(k * kLines + line)] * scale;
      const auto at = static_cast<std::size_t>(line * pitch + k);
      if (values[at] * line_scales[static_cast<std::size_t>(line)] != wanted)
        return "a wrong value";
    }
  }
  return "";
}

// Codes of a table, two in a byte of row-major lines: every thread reads what others brought.
std::string WrongByTable(const emulator::Options& options) {
  std::vector<std::uint8_t> codes(kLines * kSize / 2);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i * 37 + 11);
  std::vector<float> values(static_cast<std::size_t>(kLines * DequantizedPitch(kSize)), -1);
  Dequantization d;
  d.element = DataType::kIq4Nl;
  d.lines = kLines;
  d.k = kSize;
  d.codes = codes.data();
  d.codes_bytes = codes.size();
  d.line_stride = kSize;
  d.k_stride = 1;
  d.output = DataType::kF32;
  d.values = values.data();
  emulator::Session session;
  session.options = options;
  LaunchTarget target;
  target.emulator = &session;
  const absl::Status status = dequantize::LaunchChecked(d, target);
  if (!status.ok()) return std::string(status.message());
  for (std::int64_t i = 0; i < kLines * kSize; ++i) {
    const auto at = static_cast<std::size_t>(i / kSize * DequantizedPitch(kSize) + i % kSize);
    if (values[at] != DecodeElement(d.element, LoadCode(codes.data(), 4, i))) {
      return "a wrong value";
    }
  }
  return "";
}

DeletionCheck Decoder() {
  return {{"kernels/dequantize/dequantize_kernel.h"}, {}, {Wrong, WrongByTable}};
}
DELETION_TEST(Decoder)

}  // namespace
}  // namespace gemmd::testing
