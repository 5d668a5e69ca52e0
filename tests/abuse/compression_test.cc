// Messages that are small on the wire and fill memory once they are inflated.
#include <string>

#include "gtest/gtest.h"
#include "tests/abuse/abuse_fixture.h"
#include "tests/abuse/raw_http2.h"
#include "tests/testing/raw_call.h"

namespace gemmd {
namespace {

constexpr const char* kMethods[] = {
    "/gemmd.v1.Gemm/Matmul",
    "/gemmd.v1.Gemm/MatmulStream",
    "/gemmd.v1.Gemm/Estimate",
    "/gemmd.v1.Operands/FindMissing",
    "/gemmd.v1.Operands/Upload",
    "/gemmd.v1.Operands/Download",
    "/gemmd.v1.Regions/Register",
    "/inference.GRPCInferenceService/ModelInfer",
    "/inference.GRPCInferenceService/ModelStreamInfer",
    "/inference.GRPCInferenceService/ModelStatistics",
    "/inference.GRPCInferenceService/RepositoryModelLoad",
    "/gemmd.v1.Admin/Statistics",
    "/gemmd.v1.Admin/Tune",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    "/grpc.channelz.v1.Channelz/GetServers",
    "/no.such.Service/Method",
};

class CompressionTest : public testing::AbuseFixture {
 protected:
  grpc::Status Send(const std::string& method, std::size_t mebibytes,
                    grpc_compression_algorithm algorithm) {
    return testing::RawUnaryCall(channel_, method, testing::ZeroMessage(mebibytes), algorithm)
        .status;
  }
};

TEST_F(CompressionTest, NoMethodTakesACompressedMessage) {
  for (const char* method : kMethods) {
    const grpc::Status status = Send(method, 1, GRPC_COMPRESS_GZIP);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << method;
    EXPECT_EQ(status.error_message(), "Compression algorithm 'gzip' is disabled.") << method;
  }
  EXPECT_EQ(Send(kMethods[0], 1, GRPC_COMPRESS_DEFLATE).error_message(),
            "Compression algorithm 'deflate' is disabled.");
}

TEST_F(CompressionTest, NothingIsInflated) {
  constexpr std::size_t kMebibytes = 16 + (kMostGrowthBytes >> 20);
  EXPECT_EQ(Send("/grpc.health.v1.Health/Check", kMebibytes, GRPC_COMPRESS_GZIP).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

// The header may be missing, or name what the server has never heard of.
TEST_F(CompressionTest, AMessageThatClaimsToBeCompressedIsNoMessage) {
  const std::string message = testing::RawMessage(true, "\x1f\x8b\x08 and what gzip would make");
  for (const testing::RawHeaders& headers :
       {testing::RawHeaders{}, testing::RawHeaders{{"grpc-encoding", "snappy"}},
        testing::RawHeaders{{"grpc-encoding", "identity"}}}) {
    const std::string answer = testing::RawCall(server_.address(), kMethods[0], headers, message);
    EXPECT_EQ(testing::RawHeader(answer, "grpc-status"), "3");
  }
}

TEST_F(CompressionTest, TheServerSaysWhatItTakes) {
  const std::string answer = testing::RawCall(server_.address(), "/grpc.health.v1.Health/Check", {},
                                              testing::RawMessage(false, ""));
  EXPECT_EQ(testing::RawHeader(answer, "grpc-status"), "0");
  EXPECT_EQ(testing::RawHeader(answer, "grpc-accept-encoding"), "identity");
}

}  // namespace
}  // namespace gemmd
