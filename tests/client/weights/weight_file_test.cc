#include "client/weights/weight_file.h"

#include <unistd.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/weights/safetensors_types.h"
#include "client/weights/weight_form.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/temporary_directory.h"
#include "tests/client/testing/weight_bytes.h"

namespace gemmd::client {
namespace {

using ::gemmd::testing::GgufBytes;
using ::gemmd::testing::Little;
using ::gemmd::testing::OnnxBytes;
using ::gemmd::testing::SafetensorsBytes;
using ::gemmd::testing::SafetensorsOf;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class WeightFileTest : public ::testing::Test {
 protected:
  std::string File(const std::string& name, const std::string& bytes) const {
    return directory_.File(name, bytes);
  }
  // The error of such a file, which begins with its path.
  std::string Why(const std::string& name, const std::string& bytes) const {
    const std::string path = File(name, bytes);
    const auto file = WeightFile::Open(path);
    EXPECT_FALSE(file.ok()) << name;
    EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(file.status().message()), StartsWith(path + ": "));
    EXPECT_LT(file.status().message().size(), 600U);
    return std::string(file.status().message()).substr(path.size() + 2);
  }

  testing::TemporaryDirectory directory_;
};

TEST_F(WeightFileTest, TheBytesSayWhatAFileIs) {
  const std::string one = SafetensorsBytes({{"w", "F32", "[1,1]", "abcd"}});
  GgufBytes gguf;
  gguf.Tensor("w", {1, 1}, 0, "efgh");
  File("s", one);
  const struct {
    std::string path;
    WeightFileKind kind;
    std::string bytes;
  } cases[] = {
      {File("a", one), WeightFileKind::kSafetensors, "abcd"},
      {File("b", gguf.Bytes()), WeightFileKind::kGguf, "efgh"},
      {File("c", R"({"weight_map":{"w":"s"}})"), WeightFileKind::kShards, "abcd"},
      {File("d", OnnxBytes().Tensor(OnnxBytes::Raw("w", 1, {1, 1}, "ijkl")).Bytes()),
       WeightFileKind::kOnnx, "ijkl"},
  };
  for (const auto& each : cases) {
    EXPECT_TRUE(BeginsAsWeights(each.path));
    const auto file = WeightFile::Open(each.path);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->kind(), each.kind);
    EXPECT_FALSE(file->is_container());
    ASSERT_EQ(file->tensors().size(), 1U);
    EXPECT_EQ(file->tensors()[0].name, "w");
    EXPECT_EQ(file->tensors()[0].type, "F32");
    EXPECT_EQ(file->tensors()[0].is_gguf, each.kind == WeightFileKind::kGguf);
    EXPECT_THAT(file->tensors()[0].shape, ElementsAre(1, 1));
    EXPECT_EQ(file->tensors()[0].bytes.view(), each.bytes);
  }
}

TEST_F(WeightFileTest, OthersAreRefusedByWhatTheyAre) {
  EXPECT_THAT(Why("x", ""),
              HasSubstr("begins with \"\"; safetensors, their index.json, GGUF, .npz and ONNX"));
  EXPECT_THAT(Why("x", "12345678"), HasSubstr("begins with \"12345678\""));
  EXPECT_THAT(Why("x", "\x93NUMPY\x01 and so on"), HasSubstr("it is a .npy file"));
  EXPECT_THAT(Why("x", "PK\3\4 and so on"),
              HasSubstr("begins as a zip archive and has no end record of one"));
  EXPECT_THAT(Why("x", "\x80\x02}q and so on"), HasSubstr("it is a pickle"));
  EXPECT_THAT(Why("x", "\x89HDF\r\n and so on"), HasSubstr("it is an HDF5 file"));
  EXPECT_FALSE(BeginsAsWeights(File("x", "\x93NUMPY\x01 and so on")));
  EXPECT_FALSE(BeginsAsWeights(directory_.Path("missing")));
  EXPECT_FALSE(WeightFile::Open(directory_.Path("missing")).ok());
}

