// gemm weights, and put, matmul and quantize of tensors of safetensors and GGUF files, against a
// real server.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/client/testing/npy_bytes.h"
#include "tests/client/testing/subprocess.h"
#include "tests/client/testing/temporary_directory.h"
#include "tests/client/testing/weight_bytes.h"
#include "tests/testing/server_process.h"

namespace gemmd::cli {
namespace {

using ::gemmd::testing::GgufBytes;
using ::gemmd::testing::SafetensorsBytes;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kN = 5;
constexpr int kK = 64;
constexpr std::uint32_t kQ8_0 = 8;
constexpr std::uint32_t kIq2Xxs = 16;

std::string BytesOf(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// W, N x K, of small integers, and E, the unit matrix.
std::string Integers() {
  std::vector<float> values;
  for (int i = 0; i < kN * kK; ++i) values.push_back(static_cast<float>(i % 17 - 8));
  return BytesOf(values);
}
std::string Unit() {
  std::vector<float> values(kK * kK);
  for (int i = 0; i < kK; ++i) values[static_cast<std::size_t>(i * kK + i)] = 1;
  return BytesOf(values);
}

// A line's blocks: scales of -2 and 0.5, codes from `first` on.
std::string Q8Line(int first) {
  std::string line;
  for (int block = 0; block < 2; ++block) {
    line += block == 0 ? std::string("\0\xc0", 2) : std::string("\0\x38", 2);
    for (int i = 0; i < 32; ++i) line += static_cast<char>(first + i);
  }
  return line;
}

class WeightsCommands : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new testing::ServerProcess({"--cpu.threads=1"}); }
  static void TearDownTestSuite() { delete std::exchange(server_, nullptr); }

  testing::ProcessResult Gemm(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "client/cli/gemm");
    return testing::RunProcess(arguments, {"GEMMD_SERVER=" + server_->address()});
  }
  std::string Output(std::vector<std::string> arguments) const {
    const testing::ProcessResult result = Gemm(std::move(arguments));
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return absl::StrReplaceAll(result.output, {{directory_.Path(""), ""}});
  }
  nlohmann::json Json(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "--json");
    return nlohmann::json::parse(Output(std::move(arguments)), nullptr, false);
  }
  // One line, without the directory.
  std::string Refusal(std::vector<std::string> arguments, int exit_code) const {
    const testing::ProcessResult result = Gemm(std::move(arguments));
    EXPECT_EQ(result.exit_code, exit_code) << result.output;
    return absl::StrReplaceAll(result.error, {{directory_.Path(""), ""}});
  }
  std::string Npy(const std::string& name, int rows, int columns, const std::string& bytes) const {
    const std::string shape = absl::StrCat("(", rows, ", ", columns, ")");
    return directory_.File(name,
                           testing::NpyBytes(testing::NpyDictionaryText("<f4", shape), bytes));
  }
  std::string Digest(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "put");
    return Json(std::move(arguments))["residents"][0]["digest"];
  }
  // The elements of D, f32.
  std::vector<float> Product(std::vector<std::string> arguments) const {
    const std::string path = directory_.Path("d.npy");
    arguments.insert(arguments.begin(), {"matmul", "-o", path, "--output-type", "f32"});
    EXPECT_NE(Output(std::move(arguments)), "");
    const std::string npy = testing::FileBytes(path);
    std::vector<float> elements(kK * kN);
    if (npy.size() < elements.size() * sizeof(float)) return {};
    std::memcpy(elements.data(), npy.data() + npy.size() - elements.size() * sizeof(float),
                elements.size() * sizeof(float));
    return elements;
  }

  static testing::ServerProcess* server_;
  testing::TemporaryDirectory directory_;
  const std::string many_ = directory_.File(
      "many.safetensors",
      SafetensorsBytes({{"fc.bias", "F32", "[5]", std::string(20, '\0')},
                        {"fc.weight", "F32", absl::StrCat("[", kN, ",", kK, "]"), Integers()},
                        {"fd.weight", "I64", "[1,1]", std::string(8, '\0')}}));
  const std::string one_ = directory_.File(
      "one.safetensors",
      SafetensorsBytes({{"bias", "F32", "[5]", std::string(20, '\0')},
                        {"weight", "F32", absl::StrCat("[", kN, ",", kK, "]"), Integers()}}));
  const std::string gguf_ = directory_.File("m.gguf", [] {
    GgufBytes bytes;
    std::string blocks;
    for (int line = 0; line < kN; ++line) blocks += Q8Line(line - 20);
    bytes.Tensor("q8", {kK, kN}, kQ8_0, blocks);
    bytes.Tensor("q2", {256, 1}, kIq2Xxs, std::string(66, '\0'));
    bytes.Tensor("nan", {32, 1}, kQ8_0, std::string("\1\x7e", 2) + std::string(32, '\1'));
    return bytes.Bytes();
  }());
};

