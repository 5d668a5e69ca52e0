// Elements and matrices through base/numbers/quant, for programs that compare it with other
// libraries (tests/python/test_formats.py):
//   codec decode TYPE                     codes, a byte each, to binary32
//   codec encode TYPE                     binary32 to codes, rounded to nearest
//   codec quantize FORMAT LINES K RULE    binary32 to packed codes, then scales along K, then zero
//                                         points, then the tensor's scale, then offsets; RULE is
//                                         floor, round-up or full-range
// from standard input to standard output.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "base/numbers/quant/elements.h"
#include "base/numbers/quant/quantize.h"

namespace gemmd {
namespace {

constexpr DataType kTypes[] = {DataType::kFp8E4M3, DataType::kFp8E5M2, DataType::kFp6E3M2,
                               DataType::kFp6E2M3, DataType::kFp4E2M1, DataType::kE8M0,
                               DataType::kInt8,    DataType::kUint8,   DataType::kInt4,
                               DataType::kUint4,   DataType::kNf4,     DataType::kBnbFp4,
                               DataType::kIq4Nl};

template <typename Item>
std::vector<Item> ReadAll() {
  std::vector<Item> items;
  Item item;
  while (std::fread(&item, sizeof item, 1, stdin) == 1) items.push_back(item);
  return items;
}

template <typename Item>
void Write(const std::vector<Item>& items) {
  std::fwrite(items.data(), sizeof(Item), items.size(), stdout);
}

int Fail(const std::string& message) {
  std::fprintf(stderr, "codec: %s\n", message.c_str());
  return 2;
}

const DataType* FindType(absl::string_view name) {
  for (const DataType& type : kTypes) {
    if (Name(type) == name) return &type;
  }
  return nullptr;
}

int QuantizeInput(absl::string_view name, absl::string_view lines, absl::string_view k,
                  absl::string_view rule) {
  const QuantFormat* format = FindQuantFormat(name);
  const std::vector<float> values = ReadAll<float>();
  RealView real;
  real.data = values.data();
  if (format == nullptr || !absl::SimpleAtoi(lines, &real.lines) || !absl::SimpleAtoi(k, &real.k)) {
    return Fail("no such format, or no numbers");
  }
  real.line_stride = real.k;
  if (static_cast<std::int64_t>(values.size()) != real.lines * real.k) return Fail("wrong size");
  QuantizeOptions options;
  if (rule == "round-up") options.scale_rule = ScaleRule::kRoundUp;
  if (rule == "full-range") options.scale_rule = ScaleRule::kFullRange;
  const absl::StatusOr<QuantizedMatrix> quantized = Quantize(*format, real, options);
  if (!quantized.ok()) return Fail(std::string(quantized.status().message()));
  Write(quantized->codes);
  Write(quantized->scales);
  Write(quantized->zero_points);
  Write(std::vector<float>{quantized->tensor_scale});
  Write(quantized->offsets);
  return 0;
}

int Run(const std::vector<std::string>& words) {
  if (words.size() == 5 && words[0] == "quantize") {
    return QuantizeInput(words[1], words[2], words[3], words[4]);
  }
  const DataType* type = words.size() == 2 ? FindType(words[1]) : nullptr;
  if (type == nullptr) return Fail("usage: decode TYPE, encode TYPE, quantize FORMAT LINES K RULE");
  if (words[0] == "decode") {
    std::vector<float> values;
    for (const std::uint8_t code : ReadAll<std::uint8_t>()) {
      values.push_back(static_cast<float>(DecodeElement(*type, code)));
    }
    Write(values);
    return 0;
  }
  if (words[0] != "encode" || *type == DataType::kE8M0) return Fail("nothing to do");
  std::vector<std::uint8_t> codes;
  for (const float value : ReadAll<float>()) {
    codes.push_back(static_cast<std::uint8_t>(EncodeElement(*type, value, 0, {}, 0)));
  }
  Write(codes);
  return 0;
}

}  // namespace
}  // namespace gemmd

int main(int argc, char** argv) { return gemmd::Run({argv + 1, argv + argc}); }
