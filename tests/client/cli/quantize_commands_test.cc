// gemm quantize, and put, matmul and bench of quantized operands, against a real server.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/numbers/quant/quant_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/testing/npy_bytes.h"
#include "tests/client/testing/subprocess.h"
#include "tests/client/testing/temporary_directory.h"
#include "tests/testing/server_process.h"

namespace gemmd::cli {
namespace {

using ::testing::HasSubstr;

constexpr int kM = 9;
constexpr int kN = 12;
constexpr int kK = 150;

std::vector<float> Normal(int count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

class QuantizeCommands : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new testing::ServerProcess({"--cpu.threads=1"}); }
  static void TearDownTestSuite() { delete std::exchange(server_, nullptr); }

  testing::ProcessResult Gemm(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "client/cli/gemm");
    return testing::RunProcess(arguments, {"GEMMD_SERVER=" + server_->address()});
  }
  nlohmann::json Json(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "--json");
    const testing::ProcessResult result = Gemm(std::move(arguments));
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return nlohmann::json::parse(result.output, nullptr, false);
  }
  std::string Refusal(std::vector<std::string> arguments, int exit_code) const {
    const testing::ProcessResult result = Gemm(std::move(arguments));
    EXPECT_EQ(result.exit_code, exit_code) << result.error;
    return result.error;
  }
  std::string File(const std::string& name, int rows, int columns,
                   const std::vector<float>& values) const {
    const std::string bytes(reinterpret_cast<const char*>(values.data()),
                            values.size() * sizeof(float));
    const std::string shape = absl::StrCat("(", rows, ", ", columns, ")");
    return directory_.File(name,
                           testing::NpyBytes(testing::NpyDictionaryText("<f4", shape), bytes));
  }
  // D's file, of a product that must be there.
  std::string D(const std::vector<std::string>& arguments) const {
    const std::string path = directory_.Path("d.npy");
    std::vector<std::string> all = {"matmul", "-o", path, "--output-type", "f32"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const testing::ProcessResult result = Gemm(std::move(all));
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return result.exit_code == 0 ? testing::FileBytes(path) : "";
  }
  static std::vector<float> Elements(const std::string& npy) {
    std::vector<float> elements(kM * kN);
    EXPECT_GE(npy.size(), elements.size() * sizeof(float));
    if (npy.size() < elements.size() * sizeof(float)) return elements;
    const std::size_t bytes = elements.size() * sizeof(float);
    std::memcpy(elements.data(), npy.data() + npy.size() - bytes, bytes);
    return elements;
  }

  static testing::ServerProcess* server_;
  testing::TemporaryDirectory directory_;
  // B, or A, for that format: magnitudes where it has no codes for negative values.
  std::string For(const QuantFormat& format, const std::string& file) const {
    if (HasSign(format)) return file;
    std::vector<float> values = file == a_ ? Normal(kM * kK, 1) : Normal(kK * kN, 2);
    for (float& value : values) value = std::abs(value);
    return file == a_ ? File("magnitudes_a.npy", kM, kK, values)
                      : File("magnitudes_b.npy", kK, kN, values);
  }

  const std::string a_ = File("a.npy", kM, kK, Normal(kM* kK, 1));
  const std::string b_ = File("b.npy", kK, kN, Normal(kK* kN, 2));
};

testing::ServerProcess* QuantizeCommands::server_ = nullptr;

TEST_F(QuantizeCommands, OfEveryFormatAContainerAResidentAndAnOptionGiveTheSameBits) {
  const std::string w = directory_.Path("w.gq");
  for (const NamedFormat& named : QuantFormats()) {
    SCOPED_TRACE(named.name);
    const std::string b = For(named.format, b_);
    const nlohmann::json written = Json({"quantize", b, "--as", named.name, "-o", w});
    EXPECT_EQ(written["format"], named.name);
    EXPECT_EQ(written["rows"], kK);
    const std::string d = D({a_, b, "--quantize-b", named.name});
    EXPECT_FALSE(d.empty());
    EXPECT_EQ(D({a_, w}), d);
    const nlohmann::json container = Json({"put", w})["residents"][0];
    const nlohmann::json made = Json({"put", b, "--as", named.name})["residents"][0];
    EXPECT_EQ(made["digest"], container["digest"]);
    EXPECT_EQ(D({a_, "@" + made["handle"].get<std::string>()}), d);
  }
}