testing::ServerProcess* WeightsCommands::server_ = nullptr;

TEST_F(WeightsCommands, TensorsAreListedWithTheirForms) {
  EXPECT_EQ(
      Output({"weights", many_}),
      "NAME       SHAPE    TYPE  FORM  BYTES  REFUSED\n"
      "fc.bias    [5]      F32   -         -  its shape [5] has 1 dimension; a matrix has 2, a "
      "stack "
      "of them 3\n"
      "fc.weight  [5, 64]  F32   f32    1280\n"
      "fd.weight  [1, 1]   I64   -         -  I64 has no form here: integers of a matrix have "
      "8 bits here: I8 or U8 is closest\n"
      "safetensors: 3 tensors, 1 with a form here, of 1.2 KiB\n");
  const nlohmann::json json = Json({"weights", gguf_, "--prefix", "q"});
  EXPECT_EQ(json["kind"], "GGUF");
  ASSERT_EQ(json["tensors"].size(), 2U);
  EXPECT_EQ(json["tensors"][0],
            nlohmann::json::parse(R"({"name":"q8","shape":[5,64],"type":"Q8_0",)"
                                  R"("file_bytes":340,"form":"int8-g32","size_bytes":360})"));
  EXPECT_THAT(json["tensors"][1]["refused"].get<std::string>(),
              HasSubstr("int4-g32-f16 is closest"));
}

TEST_F(WeightsCommands, BlocksAreReadWhereThatIsAskedFor) {
  const auto nan = [&](const std::vector<std::string>& arguments) {
    return Json(arguments)["tensors"][0];
  };
  EXPECT_EQ(nan({"weights", gguf_, "--prefix", "nan"})["form"], "int8-g32");
  EXPECT_THAT(nan({"weights", gguf_, "--prefix", "nan", "--check"})["refused"].get<std::string>(),
              HasSubstr("the block of row 0, columns 0 to 31 has no form in int8-g32: its scale is "
                        "nan"));
}

TEST_F(WeightsCommands, ATerminalIsGivenNoNameToObey) {
  const std::string path = directory_.File(
      "x", GgufBytes().Tensor("a\x1b[2J\xff", {1, 1}, 0, std::string(4, '\0')).Bytes());
  EXPECT_THAT(Output({"weights", path}), HasSubstr("\"a\\x1b[2J\\xff\""));
  EXPECT_THAT(Output({"put", path, "--all", "--name", ""}), HasSubstr("x:\"a\\x1b[2J\\xff\"\n"));
  EXPECT_THAT(Gemm({"put", path, "--all"}).error,
              HasSubstr("--name is \"a\\x1b[2J\\xff\"; a name is UTF-8 without control"));
  EXPECT_THAT(Json({"weights", path})["tensors"][0]["name"].get<std::string>(), HasSubstr("[2J"));
}

TEST_F(WeightsCommands, ATensorIsPutAsTheSameMatrixOfANpyFileIs) {
  const std::string digest = Digest({Npy("w.npy", kN, kK, Integers())});
  EXPECT_EQ(Digest({many_ + ":fc.weight"}), digest);
  EXPECT_EQ(Digest({one_}), digest);
  const std::string index = directory_.File("model.safetensors.index.json",
                                            R"({"weight_map":{"fc.weight":"many.safetensors"}})");
  EXPECT_EQ(Digest({index + ":fc.weight"}), digest);
  EXPECT_EQ(Digest({index}), digest);
}

TEST_F(WeightsCommands, ATensorIsQuantizedAsTheSameMatrixOfANpyFileIs) {
  const std::string npy = Npy("w.npy", kN, kK, Integers());
  const std::vector<std::string> how = {"--as", "int4-g32-f16", "--k-axis", "1"};
  const auto quantized = [&](const std::string& from) {
    std::vector<std::string> arguments = {"quantize", from, "-o", directory_.Path("w.gq")};
    arguments.insert(arguments.end(), how.begin(), how.end());
    Output(arguments);
    return testing::FileBytes(directory_.Path("w.gq"));
  };
  const std::string expected = quantized(npy);
  EXPECT_NE(expected, "");
  EXPECT_EQ(quantized(one_), expected);
  EXPECT_EQ(quantized(many_ + ":fc.weight"), expected);
  std::vector<std::string> put = {npy};
  put.insert(put.end(), how.begin(), how.end());
  const std::string digest = Digest(put);
  put[0] = one_;
  EXPECT_EQ(Digest(put), digest);
  put.emplace_back("--on-arrival");
  EXPECT_EQ(Digest(put), digest);
}