TEST_F(WeightFileTest, EveryTypeOfSafetensorsHasItsBytes) {
  EXPECT_EQ(SafetensorsTypes().size(), 22U);
  for (const SafetensorsType& type : SafetensorsTypes()) {
    const std::string bytes(static_cast<std::size_t>(type.bits), 'x');  // of 2 x 4 elements
    const auto file = WeightFile::Open(
        File("x", SafetensorsBytes({{"w", std::string(type.name), "[2,4]", bytes}})));
    ASSERT_TRUE(file.ok()) << type.name << ": " << file.status();
    EXPECT_EQ(file->tensors()[0].type, type.name);
    EXPECT_EQ(file->tensors()[0].bytes.view(), bytes);
    EXPECT_THAT(
        Why("x", SafetensorsBytes({{"w", std::string(type.name), "[2,4]", bytes.substr(1)}})),
        HasSubstr(absl::StrCat("tensor \"w\" of ", type.name, " and shape [2, 4] takes ", type.bits,
                               " bytes, but its data_offsets have ", type.bits - 1)));
  }
}

TEST_F(WeightFileTest, OurOwnContainersAreKnownByTheirMetadata) {
  const auto file = WeightFile::Open(
      File("x", SafetensorsBytes({{"data", "U8", "[1,1]", "x"}}, R"({"gemmd.format":"mxfp4"})")));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->is_container());
}

TEST_F(WeightFileTest, HostileSafetensorsAreRefusedByName) {
  const auto json = [](const std::string& fields) { return "{\"w\":{" + fields + "}}"; };
  const std::string good = R"("dtype":"F32","shape":[1,2],"data_offsets":[0,8])";
  ASSERT_TRUE(WeightFile::Open(File("x", SafetensorsOf(json(good), std::string(8, 'x')))).ok());
  const auto changed = [&](const std::string& was, const std::string& is) {
    return SafetensorsOf(json(absl::StrReplaceAll(good, {{was, is}})), std::string(8, 'x'));
  };
  EXPECT_THAT(Why("x", changed("F32", "F33")),
              HasSubstr("tensor \"w\" has dtype \"F33\", which safetensors 0.8 has not"));
  EXPECT_THAT(Why("x", changed("[1,2]", "[1,3]")), HasSubstr("takes 12 bytes, but its data_off"));
  EXPECT_THAT(Why("x", changed("[1,2]", "[9223372036854775808,2]")),
              HasSubstr("has shape [9223372036854775808, 2], which is 2^61 bytes or more"));
  EXPECT_THAT(Why("x", changed("[1,2]", "[9223372036854775808,0]")),
              HasSubstr("takes 0 bytes, but its data_offsets have 8"));
  EXPECT_THAT(Why("x", changed("[0,8]", "[0,9223372036854775808]")),
              HasSubstr("tensor \"w\" has data_offsets 0 to 9223372036854775808"));
  EXPECT_THAT(Why("x", changed("[0,8]", "[8,0]")), HasSubstr("has data_offsets 8 to 0"));
  EXPECT_THAT(Why("x", changed("\"F32\"", std::string(100000, '['))), HasSubstr("has an array"));
  EXPECT_THAT(Why("x", SafetensorsOf(json(good), std::string(9, 'x'))),
              HasSubstr("byte 8 of the 9 behind the header belongs to no tensor"));
  EXPECT_THAT(Why("x", SafetensorsOf(json(good), "1234567")), HasSubstr("within the 7 bytes"));
  EXPECT_THAT(Why("x", SafetensorsOf("{" + json(good).substr(1, json(good).size() - 2) + "," +
                                         json(good).substr(1),
                                     std::string(8, 'x'))),
              HasSubstr("the header has \"w\" twice"));
  EXPECT_THAT(Why("x", SafetensorsBytes({{"a", "F4", "[3]", "xx"}})),
              HasSubstr("tensor \"a\" has 12 bits, which are no whole bytes"));
  EXPECT_THAT(Why("x", Little(std::uint64_t{1} << 63, 8) + "{}"),
              HasSubstr("header length 9223372036854775808: 1 to 100000000 bytes are accepted"));
  EXPECT_THAT(Why("x", Little(100, 8) + "{}"), HasSubstr("reaches beyond the file of 10 bytes"));
  const std::string overlapping = R"({"v":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                                  R"("w":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})";
  EXPECT_THAT(Why("x", SafetensorsOf(overlapping, "123456")),
              HasSubstr("tensor \"w\" begins at byte 2, within another one"));
}