// A .npy file is one plane: what it cannot say is not dropped without a word.
TEST_F(QuantizeCommands, AResidentThatHasMoreThanItsFilesIsNotWritten) {
  const std::string codes = directory_.Path("codes.npy");
  const std::string scales = directory_.Path("scales.npy");
  const auto put = [this](const std::string& format) {
    return Json({"put", b_, "--as", format})["residents"][0]["handle"].get<std::string>();
  };
  const std::string plain = put("int8-row");
  EXPECT_THAT(Refusal({"get", plain, "-o", codes}, 2),
              HasSubstr(absl::StrCat(plain, " has scales, which ", codes, " has no place for")));
  Json({"get", plain, "-o", codes, "--scales-output", scales});
  EXPECT_EQ(Json({"put", codes, "--scales", scales})["residents"][0]["handle"], plain);
  const std::string with_zeros = put("uint8-row-zp");
  const std::string refusal =
      Refusal({"get", with_zeros, "-o", codes, "--scales-output", scales}, 2);
  EXPECT_THAT(refusal, HasSubstr(" has zero points, which "));
  EXPECT_THAT(refusal, HasSubstr("-o FILE.gq"));
  Json({"get", with_zeros, "-o", directory_.Path("whole.gq")});
}

TEST_F(QuantizeCommands, AServerQuantizesOnArrivalAsThisSideDoes) {
  for (const NamedFormat& named : QuantFormats()) {
    SCOPED_TRACE(named.name);
    const std::string a = For(named.format, a_);
    const std::string b = For(named.format, b_);
    const std::string d = D({a_, b, "--quantize-b", named.name});
    const nlohmann::json arrived =
        Json({"put", b, "--as", named.name, "--on-arrival"})["residents"][0];
    EXPECT_EQ(D({a_, "@" + arrived["handle"].get<std::string>()}), d);
    // Along columns both lie row-major, so that they are one operand.
    const nlohmann::json columns =
        Json({"put", a, "--as", named.name, "--k-axis", "1", "--on-arrival"})["residents"][0];
    const nlohmann::json here =
        Json({"put", a, "--as", named.name, "--k-axis", "1"})["residents"][0];
    EXPECT_EQ(columns["digest"], here["digest"]);
    EXPECT_EQ(columns["handle"], here["handle"]);
  }
  EXPECT_THAT(Refusal({"put", b_, "--on-arrival"}, 2), HasSubstr("--as"));
  EXPECT_THAT(Refusal({"put", b_, "--as", "mxfp4", "--on-arrival", "--stochastic", "1"}, 2),
              HasSubstr("a server that quantizes rounds to nearest, by the floor rule"));
  std::vector<float> values = Normal(kK * kN, 2);
  values[kN + 3] = NAN;
  EXPECT_THAT(Refusal({"put", File("nan.npy", kK, kN, values), "--as", "mxfp4", "--on-arrival"}, 4),
              HasSubstr("stored_form: element (1, 3) is nan"));
  values[kN + 3] = -1e7f;
  const std::string large = File("large.npy", kK, kN, values);
  const std::string why = "element (1, 3) is -1e+07: int4 with f16 scales holds magnitudes below";
  EXPECT_THAT(Refusal({"put", large, "--as", "int4-g32-f16", "--on-arrival"}, 4), HasSubstr(why));
  EXPECT_THAT(Refusal({"put", large, "--as", "int4-g32-f16"}, 3), HasSubstr(why));
}

