#include "server/rpc/oip/infer_model.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/store/store_fixture.h"

namespace gemmd {
namespace {

using absl::StatusCode;

StoreOptions Roomy() {
  StoreOptions options = testing::SmallStore();
  options.all.bytes = options.tenant.bytes = 1 << 18;
  return options;
}

class InferModelTest : public ::testing::Test, protected testing::StoreFixture {
 protected:
  InferModelTest() : StoreFixture(Roomy()) {}

  // Puts a matrix of that form and gives it the name.
  void PutForm(const std::string& name, const OperandForm& form) {
    OperandPlanes<std::string> bytes;
    OperandPlanes<std::vector<Sha256Digest>> chunks;
    for (const PlaneName each : kPlaneNames) {
      if (form.plane(each) == nullptr) continue;
      bytes[each] = std::string(form.plane(each)->size_bytes(), '\1');
      chunks[each] = ChunkDigests(bytes[each]);
    }
    auto stream = store.BeginUpload(tenant_, DigestOf(form, chunks), form, std::nullopt);
    ASSERT_TRUE(stream.ok()) << stream.status();
    for (const PlaneName each : kPlaneNames) {
      if (form.plane(each) == nullptr) continue;
      const absl::string_view piece = bytes[each];
      ASSERT_TRUE((*stream)->Receive({each, 0, {&piece, 1}}).ok());
    }
    ASSERT_TRUE((*stream)->End().ok());
    const OperandKey key{(*stream)->info().handle, {}};
    ASSERT_TRUE(store.SetName(tenant_, key, name, false).ok());
  }
  absl::StatusOr<InferModel> Find(const std::string& name, const std::string& version = "") {
    return FindModel(&store, tenant_, name, version);
  }
  static OperandForm Form(DataType type, std::int64_t rows, std::int64_t columns) {
    OperandForm form;
    form.data = {type, rows, columns, Order::kRowMajor, columns};
    return form;
  }
  // In groups of 16 along K, which is columns or rows.
  static OperandForm Grouped(bool k_is_columns) {
    OperandForm form = Form(DataType::kInt8, 16, 16);
    form.scales = {DataType::kF32, k_is_columns ? 16 : 1, k_is_columns ? 1 : 16, Order::kRowMajor,
                   k_is_columns ? 1 : 16};
    form.blocks = BlockScaling{16, 1, false};
    return form;
  }

