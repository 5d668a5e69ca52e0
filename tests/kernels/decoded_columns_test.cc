// Products by columns that are decoded on the way have the bits of products by what they decode to,
// in every form that this processor has.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "base/numbers/quant/packed_codes.h"
#include "base/numbers/quant/quantize.h"
#include "gtest/gtest.h"
#include "kernels/cpu/line_decoder.h"
#include "kernels/cpu/row_gemm.h"

namespace gemmd {
namespace {

constexpr RowGemmForm kForms[] = {RowGemmForm::kPlain, RowGemmForm::kAvx2, RowGemmForm::kAvx512};

std::size_t Size(std::int64_t count) { return static_cast<std::size_t>(count); }

std::vector<float> Random(std::int64_t count, bool has_sign, std::mt19937* random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(Size(count));
  for (float& value : values) value = has_sign ? normal(*random) : std::abs(normal(*random));
  return values;
}

// Expects products of `m` random rows by the decoder's lines to be those by what they decode to.
void ExpectSame(const LineDecoder& decoder, const double* line_scales, std::int64_t m,
                std::int64_t n, std::int64_t k, std::mt19937* random) {
  std::vector<float> lines(Size(n * k));
  decoder.Lines(0, n, line_scales, lines.data());
  const DecodedColumns<float> decoded(decoder, 0, 0, line_scales);
  const std::vector<float> a = Random(m * k, true, random);
  std::vector<float> expected(Size(m * n));
  std::vector<float> c(Size(m * n));
  for (const RowGemmForm form : kForms) {
    if (!HasRowGemmForm(form)) continue;
    RowGemm<float>({true, lines.data(), k}, m, n, k, a.data(), k, expected.data(), n, form);
    RowGemm<float>(decoded.columns(), m, n, k, a.data(), k, c.data(), n, form);
    ASSERT_EQ(c, expected) << m << "x" << n << "x" << k << ", form " << static_cast<int>(form);
  }
}

class DecodedColumnsTest : public ::testing::TestWithParam<NamedFormat> {};

// K around spans, what is computed of them at a time, and lines that end within a byte.
TEST_P(DecodedColumnsTest, MultiplyAsWhatTheyDecodeTo) {
  std::mt19937 random(3);
  const QuantFormat& format = GetParam().format;
  constexpr std::int64_t kSizes[] = {272, 1024, 1040, 1055, 2048, 4096, 4113, 6208};
  for (int i = 0; i < 24; ++i) {
    const std::int64_t k = kSizes[i % 8];
    const std::int64_t n = 1 + random() % 21;
    const std::int64_t m = 1 + random() % 10;
    const std::vector<float> values = Random(n * k, HasSign(format), &random);
    const QuantizedMatrix matrix = *Quantize(format, {values.data(), n, k, k});
    const LineDecoder decoder(matrix.view());
    std::vector<double> line_scales;
    for (std::int64_t line = 0; line < n; ++line) line_scales.push_back(decoder.LineScale(line));
    ASSERT_NO_FATAL_FAILURE(ExpectSame(decoder, line_scales.data(), m, n, k, &random));
  }
}

// Lines of columns, as NumPy has them: N around registers and the columns at work at a time.
TEST(UnscaledColumns, MultiplyAsWhatTheyDecodeTo) {
  std::mt19937 random(4);
  for (const DataType type :
       {DataType::kF16, DataType::kBf16, DataType::kInt8, DataType::kUint8, DataType::kFp8E4M3,
        DataType::kFp8E5M2, DataType::kFp6E2M3, DataType::kFp6E3M2, DataType::kInt4}) {
    for (const std::int64_t n : {16, 33, 48, 512, 530}) {
      for (const std::int64_t k : {260, 300, 1031}) {
        const std::int64_t m = 1 + random() % 8;
        const std::int64_t pitch = n + 16;
        std::vector<std::uint8_t> codes(Size(PackedBytes(SizeBits(type), k * pitch)));
        // No exponent is full, so that none is NaN or infinite.
        for (std::uint8_t& byte : codes) byte = static_cast<std::uint8_t>(random() & 0xbb);
        QuantizedView view;
        view.format = {type, Scaling::kNone};
        view.lines = n;
        view.k = k;
        view.codes = codes.data();
        view.line_stride = 1;
        view.k_stride = pitch;
        const LineDecoder decoder(view);
        SCOPED_TRACE(Name(type));
        ASSERT_NO_FATAL_FAILURE(ExpectSame(decoder, nullptr, m, n, k, &random));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, DecodedColumnsTest, ::testing::ValuesIn(QuantFormats()),
                         [](const auto& info) {
                           return absl::StrReplaceAll(info.param.name, {{"-", "_"}});
                         });

}  // namespace
}  // namespace gemmd