TEST_F(QuantizeCommands, TransposedOperandsAreQuantizedAlongTheirK) {
  // Transposed files of equal values give the same product.
  const std::vector<float> a = Normal(kM * kK, 1);
  const std::vector<float> b = Normal(kK * kN, 2);
  std::vector<float> at(a.size());
  std::vector<float> bt(b.size());
  for (int m = 0; m < kM; ++m) {
    for (int k = 0; k < kK; ++k) at[k * kM + m] = a[m * kK + k];
  }
  for (int k = 0; k < kK; ++k) {
    for (int n = 0; n < kN; ++n) bt[n * kK + k] = b[k * kN + n];
  }
  const std::string at_file = File("at.npy", kK, kM, at);
  const std::string bt_file = File("bt.npy", kN, kK, bt);
  for (const std::string format : {"int8-row-zp", "nvfp4", "fp8-e4m3-128x128", "int4-g32-bf16"}) {
    SCOPED_TRACE(format);
    const std::string d = D({a_, b_, "--quantize-a", format, "--quantize-b", format});
    EXPECT_EQ(D({at_file, bt_file, "--transpose-a", "--transpose-b", "--quantize-a", format,
                 "--quantize-b", format}),
              d);
    const std::string wa = directory_.Path("a.gq");
    const std::string wb = directory_.Path("b.gq");
    ASSERT_EQ(Gemm({"quantize", a_, "--as", format, "--k-axis", "1", "-o", wa}).exit_code, 0);
    ASSERT_EQ(Gemm({"quantize", bt_file, "--as", format, "--k-axis", "1", "-o", wb}).exit_code, 0);
    EXPECT_EQ(D({wa, wb, "--transpose-b"}), d);
    if (format != "fp8-e4m3-128x128") {
      EXPECT_THAT(Refusal({"matmul", wa, wb}, 2), HasSubstr("was quantized along axis 1"));
    }
  }
}

TEST_F(QuantizeCommands, TiledScalesGiveTheSameBits) {
  for (const std::string format : {"mxfp8-e5m2", "nvfp4"}) {
    const std::string d = D({a_, b_, "--quantize-b", format});
    EXPECT_EQ(D({a_, b_, "--quantize-b", format, "--scale-layout", "b=blocked-128x4"}), d);
    const std::string w = directory_.Path("w.gq");
    ASSERT_EQ(Gemm({"quantize", b_, "--as", format, "--scale-layout", "blocked-128x4", "-o", w})
                  .exit_code,
              0);
    EXPECT_EQ(D({a_, w}), d);
    const nlohmann::json put =
        Json({"put", b_, "--as", format, "--scale-layout", "blocked-128x4"})["residents"][0];
    EXPECT_EQ(D({a_, "@" + put["handle"].get<std::string>()}), d);
  }
}

TEST_F(QuantizeCommands, ReportedErrorsAreThoseOfTheProducts) {
  const std::vector<float> full = Elements(D({a_, b_}));
  const auto check = [&](const std::vector<std::string>& how) {
    const std::vector<float> d = Elements(D(how));
    double squares = 0;
    double full_squares = 0;
    double largest = 0;
    for (std::size_t i = 0; i < d.size(); ++i) {
      const double error = std::abs(static_cast<double>(d[i]) - full[i]);
      squares += error * error;
      full_squares += static_cast<double>(full[i]) * full[i];
      largest = std::max(largest, error);
    }
    std::vector<std::string> arguments = {"matmul", "--report-error", "--output-type", "f32"};
    arguments.insert(arguments.end(), how.begin(), how.end());
    const nlohmann::json error = Json(arguments)["quantization_error"];
    EXPECT_DOUBLE_EQ(error["relative"], std::sqrt(squares) / std::sqrt(full_squares));
    EXPECT_EQ(error["largest"]["error"], largest);
    const std::size_t at = error["largest"]["row"].get<std::size_t>() * kN +
                           error["largest"]["column"].get<std::size_t>();
    EXPECT_EQ(error["largest"]["d"], d[at]);
    EXPECT_EQ(error["largest"]["d_full"], full[at]);
    return error["relative"].get<double>();
  };
  const double int8 = check({a_, b_, "--quantize-a", "int8-row", "--quantize-b", "int8-row"});
  EXPECT_GT(int8, 1e-3);
  EXPECT_LT(int8, 3e-2);
  const double mxfp4 = check({a_, b_, "--quantize-b", "mxfp4"});
  EXPECT_GT(mxfp4, int8);
  EXPECT_LT(mxfp4, 0.3);
  // Its rounding is another; so is its error.
  EXPECT_NE(check({a_, b_, "--quantize-b", "mxfp4", "--stochastic", "3"}), mxfp4);

  const testing::ProcessResult text =
      Gemm({"matmul", a_, b_, "--quantize-b", "mxfp4", "--report-error"});
  EXPECT_THAT(text.output, HasSubstr("error  0."));
  EXPECT_THAT(text.output, HasSubstr(" of ||D_full||; the largest of an element is "));
}

