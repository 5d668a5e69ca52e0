#include "client/load/workload.h"

#include "gmock/gmock.h"

namespace gemmd::load {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<Workload> Make(const std::string& text) {
  const absl::StatusOr<WorkloadFile> file = ParseWorkloadFile(text);
  return file.ok() ? MakeWorkload(*file) : file.status();
}

TEST(Workload, ReadsAFile) {
  const auto workload = Make(R"(
      request { m: 1 n: 4096 k: 512 type: "bf16" weight: 9 output_type: "f32" data: "scales" }
      request { name: "big" m: 100 n: 200 k: 300 priority: "high" deadline: "250ms"
                determinism: "fast" kernel: "cpu/panel_f32" nan: true })");
  ASSERT_TRUE(workload.ok()) << workload.status();
  const WorkloadEntry& row = (*workload)[0];
  EXPECT_EQ(row.name, "1x4096x512 bf16");
  EXPECT_EQ(row.weight, 9);
  EXPECT_EQ(row.cost().bytes_in, (1 * 512 + 512 * 4096) * 2U);
  EXPECT_EQ(row.cost().bytes_out, 4096 * 4U);
  EXPECT_EQ(row.cost().flops, 2.0 * 4096 * 512);
  EXPECT_EQ(row.data.distribution, Distribution::kScales);
  const WorkloadEntry& big = (*workload)[1];
  EXPECT_EQ(big.name, "big");
  EXPECT_EQ(big.options.priority, v1::PRIORITY_HIGH);
  EXPECT_EQ(big.options.determinism, Determinism::kFast);
  EXPECT_EQ(big.options.kernel, "cpu/panel_f32");
  EXPECT_EQ(big.deadline, absl::Milliseconds(250));
  EXPECT_TRUE(big.data.nan);
  EXPECT_EQ(big.weight, 1);
}

TEST(Workload, Int8GivesInt32) {
  EXPECT_EQ((*Make("request { m: 2 n: 3 k: 4 type: 'int8' }"))[0].cost().bytes_out, 24U);
  EXPECT_EQ((*Make("request { m: 2 n: 3 k: 4 type: 'fp8-e4m3' }"))[0].cost().bytes_in, 20U);
  EXPECT_EQ((*Make("request { m: 2 n: 3 k: 4 type: 'fp8_e5m2' }"))[0].cost().bytes_out, 12U);
}

TEST(Workload, AFormatIsOfBothOperandsAndCountsItsScales) {
  const WorkloadEntry entry = (*Make("request { m: 2 n: 3 k: 40 type: 'int4_g32_f16_zp' }"))[0];
  EXPECT_EQ(entry.a_quantized, "int4-g32-f16-zp");
  EXPECT_EQ(entry.b_quantized, "int4-g32-f16-zp");
  EXPECT_EQ(entry.a.type, DataType::kUint4);
  EXPECT_EQ(entry.name, "2x3x40 int4-g32-f16-zp");
  // Codes of 4 bits, and for each of two blocks of a line an f16 and a byte.
  EXPECT_EQ(entry.cost().bytes_in, (2 + 3) * (20U + 2 * 3));
  EXPECT_EQ(entry.output_type(), DataType::kF32);
  const WorkloadEntry nvfp4 = (*Make("request { m: 2 n: 3 k: 32 type: 'nvfp4' }"))[0];
  EXPECT_EQ(nvfp4.cost().bytes_in, (2 + 3) * (16U + 2) + 2 * 4);
  EXPECT_EQ(nvfp4.output_type(), DataType::kBf16);
}

TEST(Workload, OperandsMayHaveTypesOfTheirOwn) {
  const WorkloadEntry entry =
      (*Make("request { m: 2 n: 3 k: 128 type: 'a=bf16,b=int4_g128_f16' }"))[0];
  EXPECT_EQ(entry.a_quantized, "");
  EXPECT_EQ(entry.b_quantized, "int4-g128-f16");
  EXPECT_EQ(entry.a.type, DataType::kBf16);
  EXPECT_EQ(entry.b.type, DataType::kInt4);
  EXPECT_EQ(entry.name, "2x3x128 bf16,int4-g128-f16");
  EXPECT_EQ(entry.cost().bytes_in, 2 * 128 * 2U + 3 * (64U + 2));
  EXPECT_EQ(entry.output_type(), DataType::kBf16);
  const WorkloadEntry turned = (*Make("request { m: 2 n: 3 k: 32 type: 'b=f16,a=mxfp4' }"))[0];
  EXPECT_EQ(turned.name, "2x3x32 mxfp4,f16");
  EXPECT_EQ(turned.output_type(), DataType::kF16);
  EXPECT_EQ((*Make("request { m: 2 n: 3 k: 32 type: 'a=f16,b=f16' }"))[0].name, "2x3x32 f16");
  for (const char* type :
       {"a=bf16", "a=bf16,a=f16", "a=bf16,c=f16", "=bf16,b=f16", "a=bf16,b=f16,"}) {
    const absl::Status status =
        Make(std::string("request { m: 1 n: 1 k: 1 type: '") + type + "' }").status();
    EXPECT_THAT(std::string(status.message()), HasSubstr("it must be a type, or a=TYPE,b=TYPE"))
        << type;
  }
  EXPECT_FALSE(Make("request { m: 1 n: 1 k: 1 type: 'a=bf16,b=' }").ok());
}

TEST(Workload, SharedMemoryIsNoStream) {
  EXPECT_TRUE((*Make("request { m: 1 n: 1 k: 1 operands: 'shared-memory' }"))[0].is_shared);
  for (const char* call : {"stream", "auto"}) {
    const absl::Status status = Make("request { m: 1 n: 1 k: 1 operands: 'shared-memory' call: '" +
                                     std::string(call) + "' }")
                                    .status();
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("operands in shared memory need no stream"));
  }
}

