// Answers that their client does not read, each of which holds its result's memory.
#include <cstdint>
#include <string>

#include "gemmd/v1/gemm.grpc.pb.h"
#include "gemmd/v1/operands.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/abuse/abuse_fixture.h"
#include "tests/abuse/attacks.h"
#include "tests/abuse/raw_http2.h"

namespace gemmd {
namespace {

class UnreadAnswersTest : public testing::AbuseFixture {
 protected:
  UnreadAnswersTest()
      : AbuseFixture(
            {"--limits.stall-timeout-ms=1000", "--limits.min-bytes-per-second=100000000"}) {}

  // Returns once requests hold so much memory.
  void AwaitReserved(std::uint64_t bytes) {
    while (ReservedBytes() < bytes) {
    }
  }
};

TEST_F(UnreadAnswersTest, HeldBackByFlowControlEndTheirCall) {
  testing::RawConnection::Options options;
  options.stream_window = 0;
  for (const char* method : testing::kAllProducts) {
    testing::RawConnection connection(server_.address(), options);
    const std::uint32_t call = connection.Begin(method);
    connection.Send(call, testing::OuterProduct(method, 512), true);
    EXPECT_TRUE(testing::IsReset(connection.ReceiveEnd(call), call)) << method;
    AwaitFreeMemory();
  }
}

// Bytes that were written to the connection hold memory as long as that lasts.
TEST_F(UnreadAnswersTest, ThatFillAConnectionEndIt) {
  testing::RawConnection::Options options;
  options.stream_window = options.window = 0x7fffffff;
  options.receive_buffer = 4096;
  for (const char* method : testing::kUnaryProducts) {
    testing::RawConnection connection(server_.address(), options);
    constexpr std::uint64_t kSize = 1500;
    for (int i = 0; i < 4; ++i) {
      connection.Send(connection.Begin(method), testing::OuterProduct(method, kSize), true);
    }
    AwaitReserved(kSize * kSize * sizeof(float));
    AwaitFreeMemory();
    std::string answer;
    while (connection.Receive(&answer)) {
    }
  }
}

TEST_F(UnreadAnswersTest, OfDownloadsEndToo) {
  v1::UploadRequest upload;
  {
    const auto gemm = v1::Gemm::NewStub(channel_);
    v1::MatmulRequest request;
    const std::string bytes = testing::OuterProduct(testing::kMatmul, 512);
    ASSERT_TRUE(request.ParseFromArray(bytes.data() + 5, static_cast<int>(bytes.size() - 5)));
    request.mutable_header()->mutable_keep_result();
    grpc::ClientContext context;
    v1::MatmulResponse response;
    ASSERT_TRUE(gemm->Matmul(&context, request, &response).ok());
    v1::DownloadRequest download;
    download.set_handle(response.handle());
    testing::RawConnection::Options options;
    options.stream_window = 1000;
    testing::RawConnection connection(server_.address(), options);
    const std::uint32_t call = connection.Begin("/gemmd.v1.Operands/Download");
    connection.Send(call, testing::RawMessage(false, download.SerializeAsString()), true);
    EXPECT_TRUE(testing::IsReset(connection.ReceiveEnd(call), call));
  }
}

}  // namespace
}  // namespace gemmd