TEST_F(WeightFileTest, AHeaderMayBeLongButNotHaveTensorsWithoutEnd) {
  std::string json = "{\"__metadata__\":{\"k\":\"" + std::string(200000, 'x') + "\"}";
  const std::string tensor = R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  for (int i = 0; i < 1 << 18; ++i) absl::StrAppend(&json, ",\"", i, tensor);
  const auto file = WeightFile::Open(File("x", SafetensorsOf(json + "}", "")));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tensors().size(), 262144U);
  EXPECT_THAT(Why("x", SafetensorsOf(json + ",\"more" + tensor + "}", "")),
              HasSubstr("the header has more than 262144 tensors"));
}

TEST_F(WeightFileTest, AFileCutAnywhereIsRefused) {
  GgufBytes gguf;
  gguf.Tensor("w", {1, 1}, 0, "efgh");
  for (const std::string& whole :
       {SafetensorsBytes({{"w", "F32", "[1,1]", "abcd"}}), gguf.Bytes()}) {
    for (std::size_t length = 0; length < whole.size(); ++length) {
      EXPECT_FALSE(WeightFile::Open(File("x", whole.substr(0, length))).ok()) << length;
    }
  }
}

TEST_F(WeightFileTest, ShardsHaveWhatTheIndexSays) {
  File("one", SafetensorsBytes({{"b", "U8", "[1]", "b"}, {"extra", "U8", "[1]", "x"}}));
  File("two", SafetensorsBytes({{"a", "U8", "[1]", "a"}, {"b", "U8", "[1]", "?"}}));
  const std::string index = R"({"weight_map":{"a":"two","b":"one"}})";
  const auto file = WeightFile::Open(File("index", index));
  ASSERT_TRUE(file.ok()) << file.status();
  // b is in both: the index says which is meant.
  std::string found;
  for (const WeightTensor& tensor : file->tensors()) {
    absl::StrAppend(&found, tensor.name, "=", tensor.bytes.view(), " ");
  }
  EXPECT_EQ(found, "a=a b=b ");
  EXPECT_THAT(Why("index", R"({"weight_map":{"a":"one"}})"),
              HasSubstr("weight_map's \"a\" is not in \"one\""));
  const auto missing = WeightFile::Open(File("index", R"({"weight_map":{"a":"three"}})"));
  EXPECT_THAT(
      std::string(missing.status().message()),
      AllOf(StartsWith(directory_.Path("index") + ": "), HasSubstr("three: open: No such file")));
  File("three", "no tensors");
  const auto bad = WeightFile::Open(File("index", R"({"weight_map":{"a":"three"}})"));
  EXPECT_THAT(std::string(bad.status().message()),
              AllOf(StartsWith(directory_.Path("three") + ": "), HasSubstr("header length")));
}

TEST_F(WeightFileTest, AShardIsFoundBesideItsIndex) {
  File("s", SafetensorsBytes({{"a", "U8", "[1]", "a"}}));
  File("index", R"({"weight_map":{"a":"s"}})");
  const std::string folder = directory_.Path("");
  ASSERT_EQ(::chdir(folder.c_str()), 0);
  const auto file = WeightFile::Open("index");
  ASSERT_EQ(::chdir("/"), 0);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tensors()[0].bytes.view(), "a");
}

TEST_F(WeightFileTest, AModelMayHaveItsDataInFilesBesideIt) {
  const std::string model =
      OnnxBytes().Tensor(OnnxBytes::External("w", 3, {1, 2}, "m.data", "1", "2")).Bytes();
  const std::string path = File("m.onnx", model);
  const auto missing = WeightFile::Open(path);
  EXPECT_THAT(std::string(missing.status().message()),
              AllOf(StartsWith(path + ": "), HasSubstr("m.data: open: No such file")));
  File("m.data", "abcd");
  const auto file = WeightFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->Find("w")->bytes.view(), "bc");
  EXPECT_THAT(Why("x", OnnxBytes::ModelOf("")), HasSubstr("begins as an ONNX model and has no"));
}