TEST(Workload, WhatIsResidentDoesNotTravel) {
  const auto entry = [](const std::string& fields) {
    return (*Make("request { m: 2 n: 3 k: 4 " + fields + " }"))[0];
  };
  EXPECT_EQ(entry("").cost().bytes_in, 80U);
  EXPECT_EQ(entry("operands: 'resident-b'").cost().bytes_in, 32U);
  EXPECT_EQ(entry("operands: 'resident'").cost().bytes_in, 0U);
  EXPECT_EQ(entry("operands: 'resident' tenant: 'a'").tenant, "a");
  EXPECT_EQ(Make("request { m: 1 n: 1 k: 1 operands: 'kept' }").status().message(),
            "request 1: operands is \"kept\"; it must be inline, streamed, resident, resident-b or "
            "shared-memory");
}

TEST(Workload, WeightsMayLieAsLinesOfK) {
  const auto entry = [](const std::string& fields) {
    return (*Make("request { m: 2 n: 3 k: 4 " + fields + " }"))[0];
  };
  EXPECT_EQ(entry("").b.order, Order::kRowMajor);
  const WorkloadEntry transposed = entry("transpose_b: true");
  EXPECT_EQ(transposed.b.order, Order::kColumnMajor);
  EXPECT_EQ(transposed.a.order, Order::kRowMajor);
  EXPECT_EQ(transposed.n(), 3U);
  EXPECT_EQ(transposed.name, "2x3x4 f32 transposed");
  // Codes lie along K in any case.
  EXPECT_EQ(entry("transpose_b: true type: 'int8-row'").name, "2x3x4 int8-row");
}

TEST(Workload, SaysHowRequestsGo) {
  const auto route = [](const std::string& fields) {
    return (*Make("request { m: 1 n: 1 k: 1 " + fields + " }"))[0].route;
  };
  EXPECT_EQ(route("").transport, client::Transport::kUnary);
  EXPECT_EQ(route("call: 'stream'").transport, client::Transport::kStream);
  EXPECT_EQ(route("call: 'stream'").channels, 1);
  EXPECT_EQ(route("operands: 'streamed' channels: 8 chunk_bytes: 4096").transport,
            client::Transport::kStream);
  EXPECT_EQ(route("operands: 'streamed' channels: 8 chunk_bytes: 4096").channels, 8);
  EXPECT_EQ(route("operands: 'streamed' channels: 8 chunk_bytes: 4096").chunk_bytes, 4096U);
  EXPECT_EQ(route("call: 'auto'").transport, client::Transport::kAuto);
  EXPECT_EQ(route("call: 'auto'").channels, 0);
}

TEST(Workload, ErrorsNameRequestFieldAndValue) {
  const auto why = [](const std::string& fields) {
    return std::string(
        Make("request { m: 1 n: 1 k: 1 } request { n: 2 k: 2 " + fields + " }").status().message());
  };
  EXPECT_THAT(why(""), AllOf(HasSubstr("request 2: "), HasSubstr("m is \"0\"")));
  EXPECT_THAT(why("m: 2 type: 'int4'"), HasSubstr("type is \"int4\"; data is made of"));
  EXPECT_THAT(why("m: 2 weight: 0"), HasSubstr("weight is \"0\""));
  EXPECT_THAT(why("m: 2 operands: 'far'"), HasSubstr("operands is \"far\""));
  EXPECT_THAT(why("m: 2 operands: 'streamed' call: 'unary'"), HasSubstr("call is \"unary\""));
  EXPECT_THAT(why("m: 2 call: 'letter'"), HasSubstr("call is \"letter\""));
  EXPECT_THAT(why("m: 2 channels: 65"), HasSubstr("channels is \"65\"; at most 64"));
  EXPECT_THAT(why("m: 2 chunk_bytes: 100000000"), HasSubstr("chunk_bytes is \"100000000\""));
  EXPECT_THAT(why("m: 2 call: 'phone'"), HasSubstr("call is \"phone\""));
  EXPECT_THAT(why("m: 2 priority: 'vip'"), HasSubstr("priority is \"vip\""));
  EXPECT_THAT(why("m: 2 deadline: '-1s'"), HasSubstr("deadline is \"-1s\""));
  EXPECT_THAT(why("m: 2 data: 'zeros'"), HasSubstr("data is \"zeros\""));
  EXPECT_THAT(why("m: 2 determinism: 'lazy'"), HasSubstr("determinism is \"lazy\""));
  EXPECT_THAT(why("m: 2 type: 'int8' nan: true"), HasSubstr("int8 has no NaN"));
  EXPECT_THAT(why("m: 2 type: 'mxfp4' nan: true"), HasSubstr("mxfp4 is made of finite values"));
  EXPECT_THAT(std::string(Make("").status().message()), HasSubstr("has no request"));
  EXPECT_THAT(std::string(Make("request {\n  rows: 1 }").status().message()), HasSubstr("2:"));
}

}  // namespace
}  // namespace gemmd::load
