#include <sys/stat.h>

#include <regex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "tests/client/cli/cli_fixture.h"

namespace gemmd::cli {
namespace {

using ::gemmd::testing::Answer;
using ::gemmd::testing::Fail;
using ::gemmd::testing::FileBytes;
using ::gemmd::testing::NpyBytes;
using ::gemmd::testing::NpyDictionaryText;
using ::gemmd::testing::ProcessResult;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class MatmulTest : public CliTest {
 protected:
  // The words behind "gemm" as a shell reads them.
  ProcessResult Shell(const std::string& words) const {
    return testing::RunProcess({"bash", "-c", absl::StrCat(kBinary, " ", words)},
                               {"GEMMD_SERVER=" + server_.target()});
  }
};

TEST_F(MatmulTest, ShowsTheResidualThatWasAskedFor) {
  server_.Then(testing::AnswerChanged([](v1::MatmulResponse& response) {
    response.mutable_receipt()->set_verification_residual(0.0625);
    response.mutable_receipt()->mutable_predicted()->set_device_us(12.5);
  }));
  const ProcessResult result = Gemm({"matmul", a_, b_, "--verify", "3"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("residual 0.0625"), HasSubstr("12.5 us on the device")));
  EXPECT_EQ(server_.requests().back().header().verification().vectors(), 3U);
  EXPECT_EQ(Gemm({"matmul", a_, b_, "--verify", "65"}).exit_code, 2);
}

TEST_F(MatmulTest, WritesTheProductAndPrintsTheReceipt) {
  server_.Then(Answer(2, 2, "abcd"));
  const std::string d = directory_.Path("d.npy");
  const ProcessResult result = Gemm({"matmul", a_, b_, "-o", d});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(FileBytes(d), NpyBytes(NpyDictionaryText("|i1", "(2, 2)"), "abcd"));
  EXPECT_EQ(result.error, "");
  for (const char* part : {"2 x 2 int8 row-major -> ", "kernel    cpu/test", "plan      rows=64",
                           "numerics  test/1 (batch-invariant)", "exposed us", "server  compute",
                           "network and wire", "unattributed", "client  encode", "client  decode",
                           "client  total", "1.5 GFLOP/s in the kernel"}) {
    EXPECT_THAT(result.output, HasSubstr(part));
  }
}

TEST_F(MatmulTest, FilesOfThreeDimensionsAreManyProducts) {
  const std::string stack = Int8File("stack.npy", "(3, 2, 2)", "aaaabbbbcccc");
  const std::string one = Int8File("one.npy", "(1, 2, 2)", "dddd");
  const std::string d = directory_.Path("d.npy");
  struct Case {
    std::string a, b;
    std::uint64_t count, a_stride, b_stride;
  };
  for (const Case& each :
       {Case{stack, b_, 3, 4, 0}, Case{a_, stack, 3, 0, 4}, Case{stack, stack, 3, 4, 4},
        Case{one, stack, 3, 0, 4}, Case{one, b_, 1, 0, 0}}) {
    server_.Then([count = each.count](auto& context, const auto& request, auto& response) {
      grpc::Status status =
          Answer(2, 2, std::string("abcdefghijkl", 4 * count))(context, request, response);
      response.mutable_receipt()->set_products(count);
      return status;
    });
    const ProcessResult result = Gemm({"matmul", each.a, each.b, "-o", d});
    EXPECT_EQ(result.exit_code, 0) << result.error;
    const v1::StridedBatch batch = server_.requests().back().header().batch();
    EXPECT_EQ(batch.count(), each.count);
    EXPECT_EQ(batch.a_stride(), each.a_stride);
    EXPECT_EQ(batch.b_stride(), each.b_stride);
    EXPECT_EQ(FileBytes(d),
              NpyBytes(NpyDictionaryText("|i1", absl::StrCat("(", each.count, ", 2, 2)")),
                       std::string("abcdefghijkl", 4 * each.count)));
    EXPECT_THAT(result.output, HasSubstr("2 x 2 int8 row-major -> "));
  }
}

TEST_F(MatmulTest, StacksThatDoNotGoTogetherAreUsage) {
  const std::string three = Int8File("three.npy", "(3, 2, 2)", "aaaabbbbcccc");
  const std::string two = Int8File("two.npy", "(2, 2, 2)", "aaaabbbb");
  const std::string scale =
      directory_.File("scale.npy", NpyBytes(NpyDictionaryText("<f4", "()"), "aaaa"));
  const std::vector<std::tuple<std::vector<std::string>, int, const char*>> cases = {
      {{three, two}, 2, "A has 3 matrices and B 2: it must be as many, or one"},
      {{three, b_, "--beta", "1", "--c", two}, 2, "A has 3 matrices and C 2"},
      {{three, b_, "--keep"}, 2, "--keep keeps one matrix"},
      {{three, b_, "-o", directory_.Path("d.npy"), "--output-order", "column-major"},
       2,
       "a D of three dimensions is row-major"},
      {{three, b_, "--a-scales", scale}, 3, "shape (3, 2, 2): two dimensions are accepted"},
  };
  for (const auto& [arguments, code, message] : cases) {
    std::vector<std::string> command = {"matmul"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const ProcessResult result = Gemm(command);
    EXPECT_EQ(result.exit_code, code) << result.error;
    EXPECT_THAT(result.error, HasSubstr(message));
  }
  EXPECT_THAT(server_.requests(), IsEmpty());
  server_.Then(Answer(2, 2, "abcd"));
  const ProcessResult old = Gemm({"matmul", three, b_});
  EXPECT_NE(old.exit_code, 0);
  EXPECT_THAT(old.error, HasSubstr("the server is older than batches of products"));
}

TEST_F(MatmulTest, ADashIsStandardOutputAndTakesTheProductAlone) {
  server_.Then(Answer(2, 2, "abcd"));
  const ProcessResult result = Gemm({"matmul", a_, b_, "-o", "-"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.output, NpyBytes(NpyDictionaryText("|i1", "(2, 2)"), "abcd"));
  EXPECT_THAT(result.error, AllOf(HasSubstr("kernel    cpu/test"), HasSubstr("client  total")));
  const ProcessResult both = Gemm({"--json", "matmul", a_, b_, "-o", "-"});
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_THAT(both.error, HasSubstr("--json and an output of - both want standard output"));
  server_.Then(Answer(2, 2, "abcd"));
  const ProcessResult full = Shell(absl::StrCat("matmul ", a_, " ", b_, " -o - > /dev/full"));
  EXPECT_EQ(full.exit_code, 3);
  EXPECT_THAT(full.error, StartsWith("gemm: standard output: write"));
}

TEST_F(MatmulTest, EveryNameOfStandardOutputTakesTheProductAlone) {
  const std::string d = directory_.Path("d.npy");
  for (const std::string& name : {std::string("/dev/stdout"), std::string("/dev/fd/1"), d}) {
    server_.Then(Answer(2, 2, "abcd"));
    const ProcessResult result =
        Shell(absl::StrCat("matmul ", a_, " ", b_, " -o ", name, " > ", d));
    EXPECT_EQ(result.exit_code, 0) << result.error;
    EXPECT_EQ(FileBytes(d), NpyBytes(NpyDictionaryText("|i1", "(2, 2)"), "abcd")) << name;
    EXPECT_THAT(result.error, HasSubstr("kernel    cpu/test"));
  }
  const ProcessResult both = Gemm({"--json", "matmul", a_, b_, "-o", "/dev/stdout"});
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_THAT(both.error, HasSubstr("an output of /dev/stdout both want standard output"));
  server_.Then(Answer(2, 2, "abcd"));
  const ProcessResult quiet =
      Shell(absl::StrCat("matmul ", a_, " ", b_, " -o /dev/null > /dev/null"));
  EXPECT_EQ(quiet.exit_code, 0);
  EXPECT_EQ(quiet.error, "");
}

// A pipe gives its bytes once, and both operands are what came.
TEST_F(MatmulTest, ADashIsStandardInput) {
  for (const char* operands : {"- -", "/dev/stdin -", "/dev/fd/0 /dev/stdin"}) {
    server_.Then(Answer(2, 2, "abcd"));
    const ProcessResult result =
        Shell(absl::StrCat("matmul ", operands, " --transpose-b < <(cat ", a_, ")"));
    EXPECT_EQ(result.exit_code, 0) << result.error;
    const v1::MatmulRequest request = server_.requests().back();
    EXPECT_EQ(request.header().a().data().rows(), 2U);
    EXPECT_EQ(request.header().b().data().rows(), 2U);
  }
  const ProcessResult empty = Shell(absl::StrCat("matmul - ", b_, " < /dev/null"));
  EXPECT_EQ(empty.exit_code, 3);
  EXPECT_THAT(empty.error, HasSubstr("gemm: -: the file is empty"));
}

// The limit is of this test's own files too, so that the error goes through a pipe.
TEST_F(MatmulTest, AFileThatTheShellDoesNotPermitIsAnError) {
  server_.Then(Answer(2, 2, "abcd"));
  const ProcessResult result =
      testing::RunProcess({"bash", "-o", "pipefail", "-c",
                           absl::StrCat("(ulimit -f 0; ", kBinary, " matmul ", a_, " ", b_, " -o ",
                                        directory_.Path("d.npy"), ") 2>&1 | cat")},
                          {"GEMMD_SERVER=" + server_.target()});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.output, HasSubstr("d.npy: write: File too large"));
  EXPECT_EQ(directory_.Names(), "a.npy b.npy");
}

TEST_F(MatmulTest, AFileThatIsReplacedKeepsItsMode) {
  const std::string d = directory_.File("d.npy", "old");
  ASSERT_EQ(::chmod(d.c_str(), 0600), 0);
  server_.Then(Answer(2, 2, "abcd"));
  EXPECT_EQ(Gemm({"matmul", a_, b_, "-o", d}).exit_code, 0);
  struct stat info;
  ASSERT_EQ(::stat(d.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  EXPECT_EQ(FileBytes(d), NpyBytes(NpyDictionaryText("|i1", "(2, 2)"), "abcd"));
}

TEST_F(MatmulTest, StagesOfOneNameAreOneRowForPeopleAndAllThereForPrograms) {
  const auto sliced = testing::AnswerChanged([](v1::MatmulResponse& response) {
    v1::Receipt& receipt = *response.mutable_receipt();
    receipt.clear_stages();
    for (int slice = 0; slice < 3; ++slice) {
      for (const v1::StageName name : {v1::QUEUE, v1::COMPUTE}) {
        v1::Stage& stage = *receipt.add_stages();
        stage.set_name(name);
        stage.set_start_us(10 * slice + (name == v1::COMPUTE ? 2 : 0));
        stage.set_end_us(stage.start_us() + 2);
        stage.set_exposed_us(1.5);
      }
    }
  });
  server_.Then(sliced);
  const ProcessResult human = Gemm({"matmul", a_, b_});
  EXPECT_EQ(human.exit_code, 0) << human.error;
  EXPECT_TRUE(std::regex_search(human.output,
                                std::regex("server  queue, 3 times +0\\.0 +22\\.0 +4\\.5\n"
                                           "server  compute, 3 times +2\\.0 +24\\.0 +4\\.5\n")))
      << human.output;
  server_.Then(sliced);
  const auto json = nlohmann::json::parse(Gemm({"matmul", a_, b_, "--json"}).output);
  EXPECT_EQ(json["receipt"]["stages"].size(), 6U);
}

TEST_F(MatmulTest, JsonIsOneObjectWhosePartsSumToTheTotal) {
  server_.Then(Answer(2, 2, "abcd"));
  const ProcessResult result = Gemm({"matmul", a_, b_, "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const auto json = nlohmann::json::parse(result.output);
  EXPECT_EQ(json["d"]["rows"], 2);
  EXPECT_EQ(json["d"]["type"], "int8");
  EXPECT_EQ(json["receipt"]["kernel"], "cpu/test");
  EXPECT_EQ(json["receipt"]["numerics_id"], "test/1");
  EXPECT_EQ(json["receipt"]["determinism"], "batch_invariant");
  EXPECT_EQ(json["receipt"]["stages"][1]["name"], "compute");
  EXPECT_EQ(json["receipt"]["stages"][1]["exposed_us"], 3.0);
  EXPECT_EQ(json["client"]["attempts"], 1);
  const auto& client = json["client"];
  EXPECT_NEAR(client["wire_us"].get<double>() + json["receipt"]["total_us"].get<double>(),
              client["round_trip_us"].get<double>(), 0.01);
  EXPECT_GE(client["total_us"].get<double>(), client["round_trip_us"].get<double>());
}

TEST_F(MatmulTest, EveryOptionReachesTheServer) {
  server_.Then(Answer(2, 2, "abcd"));
  const ProcessResult result = Gemm({"matmul",
                                     a_,
                                     b_,
                                     "--transpose-a",
                                     "--transpose-b",
                                     "--alpha",
                                     "-0.5",
                                     "--beta",
                                     "2",
                                     "--c",
                                     Int8File("c.npy", "(2, 2)", "cccc"),
                                     "--bias",
                                     Int8File("bias.npy", "(2,)", "dd"),
                                     "--activation",
                                     "gelu_tanh",
                                     "--output-type",
                                     "int8",
                                     "--output-order",
                                     "row-major",
                                     "--accumulate-type",
                                     "int32",
                                     "--determinism",
                                     "fast",
                                     "--kernel",
                                     "cpu/test",
                                     "--priority",
                                     "high",
                                     "--verify",
                                     "3",
                                     "--deadline",
                                     "30s"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const v1::MatmulRequest request = server_.requests().at(0);
  const v1::MatmulHeader& header = request.header();
  EXPECT_TRUE(header.transpose_a() && header.transpose_b());
  EXPECT_EQ(header.alpha(), -0.5);
  EXPECT_EQ(header.beta(), 2);
  EXPECT_EQ(header.bias().data().rows(), 1U);
  EXPECT_EQ(header.bias().data().columns(), 2U);
  EXPECT_EQ(header.activation(), v1::GELU_TANH);
  EXPECT_EQ(header.output_type(), v1::INT8);
  EXPECT_EQ(header.accumulate_type(), v1::INT32);
  EXPECT_EQ(header.determinism(), v1::FAST);
  EXPECT_EQ(header.kernel(), "cpu/test");
  EXPECT_EQ(header.priority(), v1::PRIORITY_HIGH);
  EXPECT_EQ(header.verification().vectors(), 3U);
  EXPECT_EQ(request.payload(2).data(), "cccc");
  EXPECT_EQ(request.payload(3).data(), "dd");
}

TEST_F(MatmulTest, RawFilesAreDescribedByOptions) {
  server_.Then(Answer(3, 2, "abcdef"));
  const ProcessResult result =
      Gemm({"matmul", directory_.File("a.bin", "aaaaaaaaaaaa"), b_, "--shape", "a=3x2", "--type",
            "a=bf16", "--order", "a=column-major"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const v1::Plane plane = server_.requests().at(0).header().a().data();
  EXPECT_EQ(plane.type(), v1::BF16);
  EXPECT_EQ(plane.rows(), 3U);
  EXPECT_EQ(plane.columns(), 2U);
  EXPECT_EQ(plane.order(), v1::COLUMN_MAJOR);
  EXPECT_EQ(server_.requests().at(0).header().b().data().type(), v1::INT8);
}

TEST_F(MatmulTest, OneTypeMayServeEveryOperand) {
  server_.Then(Answer(2, 2, "abcd"));
  const std::string fp8 =
      directory_.File("fp8.npy", NpyBytes(NpyDictionaryText("|V1", "(2, 2)"), "aaaa"));
  const ProcessResult result = Gemm({"matmul", fp8, fp8, "--type", "fp8-e4m3"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(server_.requests().at(0).header().b().data().type(), v1::FP8_E4M3);
}

TEST_F(MatmulTest, ScalesGoAsPlanesOfTheirOperands) {
  server_.Then(Answer(2, 2, "abcd"));
  const std::string fp8 =
      directory_.File("fp8.npy", NpyBytes(NpyDictionaryText("|u1", "(2, 2)"), "aaaa"));
  const std::string vector =
      directory_.File("v.npy", NpyBytes(NpyDictionaryText("<f4", "(2,)"), "11112222"));
  const std::string one =
      directory_.File("s.npy", NpyBytes(NpyDictionaryText("<f4", "()"), "3333"));
  const ProcessResult result = Gemm({"matmul", fp8, fp8, "--type", "a=fp8-e4m3", "--type",
                                     "b=fp8-e5m2", "--a-scales", vector, "--b-scales", one});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const v1::MatmulRequest request = server_.requests().at(0);
  const v1::Operand& a = request.header().a();
  EXPECT_EQ(a.data().type(), v1::FP8_E4M3);
  EXPECT_EQ(a.scales().type(), v1::F32);
  EXPECT_EQ(a.scales().rows(), 2U);
  EXPECT_EQ(a.scales().columns(), 1U);
  const v1::Operand& b = request.header().b();
  EXPECT_EQ(b.data().type(), v1::FP8_E5M2);
  EXPECT_EQ(b.scales().rows(), 1U);
  EXPECT_EQ(b.scales().columns(), 1U);
  ASSERT_EQ(request.payload_size(), 4);
  EXPECT_EQ(request.payload(1).operand(), v1::A);
  EXPECT_EQ(request.payload(1).plane(), v1::SCALES);
  EXPECT_EQ(request.payload(1).data(), "11112222");
  EXPECT_EQ(request.payload(3).operand(), v1::B);
  EXPECT_EQ(request.payload(3).data(), "3333");
}

TEST_F(MatmulTest, AFormatsNameSaysWhatItsScalesAre) {
  server_.Then(Answer(2, 2, "abcd"));
  // Two elements a byte.
  const std::string fp4 = directory_.File(
      "fp4.npy", NpyBytes(NpyDictionaryText("|u1", "(2, 20)"), std::string(40, 'a')));
  const std::string fp4_scales =
      directory_.File("s.npy", NpyBytes(NpyDictionaryText("|V1", "(2, 3)"), "ssssss"));
  const std::string one =
      directory_.File("t.npy", NpyBytes(NpyDictionaryText("<f4", "()"), "tttt"));
  const std::string int4 =
      directory_.File("i.npy", NpyBytes(NpyDictionaryText("<V1", "(40, 2)"), std::string(80, 7)));
  const std::string int4_scales =
      directory_.File("is.npy", NpyBytes(NpyDictionaryText("<f2", "(2, 2)"), "12345678"));
  const std::string zero_points =
      directory_.File("z.npy", NpyBytes(NpyDictionaryText("|u1", "(2, 2)"), "zzzz"));
  const ProcessResult result =
      Gemm({"matmul", fp4, int4, "--type", "a=nvfp4", "--type", "b=int4-g32-f16-zp", "--a-scales",
            fp4_scales, "--a-tensor-scale", one, "--b-scales", int4_scales, "--b-zero-points",
            zero_points, "--scale-layout", "a=blocked-128x4"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const v1::MatmulRequest request = server_.requests().at(0);
  const v1::Operand& a = request.header().a();
  EXPECT_EQ(a.data().type(), v1::FP4_E2M1);
  EXPECT_EQ(a.data().columns(), 40U);
  EXPECT_EQ(a.scales().type(), v1::FP8_E4M3);
  EXPECT_EQ(a.scales().columns(), 3U);
  EXPECT_EQ(a.tensor_scale().type(), v1::F32);
  EXPECT_EQ(a.quantization().block_k(), 16U);
  EXPECT_EQ(a.quantization().scale_layout(), v1::SCALES_BLOCKED_128X4);
  const v1::Operand& b = request.header().b();
  EXPECT_EQ(b.data().type(), v1::UINT4);
  EXPECT_EQ(b.data().columns(), 2U);
  EXPECT_EQ(b.scales().type(), v1::F16);
  EXPECT_EQ(b.zero_points().type(), v1::UINT8);
  EXPECT_EQ(b.quantization().block_k(), 32U);
  EXPECT_EQ(b.quantization().block_lines(), 1U);
  EXPECT_EQ(b.quantization().scale_layout(), v1::SCALES_PLAIN);
  ASSERT_EQ(request.payload_size(), 6);
  EXPECT_EQ(request.payload(2).plane(), v1::TENSOR_SCALE);
  EXPECT_EQ(request.payload(2).data(), "tttt");
  EXPECT_EQ(request.payload(3).data(), std::string(40, 0x77));
  EXPECT_EQ(request.payload(5).plane(), v1::ZERO_POINTS);
}

TEST_F(MatmulTest, OffsetsAreOfTheScalesType) {
  server_.Then(Answer(2, 2, "abcd"));
  const std::string a = directory_.File(
      "a.npy", NpyBytes(NpyDictionaryText("<f4", "(2, 40)"), std::string(320, '\0')));
  const std::string codes =
      directory_.File("i.npy", NpyBytes(NpyDictionaryText("<V1", "(40, 2)"), std::string(80, 7)));
  const std::string numbers =
      directory_.File("o.npy", NpyBytes(NpyDictionaryText("<f4", "(3, 2)"), std::string(24, 'o')));
  const ProcessResult result = Gemm({"matmul", a, codes, "--type", "b=int4-g16-f32-offset",
                                     "--b-scales", numbers, "--b-offsets", numbers});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const v1::MatmulRequest request = server_.requests().at(0);
  const v1::Operand& b = request.header().b();
  EXPECT_EQ(b.data().type(), v1::UINT4);
  EXPECT_EQ(b.offsets().type(), v1::F32);
  EXPECT_EQ(b.offsets().rows(), 3U);
  EXPECT_FALSE(b.has_zero_points());
  ASSERT_EQ(request.payload_size(), 4);
  EXPECT_EQ(request.payload(3).plane(), v1::OFFSETS);
  EXPECT_EQ(request.payload(3).data(), std::string(24, 'o'));
}

// Codes without their scales are other numbers.
TEST_F(MatmulTest, AFormatsFilesMustAllBeThere) {
  const std::string scales =
      directory_.File("s.npy", NpyBytes(NpyDictionaryText("<f4", "()"), "ssss"));
  const std::string codes =
      directory_.File("u.npy", NpyBytes(NpyDictionaryText("|u1", "(2, 2)"), "uuuu"));
  const std::vector<std::pair<std::vector<std::string>, const char*>> cases = {
      {{"--type", "a=int8-row"}, "--a-scales: the type has scales, and no file says which"},
      {{"--type", "b=int8-g32"}, "--b-scales: the type has scales"},
      {{"--type", "b=int8-g32-zp", "--b-scales", scales}, "--b-zero-points: the type has zero"},
  };
  const ProcessResult offsets =
      Gemm({"matmul", codes, b_, "--type", "a=uint8-g32-offset", "--a-scales", scales});
  EXPECT_EQ(offsets.exit_code, 2);
  EXPECT_THAT(offsets.error, HasSubstr("--a-offsets: the type has offsets"));
  const ProcessResult nvfp4 =
      Gemm({"matmul", codes, b_, "--type", "a=nvfp4", "--a-scales", scales});
  EXPECT_EQ(nvfp4.exit_code, 2);
  EXPECT_THAT(nvfp4.error, HasSubstr("--a-tensor-scale: the type has a scale of the tensor"));
  for (const auto& [arguments, message] : cases) {
    std::vector<std::string> command = {"matmul", a_, b_};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const ProcessResult result = Gemm(command);
    EXPECT_EQ(result.exit_code, 2) << result.error;
    EXPECT_THAT(result.error, HasSubstr(message));
  }
}

TEST_F(MatmulTest, EveryStatusCodeHasItsExitCode) {
  const std::vector<std::pair<grpc::StatusCode, int>> cases = {
      {grpc::StatusCode::INVALID_ARGUMENT, 4},   {grpc::StatusCode::FAILED_PRECONDITION, 4},
      {grpc::StatusCode::NOT_FOUND, 4},          {grpc::StatusCode::UNIMPLEMENTED, 4},
      {grpc::StatusCode::OUT_OF_RANGE, 4},       {grpc::StatusCode::UNAVAILABLE, 5},
      {grpc::StatusCode::RESOURCE_EXHAUSTED, 6}, {grpc::StatusCode::DEADLINE_EXCEEDED, 6},
      {grpc::StatusCode::UNAUTHENTICATED, 7},    {grpc::StatusCode::PERMISSION_DENIED, 7},
      {grpc::StatusCode::INTERNAL, 1},           {grpc::StatusCode::UNKNOWN, 1},
      {grpc::StatusCode::DATA_LOSS, 1},
  };
  for (const auto& [code, exit_code] : cases) {
    server_.Then(Fail(code, "because\nof a test", "-1"));
    const std::string d = directory_.Path("d.npy");
    const ProcessResult result = Gemm({"matmul", a_, b_, "-o", d});
    EXPECT_EQ(result.exit_code, exit_code) << code;
    EXPECT_EQ(result.output, "");
    const std::string name = absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
    EXPECT_EQ(result.error,
              absl::StrCat("gemm: ", server_.target(), ": ", name, ": because of a test\n"));
    EXPECT_EQ(directory_.Names(), "a.npy b.npy");
  }
}

TEST_F(MatmulTest, AnErrorIsAnObjectToo) {
  server_.Then(Fail(grpc::StatusCode::INVALID_ARGUMENT, "rows 0"));
  const ProcessResult result = Gemm({"--json", "matmul", a_, b_});
  EXPECT_EQ(result.exit_code, 4);
  const auto json = nlohmann::json::parse(result.output);
  EXPECT_EQ(json["error"]["exit_code"], 4);
  EXPECT_EQ(json["error"]["code"], "INVALID_ARGUMENT");
  EXPECT_EQ(json["error"]["why"], "rows 0");
}

TEST_F(MatmulTest, ARetryIsReported) {
  server_.Then(Fail(grpc::StatusCode::RESOURCE_EXHAUSTED, "full", "1"));
  server_.Then(Answer(2, 2, "abcd"));
  const ProcessResult result = Gemm({"matmul", a_, b_});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.output, AllOf(HasSubstr("(2 attempts)"), HasSubstr("waits between attempts")));
}

TEST_F(MatmulTest, ADeadlineEndsIt) {
  server_.Then([](grpc::ServerContext& context, const v1::MatmulRequest&, v1::MatmulResponse&) {
    while (!context.IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
    return grpc::Status::CANCELLED;
  });
  const ProcessResult result = Gemm({"matmul", a_, b_, "--deadline", "20ms"});
  EXPECT_EQ(result.exit_code, 6);
  EXPECT_THAT(result.error, HasSubstr("DEADLINE_EXCEEDED"));
}

TEST_F(MatmulTest, AMalformedResponseIsABug) {
  server_.Then(Answer(2, 2, "abc"));
  const ProcessResult result = Gemm({"matmul", a_, b_, "-o", directory_.Path("d.npy")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error, HasSubstr("takes 4 bytes, but 3 came"));
  EXPECT_EQ(directory_.Names(), "a.npy b.npy");
}

TEST_F(MatmulTest, UnusableFilesAreRefusedBeforeAnythingIsSent) {
  const std::string truncated = directory_.File("truncated.npy", FileBytes(a_).substr(0, 100));
  const std::string strings =
      directory_.File("strings.npy", NpyBytes(NpyDictionaryText("|S1", "(2, 2)"), "aaaa"));
  const std::string row_scales =
      directory_.File("row.npy", NpyBytes(NpyDictionaryText("<f4", "(1, 2)"), "aaaabbbb"));
  const std::vector<std::pair<std::vector<std::string>, const char*>> cases = {
      {{a_, directory_.Path("absent.npy")}, "absent.npy: open: No such file"},
      {{directory_.File("empty.npy", ""), b_}, "empty.npy: the file is empty"},
      {{truncated, b_}, "truncated.npy: header length 118 reaches beyond"},
      {{strings, b_}, "strings.npy: descr '|S1' holds strings"},
      {{Int8File("v.npy", "(4,)", "aaaa"), b_}, "v.npy: shape (4,): two dimensions"},
      {{Int8File("lying.npy", "(9, 9)", "aaaa"), b_}, "lying.npy: 9 x 9 int8"},
      {{a_, b_, "--beta", "1", "--c", directory_.Path("no-c.npy")}, "no-c.npy"},
      {{a_, b_, "--bias", a_}, "a.npy: shape (2, 2): (N,) or (1, N) is accepted"},
      {{a_, b_, "--a-scales", a_}, "a.npy: descr '|i1' cannot be f32"},
      {{a_, b_, "--a-scales", row_scales}, "row.npy: shape (1, 2): (), (M,) or (M, 1) is"},
      {{a_, b_, "--b-scales", directory_.Path("absent-scales.npy")}, "absent-scales.npy: open"},
      {{a_, b_, "--type", "f64"}, "a.npy: descr '|i1' cannot be f64"},
      {{a_, b_, "--shape", "a=2x3", "--type", "a=int8"}, "takes 6 bytes of data"},
      {{a_, b_, "-o", directory_.Path("no/such/d.npy")}, "no/such/d.npy: write: No such file"},
      {{a_, b_, "--tls", "--tls-root-certs", directory_.Path("no.pem")}, "no.pem: open"},
  };
  for (const auto& [arguments, message] : cases) {
    std::vector<std::string> command = {"matmul"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const ProcessResult result = Gemm(command);
    EXPECT_EQ(result.exit_code, 3) << message;
    EXPECT_THAT(result.error, AllOf(StartsWith("gemm: /"), HasSubstr(message)));
  }
  EXPECT_THAT(server_.requests(), IsEmpty());
}

TEST_F(MatmulTest, AWrongCommandLineIsUsage) {
  const std::vector<std::pair<std::vector<std::string>, const char*>> cases = {
      {{"matmul"}, "A is required"},
      {{"matmul", a_}, "B is required"},
      {{"matmul", a_, b_, "--alpha", "two"}, "--alpha"},
      {{"matmul", a_, b_, "--beta", "2"}, "--beta requires --c"},
      {{"matmul", a_, b_, "--activation", "tanh"}, "--activation: tanh not in {none,relu"},
      {{"matmul", a_, b_, "--deadline", "soon"}, "'soon' is no positive duration"},
      {{"matmul", a_, b_, "--timeout", "-1s"}, "'-1s' is no positive duration"},
      {{"matmul", a_, b_, "--shape", "a=3by2"}, "'3by2' is not ROWSxCOLUMNS"},
      {{"matmul", a_, b_, "--shape", "d=3x2"}, "operand 'd': one of a, b, c, bias"},
      {{"matmul", a_, b_, "--shape", "a=2x2"}, "a raw file needs a type: --type a=TYPE"},
      {{"matmul", a_, b_, "--order", "a=row-major"}, "a .npy file has its own order"},
      {{"matmul", a_, b_, "--verify", "-3"}, "--verify"},
      {{"matmul", a_, b_, "--nonsense"}, "--nonsense"},
      {{"matmul", a_, b_, "--tls-root-certs", "x"}, "--tls-root-certs requires --tls"},
  };
  for (const auto& [arguments, message] : cases) {
    const ProcessResult result = Gemm(arguments);
    EXPECT_EQ(result.exit_code, 2) << message;
    EXPECT_THAT(result.error, AllOf(StartsWith("gemm: usage: "), HasSubstr(message),
                                    HasSubstr("(see gemm matmul --help)\n")));
  }
  EXPECT_THAT(server_.requests(), IsEmpty());
}

}  // namespace
}  // namespace gemmd::cli