TEST_F(WeightFileTest, AHeadersLengthIsNotTakenForAModel) {
  // A length of 0x120a08 begins as a ModelProto does.
  const std::string json = R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  const std::string blanks(0x120a08 - json.size(), ' ');
  const auto file = WeightFile::Open(File("x", SafetensorsOf(json + blanks, "a")));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->kind(), WeightFileKind::kSafetensors);
  EXPECT_THAT(Why("x.onnx", "no model"), HasSubstr("an ONNX file begins with its ir_version"));
}

TEST_F(WeightFileTest, AConfigBesideItSaysThatTensorsAreLayers) {
  const std::string layer = SafetensorsBytes({{"l.qweight", "I32", "[16,8]", std::string(512, 'q')},
                                              {"l.qzeros", "I32", "[1,1]", std::string(4, 'z')},
                                              {"l.scales", "F16", "[1,8]", std::string(16, 's')},
                                              {"norm", "F16", "[4]", std::string(8, 'n')}});
  const auto names = [&] {
    std::string text;
    const auto file = WeightFile::Open(File("x", layer));
    EXPECT_TRUE(file.ok()) << file.status();
    if (!file.ok()) return text;
    for (const WeightTensor& tensor : file->tensors()) {
      absl::StrAppend(&text, tensor.name, " ", tensor.type, " ");
    }
    return text;
  };
  const std::string as_they_are = "l.qweight I32 l.qzeros I32 l.scales F16 norm F16 ";
  EXPECT_EQ(names(), as_they_are);
  File("config.json", R"({"model_type":"llama"})");
  EXPECT_EQ(names(), as_they_are);
  const std::string gptq =
      R"({"quantization_config":{"quant_method":"gptq","bits":4,"group_size":128}})";
  File("config.json", gptq);
  EXPECT_EQ(names(), "l.weight GPTQ norm F16 ");
  const auto shards = WeightFile::Open(
      File("index", R"({"weight_map":{"l.qweight":"x","l.qzeros":"x","l.scales":"x"}})"));
  ASSERT_TRUE(shards.ok()) << shards.status();
  ASSERT_EQ(shards->tensors().size(), 1U);
  EXPECT_EQ(shards->tensors()[0].type, "GPTQ");
  File("config.json", "{");
  const std::string why = std::string(WeightFile::Open(File("x", layer)).status().message());
  EXPECT_EQ(why, directory_.Path("config.json") + ": is no JSON object");
  File("config.json", std::string((1 << 20) + 1, ' '));
  EXPECT_THAT(std::string(WeightFile::Open(File("x", layer)).status().message()),
              HasSubstr("config.json: has 1048577 bytes; at most 1048576 are accepted"));
  // It does not matter where nothing is packed.
  EXPECT_TRUE(WeightFile::Open(File("y", SafetensorsBytes({{"w", "U8", "[1]", "x"}}))).ok());
}

TEST_F(WeightFileTest, AScaleBesideAMatrixIsOneWithIt) {
  const std::string both =
      SafetensorsBytes({{"l.weight", "F8_E4M3", "[4,256]", std::string(1024, 'q')},
                        {"l.weight_scale", "F32", "[4,4]", std::string(64, '1')}});
  const auto form = [&] {
    const auto file = WeightFile::Open(File("x", both));
    EXPECT_TRUE(file.ok()) << file.status();
    if (!file.ok() || file->tensors().size() != 1) return std::string();
    const auto found = FormOf(file->tensors()[0]);
    return found.ok() ? found->name : std::string(found.status().message());
  };
  EXPECT_THAT(form(), HasSubstr("it has a scale of f32 for each 1 x 64 fp8_e4m3"));
  // Sizes of a config count where they fit, of the first file that has any; old ones of GPTQ and
  // AWQ are not for these.
  File("quantize_config.json", "{");
  File("hf_quant_config.json", R"({"quantization":{"weight_block_size":[1,64]}})");
  EXPECT_THAT(form(), HasSubstr("it has a scale of f32 for each 1 x 64 fp8_e4m3"));
  File("config.json", R"({"quantization_config":[]})");
  EXPECT_THAT(form(), HasSubstr("it has a scale of f32 for each 1 x 64 fp8_e4m3"));
  File("config.json", R"({"quantization_config":{"quant_method":7}})");
  EXPECT_EQ(WeightFile::Open(File("x", both)).status().message(),
            directory_.Path("config.json") +
                ": quantization_config: quant_method is \"7\"; it must be a text");
}

