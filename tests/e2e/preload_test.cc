// Matrices that a real server has from its start on.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/client.h"
#include "client/operands.h"
#include "client/quantized/quantize.h"
#include "client/quantized/quantized_file.h"
#include "gtest/gtest.h"
#include "tests/client/testing/npy_bytes.h"
#include "tests/client/testing/temporary_directory.h"
#include "tests/client/testing/weight_bytes.h"
#include "tests/testing/server_process.h"

namespace gemmd::client {
namespace {

using ::gemmd::testing::SafetensorsBytes;
using ::gemmd::testing::ServerProcess;

std::string Floats(int count, int seed) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    const auto value = static_cast<float>((i * 7 + seed) % 11 - 5);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return bytes;
}

class PreloadTest : public ::testing::Test {
 protected:
  // Starts a server that is to have these; false: it ended without serving.
  bool Start(const std::string& preload, std::vector<std::string> flags = {}) {
    flags.emplace_back("--cpu.threads=1");
    flags.emplace_back("--operands.preload=" + preload);
    server_ = std::make_unique<ServerProcess>(std::move(flags));
    return !server_->address().empty();
  }

  ClientOptions Options(const std::string& tenant = "") const {
    ClientOptions options;
    options.channel.target = server_->address();
    options.channel.tenant = tenant;
    return options;
  }

  std::vector<std::string> Names(const std::string& tenant = "") const {
    std::vector<std::string> names;
    const auto residents = Operands(Options(tenant)).List();
    EXPECT_TRUE(residents.ok()) << residents.status();
    for (const auto& each : *residents) {
      names.insert(names.end(), each.names().begin(), each.names().end());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  std::string Tensors() const {
    return directory_.File("model.safetensors",
                           SafetensorsBytes({{"layers.0.w", "F32", "[4,3]", Floats(12, 1)},
                                             {"layers.0.norm", "F32", "[4]", Floats(4, 2)},
                                             {"layers.1.w", "F32", "[4,3]", Floats(12, 3)},
                                             {"experts", "F32", "[2,4,3]", Floats(24, 4)}}));
  }

  testing::TemporaryDirectory directory_;
  std::unique_ptr<ServerProcess> server_;
};

TEST_F(PreloadTest, TensorsAreThereUnderTheirNamesAndMultiply) {
  ASSERT_TRUE(Start(Tensors())) << server_->log();
  EXPECT_EQ(Names(),
            (std::vector<std::string>{"experts[0]", "experts[1]", "layers.0.w", "layers.1.w"}));
  const Matrix x = *Matrix::Create({DataType::kF32, 2, 3, Order::kRowMajor, 0}, Floats(6, 5));
  const Matrix w = *Matrix::Create({DataType::kF32, 4, 3, Order::kRowMajor, 0}, Floats(12, 3));
  MatmulOptions options;
  options.transpose_b = true;
  Client client(Options());
  const auto expected = client.Matmul({x, w}, options);
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const Transport transport : {Transport::kUnary, Transport::kStream}) {
    CallOptions call;
    call.route.emplace().transport = transport;
    const auto product = client.Matmul({x, ParseOperandName("layers.1.w")}, options, call);
    ASSERT_TRUE(product.ok()) << product.status();
    EXPECT_EQ(product->d->bytes(), expected->d->bytes());
  }
}

// Nothing of it is evicted, however full the store is, but its owner may have it go.
TEST_F(PreloadTest, ItStaysUntilItIsReleased) {
  ASSERT_TRUE(Start(Tensors() + ":layers.0.*",
                    {"--operands.memory-bytes=100", "--operands.tenant-percent=100"}));
  Operands operands(Options());
  const auto resident = operands.Describe(ParseOperandName("layers.0.w"));
  ASSERT_TRUE(resident.ok()) << resident.status();
  EXPECT_GT(resident->lease_remaining().seconds(), 10LL * 365 * 24 * 3600);
  const Matrix other =
      *Matrix::Create({DataType::kInt8, 60, 1, Order::kRowMajor, 0}, std::string(60, 'x'));
  CallOptions once;
  once.timeout = absl::Seconds(1);
  EXPECT_FALSE(operands.Put(*OperandSource::Create(other), {}, once).ok());
  ASSERT_TRUE(operands.Release(ParseOperandName("layers.0.w")).ok());
  EXPECT_TRUE(operands.Put(*OperandSource::Create(other)).ok());
}

TEST_F(PreloadTest, AFolderGivesAllOfItsFiles) {
  Tensors();
  directory_.File("notes.txt", "no weights");
  directory_.File("plain.npy",
                  testing::NpyBytes(testing::NpyDictionaryText("<f4", "(2, 2)"), Floats(4, 6)));
  const Matrix w = *Matrix::Create({DataType::kF32, 64, 4, Order::kRowMajor, 0}, Floats(256, 7));
  QuantizeRequest request;
  request.format = "int8-g32";
  const auto array = QuantizeMatrix(w.view(), request);
  ASSERT_TRUE(array.ok()) << array.status();
  ASSERT_TRUE(WriteQuantizedFile(directory_.Path("packed.gq"), *array).ok());
  ASSERT_TRUE(Start(directory_.Path(""), {"--operands.preload-tenant=team"})) << server_->log();
  EXPECT_EQ(Names("team"), (std::vector<std::string>{"experts[0]", "experts[1]", "layers.0.w",
                                                     "layers.1.w", "packed", "plain"}));
  EXPECT_TRUE(Names().empty());
}

// As the container's user finds it: the process says what is wrong, and ends.
TEST_F(PreloadTest, WhatCannotBeThereKeepsTheServerFromStarting) {
  const std::string tensors = Tensors();
  const std::string cut = directory_.File("cut.safetensors", "\x10");
  const auto error = [&](const std::string& preload, std::vector<std::string> flags = {}) {
    EXPECT_FALSE(Start(preload, std::move(flags)));
    EXPECT_EQ(server_->WaitForExit(), 1);
    return server_->log();
  };
  const auto expect = [](const std::string& log, const std::string& part) {
    EXPECT_NE(log.find("cannot_start"), std::string::npos) << log;
    EXPECT_NE(log.find(part), std::string::npos) << log;
  };
  expect(error("/nowhere/model.gguf"),
         "operands.preload: /nowhere/model.gguf: there is no such file or folder");
  expect(error(tensors + ":layer.*"), "has no matrix with a name like \\\"layer.*\\\"");
  expect(error(cut), "cut.safetensors");
  expect(error(tensors, {"--operands.memory-bytes=50"}),
         "the tenant's share of bytes of operands is 40, and this takes 48");
  expect(error(tensors, {"--operands.preload-tenant=no tenant"}),
         "operands.preload_tenant: gemmd-tenant has a character");
  // Two files whose tensors have the same names.
  const std::string copy = directory_.File(
      "copy.safetensors", SafetensorsBytes({{"layers.0.w", "F32", "[4,3]", Floats(12, 9)}}));
  expect(error(tensors + "," + copy), "new_name is \\\"layers.0.w\\\"");
}

}  // namespace
}  // namespace gemmd::client