  const Tenant tenant_ = *Tenant::Named("a");
};

TEST_F(InferModelTest, BuiltInModelsAreFoundInVersion1) {
  for (const InferModel& each : BuiltInModels()) {
    for (const char* version : {"", "1"}) EXPECT_TRUE(Find(each.name, version).ok()) << each.name;
    EXPECT_EQ(Find(each.name, "2").status().code(), StatusCode::kNotFound);
    EXPECT_EQ(Find(each.name, "01").status().code(), StatusCode::kNotFound);
  }
  EXPECT_EQ(Find("matmul_fp8").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Find("matmul_fp32 ").status().code(), StatusCode::kNotFound);
}

TEST_F(InferModelTest, AnOperandIsItsTenantsModel) {
  PutForm("w", Form(DataType::kBf16, 3, 5));
  const absl::StatusOr<InferModel> model = Find("linear/w");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->a_types, std::vector<DataType>{DataType::kBf16});
  EXPECT_FALSE(model->has(InferInput::kB));
  EXPECT_FALSE(model->has(InferInput::kAScale));
  const inference::ModelMetadataResponse metadata = MetadataOf(*model);
  EXPECT_EQ(metadata.inputs(0).shape(1), 3);
  EXPECT_EQ(metadata.outputs(0).shape(1), 5);
  EXPECT_EQ(metadata.outputs(0).datatype(), "BF16");
  EXPECT_EQ(FindModel(&store, *Tenant::Named("b"), "linear/w", "").status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(Find("linear/").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Find("linear/v").status().code(), StatusCode::kNotFound);
}

// Blocks that lie along its columns make it a B that is transposed, and no other.
TEST_F(InferModelTest, BlocksSayHowAnOperandLies) {
  PutForm("as it lies", Grouped(false));
  PutForm("transposed", Grouped(true));
  EXPECT_FALSE(Find("linear/as it lies")->resident->is_transposed);
  const absl::StatusOr<InferModel> transposed = Find("linear/transposed");
  EXPECT_TRUE(transposed->resident->is_transposed);
  EXPECT_TRUE(transposed->resident->is_scaled);
  EXPECT_EQ(transposed->a_types.front(), DataType::kF32);
  EXPECT_TRUE(transposed->has(InferInput::kAScale));
  EXPECT_EQ(transposed->OutputOf(DataType::kInt8, false), DataType::kF32);
  EXPECT_EQ(transposed->OutputOf(DataType::kBf16, false), DataType::kBf16);
}

TEST_F(InferModelTest, AnOperandThatFitsBothWaysIsTakenAsItLies) {
  OperandForm form = Form(DataType::kFp8E4M3, 256, 256);
  form.scales = {DataType::kF32, 2, 2, Order::kRowMajor, 2};
  form.blocks = BlockScaling{128, 128, false};
  PutForm("square", form);
  const absl::StatusOr<InferModel> model = Find("linear/square");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_FALSE(model->resident->is_transposed);
}

TEST_F(InferModelTest, WhatTheProtocolHasNoTypeForIsNotReady) {
  PutForm("fp8", Form(DataType::kFp8E4M3, 2, 2));
  EXPECT_EQ(Find("linear/fp8").status().code(), StatusCode::kFailedPrecondition);
  PutForm("int8", Form(DataType::kInt8, 2, 2));
  const absl::StatusOr<InferModel> integers = Find("linear/int8");
  EXPECT_EQ(integers->a_types, std::vector<DataType>{DataType::kInt8});
  EXPECT_EQ(integers->OutputOf(DataType::kInt8, false), DataType::kInt32);
  for (const ModelIndexRow& each : ListModels(&store, tenant_, {}, 100)) {
    EXPECT_EQ(each.status.ok(), each.name != "linear/fp8") << each.name;
  }
}

TEST_F(InferModelTest, AnIndexIsBounded) {
  PutForm("w", Form(DataType::kBf16, 3, 5));
  const std::size_t built_in = BuiltInModels().size();
  EXPECT_EQ(ListModels(&store, tenant_, {"w", "file"}, 100).size(), built_in + 2);
  EXPECT_EQ(ListModels(&store, tenant_, {"w", "file"}, 1).size(), built_in + 1);
  EXPECT_EQ(ListModels(&store, tenant_, {}, 0).size(), built_in);
  const ModelIndexRow last = ListModels(&store, tenant_, {"w", "file"}, 100).back();
  EXPECT_EQ(last.name, "linear/file");
  EXPECT_EQ(last.status.message(), "unloaded");
}

TEST_F(InferModelTest, MetadataAndConfigurationHaveTheInputsThatAreNotOptional) {
  for (const InferModel& each : BuiltInModels()) {
    const inference::ModelConfig config = ConfigOf(each);
    const inference::ModelMetadataResponse metadata = MetadataOf(each);
    ASSERT_EQ(metadata.inputs_size(), 2);
    ASSERT_EQ(config.input_size(), 2);
    const std::string& optional = config.parameters().at("optional_inputs").string_value();
    EXPECT_EQ(optional, each.name == "matmul_int8" ? "C, BIAS, A_SCALE, B_SCALE" : "C, BIAS");
    for (int i = 0; i < config.input_size(); ++i) {
      EXPECT_FALSE(config.input(i).optional());
      EXPECT_EQ(config.input(i).name(), metadata.inputs(i).name());
      EXPECT_EQ(inference::DataType_Name(config.input(i).data_type()),
                "TYPE_" + metadata.inputs(i).datatype());
    }
  }
}

}  // namespace
}  // namespace gemmd