TEST_F(QuantizeCommands, ReportedErrorsCountContainersAsTheyAreAndHaveTheSameEpilogue) {
  const std::string w = directory_.Path("w.gq");
  ASSERT_EQ(Gemm({"quantize", b_, "--as", "mxfp4", "-o", w}).exit_code, 0);
  const auto relative = [&](const std::vector<std::string>& how) {
    std::vector<std::string> arguments = {"matmul",   "--report-error", "--quantize-a",
                                          "int8-g32", "--output-type",  "f32"};
    arguments.insert(arguments.end(), how.begin(), how.end());
    return Json(arguments)["quantization_error"]["relative"].get<double>();
  };
  EXPECT_LT(relative({a_, w}), 0.02);
  const std::string c = File("c.npy", kM, kN, std::vector<float>(kM * kN, 1e6F));
  const std::string bias = File("bias.npy", 1, kN, std::vector<float>(kN, 1e6F));
  EXPECT_LT(relative({a_, w, "--c", c, "--beta", "1", "--bias", bias, "--activation", "relu"}),
            1e-5);
}

TEST_F(QuantizeCommands, WrongUseIsExplained) {
  const std::string w = directory_.Path("w.gq");
  ASSERT_EQ(Gemm({"quantize", b_, "--as", "int8-row", "-o", w}).exit_code, 0);
  EXPECT_THAT(Refusal({"quantize", b_, "--as", "int9", "-o", w}, 2),
              HasSubstr("--as: format 'int9': there is none; docs/quantization.md has all 114"));
  EXPECT_THAT(Refusal({"quantize", b_, "-o", w}, 2), HasSubstr("--as is required"));
  EXPECT_THAT(Refusal({"quantize", b_, "--as", "mxfp4", "--k-axis", "2", "-o", w}, 2),
              HasSubstr("--k-axis"));
  EXPECT_THAT(
      Refusal({"quantize", b_, "--as", "int8-row", "--scale-layout", "blocked-128x4", "-o", w}, 2),
      HasSubstr("scales of int8-row are f32; tiles are of e8m0 and fp8_e4m3 alone"));
  EXPECT_THAT(Refusal({"quantize", w, "--as", "mxfp4", "-o", w}, 2),
              HasSubstr("w.gq is quantized already"));
  std::vector<float> values = Normal(kK * kN, 2);
  values[kN + 3] = NAN;
  EXPECT_THAT(Refusal({"quantize", File("nan.npy", kK, kN, values), "--as", "mxfp4", "-o", w}, 3),
              HasSubstr("nan.npy: --as mxfp4: element (1, 3) is nan"));

  EXPECT_THAT(Refusal({"put", b_, "--k-axis", "1"}, 2), HasSubstr("--as"));
  EXPECT_THAT(Refusal({"put", b_, "--scale-rule", "round-up"}, 2), HasSubstr("go with --as"));
  EXPECT_THAT(Refusal({"put", b_, "--as", "int8-row", "--scales", b_}, 2),
              HasSubstr("--as makes the scales"));
  EXPECT_THAT(Refusal({"put", w, "--scales", b_}, 2), HasSubstr("w.gq has its own"));
  EXPECT_THAT(Refusal({"put", w, "--type", "int8"}, 2),
              HasSubstr("w.gq says its type and scale layout itself; drop --type"));
  EXPECT_THAT(Refusal({"put", directory_.File("x.gq", "short")}, 3),
              HasSubstr("x.gq: the file has 5 bytes; a safetensors file begins with 8"));

  EXPECT_THAT(Refusal({"matmul", a_, "@x", "--quantize-b", "int8-row"}, 2),
              HasSubstr("--quantize-b: @x stays on the server as it is; give a file"));
  EXPECT_THAT(Refusal({"matmul", a_, w, "--quantize-b", "int8-row"}, 2),
              HasSubstr("w.gq is quantized already"));
  EXPECT_THAT(Refusal({"matmul", a_, w, "--b-scales", b_}, 2), HasSubstr("--b-scales: "));
  EXPECT_THAT(Refusal({"matmul", a_, w, "--type", "b=int8"}, 2),
              HasSubstr("w.gq says its type and scale layout itself; drop --type b=..."));
  EXPECT_THAT(Refusal({"matmul", a_, b_, "--quantize-b", "int8-row", "--b-scales", b_}, 2),
              HasSubstr("--quantize-b makes the scales"));
  EXPECT_THAT(Refusal({"matmul", a_, b_, "--quantize-b", "int8-row", "--type", "b=mxfp4"}, 2),
              HasSubstr("--quantize-b: --type says that"));
  EXPECT_THAT(Refusal({"matmul", a_, b_, "--report-error"}, 2),
              HasSubstr("--report-error goes with --quantize-a or --quantize-b"));
  EXPECT_THAT(Refusal({"matmul", a_, b_, "--stochastic", "1"}, 2),
              HasSubstr("go with --quantize-a or --quantize-b"));
  EXPECT_THAT(Refusal({"matmul", "@x", b_, "--quantize-b", "mxfp4", "--report-error"}, 2),
              HasSubstr("what @x was before it was quantized is not known here"));
  EXPECT_THAT(Refusal({"matmul", a_, b_, "--quantize-b", "mxfp4", "--report-error", "--keep"}, 2),
              HasSubstr("--report-error compares D, which --keep leaves on the server"));
}