TEST_F(WeightFileTest, OldConfigsSayThatTensorsAreLayers) {
  const std::string layer =
      SafetensorsBytes({{"l.qweight", "I32", "[32,8]", std::string(1024, 'q')},
                        {"l.qzeros", "I32", "[1,2]", std::string(8, 'z')},
                        {"l.scales", "F16", "[1,8]", std::string(16, 's')}});
  File("quantize_config.json", R"({"bits":8,"group_size":128,"desc_act":false})");
  const auto file = WeightFile::Open(File("x", layer));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->tensors().size(), 1U);
  EXPECT_EQ(FormOf(file->tensors()[0])->name, "uint8-row-zp");
  File("config.json",
       R"({"quantization_config":{"quant_method":"gptq","bits":4,"group_size":128}})");
  const auto other = WeightFile::Open(File("x", layer));
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_THAT(std::string(FormOf(other->tensors()[0]).status().message()),
              HasSubstr("its qzeros is I32 of [1, 2]; it must be I32 of [2, 1]"));
}

TEST_F(WeightFileTest, PagesThatWereReleasedAreReadAgain) {
  std::string codes;
  for (int i = 0; i < 1 << 16; ++i) codes += static_cast<char>(i >> 8);
  const auto file = WeightFile::Open(
      File("x", SafetensorsBytes({{"plain", "U8", "[256,256]", codes},
                                  {"w", "I8", "[256,256]", codes},
                                  {"w_scale", "F32", "[1]", std::string(4, '1')}})));
  ASSERT_TRUE(file.ok()) << file.status();
  for (const WeightTensor& tensor : file->tensors()) ReleasePages(tensor);
  EXPECT_EQ(file->Find("plain")->bytes.view(), codes);
  const auto operand = OperandOf(*file->Find("w"));
  ASSERT_TRUE(operand.ok()) << operand.status();
  EXPECT_EQ(std::get<QuantizedArray>(*operand).codes.view(), codes);
}

TEST_F(WeightFileTest, AMatrixOfAStackHasItsIndexInItsName) {
  const auto file = WeightFile::Open(File("x", SafetensorsBytes({{"e.w", "U8", "[3,1,2]", "abcdef"},
                                                                 {"e.w[1]", "U8", "[1,1]", "?"},
                                                                 {"flat", "U8", "[2]", "gh"}})));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->Find("e.w[2]")->bytes.view(), "ef");
  EXPECT_EQ(file->Find("e.w[1]")->bytes.view(), "?");
  EXPECT_EQ(file->Find("e.w[3]").status().message(),
            directory_.Path("x") + ": \"e.w\" has shape [3, 1, 2]; there is no matrix 3");
  for (const char* name : {"flat[0]", "e.w[-1]", "e.w[]", "e.w[1", "e.w[18446744073709551616]"}) {
    EXPECT_THAT(std::string(file->Find(name).status().message()), HasSubstr("has no tensor"));
  }
}

TEST_F(WeightFileTest, ANameThatIsNotThereHasLikeOnes) {
  const auto file = WeightFile::Open(File(
      "x", SafetensorsBytes({{"model.0.weight", "U8", "[1]", "a"}, {"bias", "U8", "[1]", "b"}})));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->Find("bias")->bytes.view(), "b");
  const absl::Status like = file->Find("0.weight").status();
  EXPECT_EQ(like.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(like.message(), absl::StrCat(directory_.Path("x"),
                                         ": has no tensor \"0.weight\" among "
                                         "2; like it are \"model.0.weight\""));
  EXPECT_THAT(std::string(file->Find("q").status().message()),
              HasSubstr("gemm weights lists its names"));
  EXPECT_FALSE(file->Find("").ok());
}

}  // namespace
}  // namespace gemmd::client
