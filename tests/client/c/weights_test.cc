// Files of weights through the C interface: what they have, what is read of them, and products.
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/client/c/c_fixture.h"
#include "tests/client/testing/temporary_directory.h"
#include "tests/client/testing/weight_bytes.h"

namespace gemmd {
namespace {

constexpr std::uint32_t kF32 = 0;   // of GGUF
constexpr std::uint32_t kQ8 = 8;    // Q8_0: f16 scale, 32 codes
constexpr std::uint32_t kIq1 = 19;  // IQ1_S, which has no form

// Two rows of 32 codes, k and -k, times 2 and 1/2.
std::string Q8Bytes() {
  std::string bytes;
  for (const int row : {0, 1}) {
    bytes += testing::Little(row == 0 ? 0x4000 : 0x3800, 2);  // 2 and 0.5 as f16
    for (int k = 0; k < 32; ++k) bytes += static_cast<char>(row == 0 ? k : -k);
  }
  return bytes;
}

std::string F32Bytes(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

class WeightsTest : public ::testing::Test {
 protected:
  WeightsTest() {
    testing::GgufBytes file;
    file.Tensor("q", {32, 2}, kQ8, Q8Bytes());
    file.Tensor("norm", {3}, kF32, F32Bytes({1, 2, 3}));
    file.Tensor("plain", {3, 2}, kF32, F32Bytes({1, 2, 3, 4, 5, 6}));
    file.Tensor("stack", {32, 2, 2}, kQ8, Q8Bytes() + Q8Bytes());
    file.Tensor("iq1", {256, 1}, kIq1, std::string(50, '\0'));
    path_ = directory_.File("model.gguf", file.Bytes());
    weights_ = Open(path_);
  }
  ~WeightsTest() override { gemmd_weights_free(weights_); }

  static gemmd_weights* Open(const std::string& path) {
    gemmd_weights* weights = nullptr;
    gemmd_error* error = nullptr;
    const gemmd_code code = gemmd_weights_open(path.c_str(), &weights, &error);
    EXPECT_EQ("OK", Told(code, error));
    return weights;
  }

  gemmd_tensor* Read(const char* name) const {
    gemmd_tensor* tensor = nullptr;
    gemmd_error* error = nullptr;
    const gemmd_code code = gemmd_weights_read(weights_, name, &tensor, &error);
    EXPECT_EQ("OK", Told(code, error));
    return tensor;
  }

  std::string WhyNoRead(const char* name) const {
    gemmd_tensor* tensor = nullptr;
    gemmd_error* error = nullptr;
    const gemmd_code code = gemmd_weights_read(weights_, name, &tensor, &error);
    EXPECT_EQ(nullptr, tensor);
    return Told(code, error);
  }

  static gemmd_plane PlaneOf(const gemmd_tensor* tensor, std::int32_t plane) {
    gemmd_plane described = GEMMD_PLANE_INIT;
    gemmd_error* error = nullptr;
    const gemmd_code code = gemmd_tensor_plane(tensor, plane, &described, &error);
    EXPECT_EQ("OK", Told(code, error));
    return described;
  }

  testing::TemporaryDirectory directory_;
  std::string path_;
  gemmd_weights* weights_ = nullptr;
};

TEST_F(WeightsTest, ListsWhatAFileHas) {
  EXPECT_STREQ("GGUF", gemmd_weights_kind(weights_));
  ASSERT_EQ(5, gemmd_weights_count(weights_));
  std::vector<gemmd_tensor_info> all;
  for (std::int64_t i = 0; i < 5; ++i) {
    gemmd_tensor_info info = GEMMD_TENSOR_INFO_INIT;
    gemmd_error* error = nullptr;
    const gemmd_code code = gemmd_weights_info(weights_, i, &info, &error);
    ASSERT_EQ("OK", Told(code, error));
    all.push_back(info);
  }
  EXPECT_STREQ("q", all[0].name);
  EXPECT_STREQ("Q8_0", all[0].type);
  EXPECT_STREQ("int8-g32", all[0].form);
  EXPECT_STREQ("", all[0].refusal);
  EXPECT_EQ((std::vector<std::int64_t>{2, 32}),
            std::vector<std::int64_t>(all[0].shape, all[0].shape + all[0].dimensions));
  EXPECT_EQ(0, all[0].matrices);
  EXPECT_EQ(2, all[0].rows);
  EXPECT_EQ(32, all[0].columns);
  EXPECT_EQ(2 * (32 + 4), all[0].bytes);
  EXPECT_STREQ("", all[1].form);
  EXPECT_STREQ("its shape [3] has 1 dimension; a matrix has 2, a stack of them 3", all[1].refusal);
  EXPECT_STREQ("f32", all[2].form);
  EXPECT_EQ(2, all[3].matrices);
  EXPECT_EQ(2 * 2 * (32 + 4), all[3].bytes);
  EXPECT_NE(std::string(all[4].refusal).find("IQ1_S has no form here"), std::string::npos);
}

TEST_F(WeightsTest, ATensorHasItsPlanesAndOutlivesTheFile) {
  gemmd_tensor* const quantized = Read("q");
  gemmd_tensor* const plain = Read("plain");
  gemmd_tensor* const part = Read("stack[1]");
  gemmd_weights_free(std::exchange(weights_, nullptr));
  EXPECT_STREQ("int8-g32", gemmd_tensor_form(quantized));
  EXPECT_STREQ("int8-g32", gemmd_tensor_form(part));
  EXPECT_EQ(2, gemmd_tensor_rows(quantized));
  EXPECT_EQ(32, gemmd_tensor_columns(quantized));
  const gemmd_plane codes = PlaneOf(quantized, GEMMD_PLANE_DATA);
  EXPECT_EQ(GEMMD_INT8, codes.dtype);
  EXPECT_EQ(64, codes.bytes);
  EXPECT_FALSE(codes.column_major);
  EXPECT_EQ(31, static_cast<const signed char*>(codes.data)[31]);
  EXPECT_EQ(-31, static_cast<const signed char*>(codes.data)[63]);
  const gemmd_plane scales = PlaneOf(quantized, GEMMD_PLANE_SCALES);
  EXPECT_EQ(GEMMD_F32, scales.dtype);
  EXPECT_EQ(2, scales.rows);
  EXPECT_EQ(1, scales.columns);
  EXPECT_EQ(0.5F, static_cast<const float*>(scales.data)[1]);
  EXPECT_STREQ("f32", gemmd_tensor_form(plain));
  const gemmd_plane values = PlaneOf(plain, GEMMD_PLANE_DATA);
  EXPECT_EQ(6.0F, static_cast<const float*>(values.data)[5]);
  gemmd_error* error = nullptr;
  gemmd_plane none = GEMMD_PLANE_INIT;
  gemmd_code code = gemmd_tensor_plane(plain, GEMMD_PLANE_SCALES, &none, &error);
  EXPECT_EQ("NOT_FOUND: plane is 1: the tensor has no such plane [plane, -1]", Told(code, error));
  code = gemmd_tensor_plane(plain, GEMMD_PLANE_K_ORDER, &none, &error);
  EXPECT_EQ("NOT_FOUND: plane is 5: the tensor has no such plane [plane, -1]", Told(code, error));
  code = gemmd_tensor_plane(plain, 6, &none, &error);
  EXPECT_EQ("INVALID_ARGUMENT: plane is 6: must be 0 to 5 [plane, 5]", Told(code, error));
  none.size = 8;
  code = gemmd_tensor_plane(plain, GEMMD_PLANE_DATA, &none, &error);
  EXPECT_NE(Told(code, error).find("INVALID_ARGUMENT: described.size is 8"), std::string::npos);
  for (gemmd_tensor* const each : {quantized, plain, part}) gemmd_tensor_free(each);
}

TEST_F(WeightsTest, AnOrderOfKIsAPlane) {
  // Groups of 32 of K = 64: even places are of the second group.
  std::string qweight;
  for (int word = 0; word < 8 * 8; ++word) qweight += testing::Little(0x76543210, 4);
  std::string g_idx;
  for (int k = 0; k < 64; ++k) g_idx += testing::Little(k % 2 == 0 ? 1 : 0, 4);
  std::string scales;
  for (int i = 0; i < 2 * 8; ++i) scales += testing::Little(0x3c00, 2);
  directory_.File("config.json",
                  R"({"quantization_config":{"quant_method":"gptq","bits":4,"group_size":32}})");
  const std::string path = directory_.File(
      "model.safetensors",
      testing::SafetensorsBytes({{"fc.qweight", "I32", "[8,8]", qweight},
                                 {"fc.qzeros", "I32", "[2,1]", std::string(8, '\x77')},
                                 {"fc.scales", "F16", "[2,8]", scales},
                                 {"fc.g_idx", "I32", "[64]", g_idx}}));
  gemmd_weights_free(std::exchange(weights_, Open(path)));
  gemmd_tensor* const tensor = Read("fc.weight");
  EXPECT_STREQ("int4-g32-f16-zp", gemmd_tensor_form(tensor));
  const gemmd_plane order = PlaneOf(tensor, GEMMD_PLANE_K_ORDER);
  EXPECT_EQ(GEMMD_INT32, order.dtype);
  EXPECT_EQ(1, order.rows);
  EXPECT_EQ(64, order.columns);
  EXPECT_EQ(256, order.bytes);
  const auto* const places = static_cast<const std::int32_t*>(order.data);
  EXPECT_EQ(1, places[0]);
  EXPECT_EQ(63, places[31]);
  EXPECT_EQ(0, places[32]);
  EXPECT_EQ(8, PlaneOf(tensor, GEMMD_PLANE_ZERO_POINTS).rows);
  gemmd_tensor_free(tensor);
}

TEST_F(WeightsTest, WhatCannotBeReadIsRefusedByName) {
  EXPECT_NE(WhyNoRead("other").find("NOT_FOUND: " + path_ + ": has no tensor \"other\" among 5"),
            std::string::npos);
  EXPECT_NE(WhyNoRead("stack[2]").find("\"stack\" has shape [2, 2, 32]; there is no matrix 2"),
            std::string::npos);
  EXPECT_NE(WhyNoRead("norm").find("INVALID_ARGUMENT: " + path_ + ": tensor \"norm\": its shape"),
            std::string::npos);
  EXPECT_NE(WhyNoRead("stack").find("it is a stack of 2 matrices, which go one by one"),
            std::string::npos);
  EXPECT_NE(WhyNoRead("iq1").find("tensor \"iq1\": IQ1_S has no form here"), std::string::npos);
  EXPECT_EQ("INVALID_ARGUMENT: name is NULL: it is needed [name, -1]", WhyNoRead(nullptr));
  gemmd_tensor_info info = GEMMD_TENSOR_INFO_INIT;
  gemmd_error* error = nullptr;
  gemmd_code code = gemmd_weights_info(weights_, 5, &info, &error);
  EXPECT_EQ("INVALID_ARGUMENT: index is 5: must be 0 to 4 [index, 4]", Told(code, error));
  code = gemmd_weights_info(weights_, 0, nullptr, &error);
  EXPECT_EQ("INVALID_ARGUMENT: info is NULL: it is needed [info, -1]", Told(code, error));
  EXPECT_EQ(0, gemmd_weights_count(nullptr));
  EXPECT_STREQ("", gemmd_weights_kind(nullptr));
  EXPECT_STREQ("", gemmd_tensor_form(nullptr));
  gemmd_weights_free(nullptr);
  gemmd_tensor_free(nullptr);
}

TEST_F(WeightsTest, FilesThatAreNoneAreRefusedByPath) {
  const auto why = [](const std::string& path) {
    gemmd_weights* weights = nullptr;
    gemmd_error* error = nullptr;
    const gemmd_code code = gemmd_weights_open(path.c_str(), &weights, &error);
    EXPECT_EQ(nullptr, weights);
    return Told(code, error);
  };
  const std::string missing = directory_.Path("missing");
  EXPECT_NE(why(missing).find("NOT_FOUND: " + missing + ": open"), std::string::npos);
  const std::string text = directory_.File("text", "hello, world");
  EXPECT_NE(why(text).find("INVALID_ARGUMENT: " + text + ": begins with"), std::string::npos);
  const std::string cut = directory_.File("cut", "GGUF");
  EXPECT_NE(why(cut).find("INVALID_ARGUMENT: " + cut + ": "), std::string::npos);
  const std::string container = directory_.File(
      "w.safetensors",
      testing::SafetensorsBytes({{"data", "I8", "[1,1]", "x"}}, R"({"gemmd.version":"1"})"));
  EXPECT_NE(why(container).find(": gemm quantize wrote it: it is one matrix"), std::string::npos);
  gemmd_weights* weights = nullptr;
  gemmd_error* error = nullptr;
  const gemmd_code code = gemmd_weights_open(nullptr, &weights, &error);
  EXPECT_EQ("INVALID_ARGUMENT: path is NULL: it is needed [path, -1]", Told(code, error));
}

class WeightsOnAServer : public WeightsTest {
 protected:
  ~WeightsOnAServer() override { EXPECT_EQ(GEMMD_OK, gemmd_client_free(client_, nullptr)); }

  testing::ServerProcess server_{{"--cpu.threads=2"}};
  gemmd_client* client_ = NewClient(server_.address());
};

TEST_F(WeightsOnAServer, ATensorStaysAndIsMultiplied) {
  gemmd_tensor* const tensor = Read("q");
  gemmd_matrix* matrix = nullptr;
  gemmd_error* error = nullptr;
  gemmd_code code = gemmd_put_tensor(client_, tensor, 0, 0, &matrix, &error);
  ASSERT_EQ("OK", Told(code, error));
  gemmd_tensor_free(tensor);  // the matrix keeps its memory
  EXPECT_EQ(2, gemmd_matrix_rows(matrix));
  std::vector<float> ones(32, 1);
  gemmd_array array = ArrayOf(ones, 1, 32);
  std::vector<float> product(2);
  gemmd_array d = ArrayOf(product, 1, 2);
  gemmd_matmul_options options = GEMMD_MATMUL_OPTIONS_INIT;
  options.transpose_b = true;
  options.d = &d;
  const gemmd_operand a = OperandOf(array);
  const gemmd_operand b = OperandOf(matrix);
  for (int life = 0; life < 2; ++life) {
    gemmd_result* result = nullptr;
    code = gemmd_matmul(client_, &a, &b, &options, &result, &error);
    ASSERT_EQ("OK", Told(code, error));
    gemmd_result_free(result);
    EXPECT_EQ((std::vector<float>{2 * 496, -0.5F * 496}), product);
    // The second product brings it back to a server that has lost it.
    code = gemmd_release(client_, &b, 0, &error);
    ASSERT_EQ("OK", Told(code, error));
  }
  gemmd_matrix_free(matrix);
  code = gemmd_put_tensor(client_, nullptr, 0, 0, &matrix, &error);
  EXPECT_EQ("INVALID_ARGUMENT: tensor is NULL: it is needed [tensor, -1]", Told(code, error));
  gemmd_tensor* const plain = Read("plain");
  code = gemmd_put_tensor(client_, plain, -1, 0, &matrix, &error);
  EXPECT_NE(Told(code, error).find("INVALID_ARGUMENT: lease_ms is -1"), std::string::npos);
  gemmd_tensor_free(plain);
}

}  // namespace
}  // namespace gemmd