TEST_F(WeightsCommands, AQuantizedTensorMultipliesByItsValues) {
  const std::string unit = Npy("e.npy", kK, kK, Unit());
  std::vector<float> expected;
  for (int k = 0; k < kK; ++k) {
    for (int n = 0; n < kN; ++n) {
      expected.push_back(static_cast<float>(n - 20 + k % 32) * (k < 32 ? -2.0F : 0.5F));
    }
  }
  EXPECT_EQ(Product({unit, gguf_ + ":q8", "--transpose-b"}), expected);
  const nlohmann::json put = Json({"put", gguf_ + ":q8"});
  const std::string handle = put["residents"][0]["handle"];
  EXPECT_EQ(Product({unit, "@" + handle, "--transpose-b"}), expected);
  EXPECT_THAT(Refusal({"matmul", unit, gguf_ + ":q8", "-o", "d.npy"}, 2),
              HasSubstr("was quantized along axis 1"));
}

TEST_F(WeightsCommands, AQuantizedTensorIsWrittenInItsOwnForm) {
  const std::string gq = directory_.Path("w.gq");
  EXPECT_EQ(Output({"quantize", gguf_ + ":q8", "-o", gq}),
            "5 x 64 -> w.gq: int8-g32 along axis 1, 360 B, its own form: nothing is rounded\n");
  EXPECT_EQ(Digest({gq}), Digest({gguf_ + ":q8"}));
  const std::string unit = Npy("e.npy", kK, kK, Unit());
  EXPECT_EQ(Product({unit, gq, "--transpose-b"}), Product({unit, gguf_ + ":q8", "--transpose-b"}));
  // A container is written as it was.
  const std::string again = directory_.Path("again.gq");
  const nlohmann::json json = Json({"quantize", gq, "-o", again});
  EXPECT_EQ(json["format"], "int8-g32");
  EXPECT_EQ(json["k_axis"], 1);
  EXPECT_EQ(json["bytes"], 360);
  EXPECT_EQ(json["relative_error"], 0.0);
  EXPECT_EQ(testing::FileBytes(again), testing::FileBytes(gq));
  EXPECT_EQ(Output({"quantize", gguf_ + ":q8", "-o", "-"}), testing::FileBytes(gq));
}

TEST_F(WeightsCommands, AMatrixOfAStackIsWrittenInItsOwnForm) {
  const std::string path =
      directory_.File("stack.safetensors",
                      SafetensorsBytes({{"e.up", "F8_E4M3", absl::StrCat("[3,", kN, ",", kK, "]"),
                                         std::string(3 * kN * kK, '\x38')},
                                        {"e.up_scale", "F32", "[3]", BytesOf({2, -1, 0.5})}}));
  const std::string gq = directory_.Path("w.gq");
  EXPECT_THAT(Output({"quantize", path + ":e.up[1]", "-o", gq}),
              HasSubstr("5 x 64 -> w.gq: fp8-e4m3-tensor along axis 1, 324 B"));
  EXPECT_EQ(Digest({gq}), Digest({path + ":e.up[1]"}));
  EXPECT_THAT(Refusal({"quantize", path + ":e.up", "-o", gq}, 3),
              HasSubstr("it is a stack of 3 matrices, which go one by one"));
}