TEST_F(QuantizeCommands, LoadIsMadeOfEveryFormat) {
  const std::string schedule = directory_.File("t", "0\n0\n0\n");
  for (const NamedFormat& named : QuantFormats()) {
    SCOPED_TRACE(named.name);
    const nlohmann::json report =
        Json({"bench", "--replay", schedule, "-s", "3x4x150", "--type", named.name,
              "--verify-fraction", "1", "--operands", "resident-b", "-q"});
    EXPECT_EQ(report["points"][0]["verified"], 3);
    EXPECT_EQ(report["points"][0]["wrong"], 0) << report["points"][0];
    EXPECT_EQ(report["workload"][0]["type"], named.name);
  }
}

TEST_F(QuantizeCommands, BenchExplainsWhatTheServerChooses) {
  for (const NamedFormat& named : QuantFormats()) {
    SCOPED_TRACE(named.name);
    const nlohmann::json explained =
        Json({"bench", "--explain", "-s", "3x4x150", "-s", "300x400x500", "--type", named.name});
    ASSERT_EQ(explained["requests"].size(), 2U);
    EXPECT_EQ(explained["requests"][0]["name"], "3x4x150 " + named.name);
    EXPECT_THAT(explained["requests"][1]["estimate"]["kernel"].get<std::string>(),
                HasSubstr("cpu/"));
  }
  EXPECT_THAT(Gemm({"bench", "--explain", "--type", "mxfp4"}).output,
              HasSubstr("256x256x256 mxfp4  cpu/"));
  EXPECT_THAT(Refusal({"bench", "--explain", "--csv"}, 2), HasSubstr("--explain sends no load"));
}

}  // namespace
}  // namespace gemmd::cli