TEST_F(WeightsCommands, WhatHasNoOwnFormIsRefusedWithoutAFile) {
  const std::string gq = directory_.Path("w.gq");
  const auto refusal = [&](const std::string& file, int exit_code,
                           const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"quantize", file, "-o", gq};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Refusal(arguments, exit_code);
  };
  EXPECT_THAT(refusal(one_, 2),
              HasSubstr("--as is required: one.safetensors is f32; add --as FORMAT, such as "
                        "int4-g128-f16, and --k-axis 1 where K is its columns"));
  const std::string bytes = directory_.File(
      "i8.safetensors", SafetensorsBytes({{"w", "I8", "[2,2]", std::string(4, '\1')}}));
  EXPECT_THAT(refusal(bytes + ":w", 2),
              HasSubstr("i8.safetensors:w is int8 without scales, and a container has some; gemm "
                        "put takes it as it is"));
  const std::string npy = Npy("w.npy", kN, kK, Integers());
  EXPECT_THAT(refusal(npy, 2), HasSubstr("--as is required: w.npy is no tensor that is quantized "
                                         "already, and no container; add --as FORMAT"));
  EXPECT_THAT(refusal(gguf_ + ":q2", 3), HasSubstr("IQ2_XXS has no form here"));
  EXPECT_THAT(refusal(gguf_ + ":nan", 3), HasSubstr("the block of row 0, columns 0 to 31"));
  EXPECT_THAT(refusal(many_, 3), HasSubstr("has 2 matrices among 3 tensors"));
  EXPECT_THAT(refusal(directory_.File("x.gq", "short"), 3), HasSubstr("the file has 5 bytes"));
  const std::vector<std::vector<std::string>> of_as = {{"--k-axis", "1"},
                                                       {"--scale-layout", "plain"},
                                                       {"--shape", "2x2"},
                                                       {"--type", "f32"},
                                                       {"--order", "row-major"}};
  for (const std::vector<std::string>& more : of_as) {
    EXPECT_THAT(refusal(gguf_ + ":q8", 2, more), HasSubstr(more[0] + " requires --as"));
  }
  EXPECT_THAT(refusal(gguf_ + ":q8", 2, {"--stochastic", "1"}),
              HasSubstr("--scale-rule and --stochastic go with --as"));
  EXPECT_EQ(testing::FileBytes(gq), "");
}

TEST_F(WeightsCommands, AllTensorsWithAFormArePut) {
  const testing::ProcessResult all = Gemm({"put", many_, "--all"});
  EXPECT_EQ(all.exit_code, 0) << all.error;
  EXPECT_THAT(all.output, HasSubstr("many.safetensors:fc.weight\n"));
  EXPECT_THAT(all.error,
              HasSubstr("gemm: left out fc.bias: its shape [5] has 1 dimension; a matrix has 2, a "
                        "stack of them 3\n"));
  EXPECT_THAT(all.error, HasSubstr("gemm: left out fd.weight: I64 has no form here"));
  const nlohmann::json json = Json({"put", many_, "--all", "--prefix", "fc."});
  ASSERT_EQ(json["residents"].size(), 1U);
  EXPECT_EQ(json["residents"][0]["tensor"], "fc.weight");
  EXPECT_EQ(json["residents"][0]["digest"], Digest({Npy("w.npy", kN, kK, Integers())}));
  ASSERT_EQ(json["refused"].size(), 1U);
  EXPECT_EQ(json["refused"][0]["tensor"], "fc.bias");
  // One whose blocks have no form is left out too.
  const nlohmann::json gguf = Json({"put", gguf_, "--all"});
  ASSERT_EQ(gguf["residents"].size(), 1U);
  EXPECT_EQ(gguf["residents"][0]["tensor"], "q8");
  EXPECT_EQ(gguf["refused"].size(), 2U);
}

TEST_F(WeightsCommands, AMatrixOfAStackAndItsScalesAreOneOperand) {
  // Codes of E4M3 that are 1, and scales of each of three matrices.
  const std::string scales = BytesOf({2, -1, 0.5});
  const std::string path =
      directory_.File("stack.safetensors",
                      SafetensorsBytes({{"e.up", "F8_E4M3", absl::StrCat("[3,", kN, ",", kK, "]"),
                                         std::string(3 * kN * kK, '\x38')},
                                        {"e.up_scale", "F32", "[3]", scales}}));
  const nlohmann::json listed = Json({"weights", path, "--check"})["tensors"];
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0]["form"], "fp8-e4m3-tensor");
  EXPECT_EQ(listed[0]["matrices"], 3);
  EXPECT_EQ(listed[0]["size_bytes"], 3 * (kN * kK + 4));
  const std::string unit = Npy("e.npy", kK, kK, Unit());
  EXPECT_EQ(Product({unit, path + ":e.up[1]", "--transpose-b"}), std::vector<float>(kK * kN, -1));
  EXPECT_THAT(
      Refusal({"put", path + ":e.up"}, 3),
      HasSubstr("it is a stack of 3 matrices, which go one by one: \"e.up\" and its index"));
  EXPECT_THAT(Refusal({"put", path + ":e.up[3]"}, 3), HasSubstr("there is no matrix 3"));
  const nlohmann::json all = Json({"put", path, "--all"});
  ASSERT_EQ(all["residents"].size(), 3U);
  EXPECT_EQ(all["residents"][2]["tensor"], "e.up[2]");
  EXPECT_EQ(all["residents"][2]["names"], nlohmann::json({"e.up[2]"}));
  // A pattern names them anew, and each matrix keeps the name that it had.
  EXPECT_THAT(Output({"put", path, "--all", "--name", "m/{}"}),
              HasSubstr(":e.up[2]  @e.up[2]  @m/e.up[2]\n"));
  EXPECT_EQ(Json({"rm", "m/e.up[?]"})["released"].size(), 3U);
  EXPECT_EQ(Json({"ls", "e.up[*]"})["residents"].size(), 3U);
  EXPECT_THAT(Refusal({"put", path, "--all", "--name", "m"}, 2),
              HasSubstr("--name is \"m\"; with --all it must have {}, the tensor's name"));
}

TEST_F(WeightsCommands, ManyTensorsGoAtATimeAndAreSaidInTheirOrder) {
  std::vector<testing::SafetensorsPart> parts;
  std::string names;
  for (int i = 10; i < 50; ++i) {
    std::string bytes(static_cast<std::size_t>(i) * 4096, static_cast<char>(i));
    parts.push_back({absl::StrCat("t", i), "I8", absl::StrCat("[", i, ",4096]"), bytes});
    absl::StrAppend(&names, "t", i, " ");
  }
  const std::string path = directory_.File("t.safetensors", SafetensorsBytes(parts));
  // Begun again, it sends no byte that the server has.
  const auto uploaded = [&]() -> std::uint64_t {
    return Json({"stats"})["operands"]["uploaded_bytes"];
  };
  const std::uint64_t before = uploaded();
  EXPECT_EQ(Json({"put", path, "--all", "--prefix", "t2"})["residents"].size(), 10U);
  EXPECT_EQ(uploaded() - before, 4096U * (20 + 29) * 5);
  std::string said;
  for (const auto line : absl::StrSplit(Output({"put", path, "--all"}), '\n', absl::SkipEmpty())) {
    absl::StrAppend(&said, line.substr(line.rfind(':') + 1), " ");
  }
  EXPECT_EQ(said, names);
  EXPECT_EQ(uploaded() - before, 4096U * (10 + 49) * 20);
  said.clear();
  const nlohmann::json again = Json({"put", path, "--all"});
  for (const nlohmann::json& each : again["residents"]) {
    absl::StrAppend(&said, each["tensor"].get<std::string>(), " ");
  }
  EXPECT_EQ(said, names);
}

// A file may be larger than the memory of whoever sends it: only windows of it are there.
TEST_F(WeightsCommands, AMatrixIsSentInLittleMemory) {
  constexpr std::uint64_t kRows = 48 << 10;  // 384 MiB
  const std::string json = absl::StrCat(R"({"w":{"dtype":"BF16","shape":[)", kRows,
                                        R"(,4096],"data_offsets":[0,)", kRows * 8192, R"(]}})");
  const std::string path = directory_.File("w.safetensors", testing::SafetensorsOf(json, ""));
  // Holes, which are zeros and take no room on the disk.
  ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(8 + json.size() + kRows * 8192)), 0);
  const nlohmann::json put = Json({"put", path, "--all"});
  ASSERT_EQ(put["residents"].size(), 1U);
  struct rusage children;
  ASSERT_EQ(::getrusage(RUSAGE_CHILDREN, &children), 0);
  EXPECT_LT(children.ru_maxrss, 256 << 10);  // KiB, of gemm: the server has not ended
  EXPECT_EQ(Gemm({"rm", put["residents"][0]["handle"]}).exit_code, 0);
}

TEST_F(WeightsCommands, AnArrayOfAnArchiveIsPutAsTheSameNpyFileIs) {
  const std::string npy = Npy("w.npy", kN, kK, Integers());
  const std::string npz = directory_.File(
      "w.npz", testing::NpzBytes().Member("w.npy", testing::FileBytes(npy)).Bytes());
  EXPECT_EQ(Digest({npz}), Digest({npy}));
  EXPECT_THAT(Output({"weights", npz}), HasSubstr("npz: 1 tensor, 1 with a form here"));
}

TEST_F(WeightsCommands, AnInitializerOfAModelIsPutAsTheSameNpyFileIs) {
  const std::string npy = Npy("w.npy", kN, kK, Integers());
  const std::string data = Integers();
  const std::string onnx = directory_.File(
      "m.onnx",
      testing::OnnxBytes()
          .Tensor(testing::OnnxBytes::External("onnx::MatMul_1", 1, {kN, kK}, "m.onnx.data", "3",
                                               absl::StrCat(data.size())))
          .Bytes());
  directory_.File("m.onnx.data", "..." + data);
  EXPECT_EQ(Digest({onnx + ":onnx::MatMul_1"}), Digest({npy}));
  EXPECT_THAT(Output({"weights", onnx}), HasSubstr("ONNX: 1 tensor, 1 with a form here"));
}

TEST_F(WeightsCommands, WrongUseIsExplained) {
  EXPECT_EQ(Refusal({"put", many_}, 3),
            "gemm: many.safetensors: has 2 matrices among 3 tensors; say which one: "
            "many.safetensors:NAME (gemm weights lists their names)\n");
  EXPECT_EQ(Refusal({"quantize", many_, "--as", "mxfp4", "-o", "w.gq"}, 3),
            "gemm: many.safetensors: has 2 matrices among 3 tensors; say which one: "
            "many.safetensors:NAME (gemm weights lists their names)\n");
  EXPECT_THAT(
      Refusal({"put", many_ + ":weight"}, 3),
      HasSubstr("has no tensor \"weight\" among 3; like it are \"fc.weight\", \"fd.weight\""));
  EXPECT_THAT(Refusal({"put", many_ + ":fc.bias"}, 3),
              HasSubstr("many.safetensors: tensor \"fc.bias\": its shape [5] has 1 dimension"));
  EXPECT_THAT(Refusal({"put", gguf_ + ":q2"}, 3),
              HasSubstr("m.gguf: tensor \"q2\": IQ2_XXS has no form here"));
  EXPECT_THAT(Refusal({"put", gguf_ + ":nan"}, 3),
              HasSubstr("m.gguf: tensor \"nan\": the block of row 0, columns 0 to 31"));
  EXPECT_THAT(Refusal({"put", one_, "--type", "bf16"}, 2),
              HasSubstr("one.safetensors says its type itself, f32"));
  EXPECT_THAT(Refusal({"put", gguf_ + ":q8", "--type", "int8-g32"}, 2),
              HasSubstr("says its type and scale layout itself"));
  EXPECT_THAT(Refusal({"quantize", gguf_ + ":q8", "--as", "mxfp4", "-o", "w.gq"}, 2),
              HasSubstr("m.gguf:q8 is quantized already"));
  EXPECT_THAT(
      Refusal({"matmul", one_, one_, "--transpose-b", "--beta", "1", "--c", gguf_ + ":q8"}, 2),
      HasSubstr("m.gguf has int8-g32 for c, which must be a plain matrix"));
  const std::string cut = directory_.File("cut.safetensors", testing::SafetensorsOf("{", ""));
  EXPECT_THAT(Refusal({"put", cut}, 3), HasSubstr("cut.safetensors: the header is no JSON"));

  const std::string npy = Npy("w.npy", kN, kK, Integers());
  EXPECT_THAT(Refusal({"weights", npy}, 3), HasSubstr("it is a .npy file, which goes as it is"));
  EXPECT_THAT(Refusal({"weights", directory_.Path("missing")}, 3), HasSubstr("missing: open"));
  EXPECT_THAT(Refusal({"put", npy, "--all"}, 2), HasSubstr("--all: w.npy is no file of weights"));
  EXPECT_THAT(Refusal({"put", many_ + ":fc.weight", "--all"}, 2), HasSubstr("names one tensor"));
  EXPECT_THAT(Refusal({"put", many_, one_, "--all"}, 2), HasSubstr("--all takes one FILE"));
  EXPECT_THAT(Refusal({"put", many_, "--all", "--type", "f32"}, 2),
              HasSubstr("the file says its types and shapes itself"));
  EXPECT_THAT(Refusal({"put", many_, "--prefix", "fc"}, 2), HasSubstr("--all"));
  EXPECT_THAT(Refusal({"put", many_, "--all", "--prefix", "none"}, 3),
              HasSubstr("--all: no tensor was put; 0 have no form, of those whose names begin with "
                        "\"none\""));
  const std::string gq = directory_.Path("w.gq");
  Output({"quantize", npy, "--as", "mxfp4", "--k-axis", "1", "-o", gq});
  EXPECT_THAT(Refusal({"weights", gq}, 3), HasSubstr("gemm quantize wrote it: it is one matrix"));
  EXPECT_THAT(Output({"put", gq}), Not(HasSubstr("left out")));
}

}  // namespace
}  // namespace gemmd::cli
