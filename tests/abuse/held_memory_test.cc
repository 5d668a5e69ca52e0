// Memory of requests that waits for clients who do nothing, with the limits that are the defaults.
#include <algorithm>
#include <cstdint>
#include <memory>

#include "gemmd/v1/admin.grpc.pb.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/abuse/abuse_fixture.h"
#include "tests/abuse/attacks.h"
#include "tests/abuse/raw_http2.h"
#include "tests/testing/wire.h"

namespace gemmd {
namespace {

constexpr std::uint64_t kOthers = 1340;  // rows and columns of f32: 7 MiB each of A, B and D

// The server has 64 MiB for requests, of which a client that does nothing holds more than 40 MiB.
// Yet the polite client of the fixture has its products, and another tenant one for which not
// enough is left.
class HeldMemoryTest : public testing::AbuseFixture {
 protected:
  HeldMemoryTest() : AbuseFixture({}, std::uint64_t{160} << 20) {}

  static testing::RawConnection::Options ReadsNoAnswer() {
    testing::RawConnection::Options options;
    options.stream_window = 0;
    options.source = "127.0.4.1";
    return options;
  }

  // Returns once requests hold nearly all that the tenant may have, or have held it.
  void AwaitFull() {
    constexpr std::uint64_t kNearlyAll = std::uint64_t{40} << 20;
    const auto admin = v1::Admin::NewStub(channel_);
    std::uint64_t most = 0;
    while (most < kNearlyAll) {
      grpc::ClientContext context;
      v1::StatisticsResponse statistics;
      ASSERT_TRUE(admin->Statistics(&context, {}, &statistics).ok());
      most = std::max(most, statistics.reserved_bytes());
    }
  }
  // More than is left: it waits until memory that nobody uses is given back.
  void ExpectOthersAreServed() const {
    const auto gemm = v1::Gemm::NewStub(server_.NewChannel());
    grpc::ClientContext context;
    context.AddMetadata("gemmd-tenant", "other");
    v1::MatmulResponse response;
    const grpc::Status status = gemm->Matmul(&context, testing::ZeroRequest(kOthers), &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  testing::RawConnection connection_{server_.address(), ReadsNoAnswer()};
};

// Some 60 bytes announce 12 MiB each.
TEST_F(HeldMemoryTest, ByHeadersAloneIsGivenBack) {
  v1::MatmulStreamRequest request;
  v1::MatmulHeader* const header = request.mutable_begin()->mutable_header();
  for (v1::Operand* const operand : {header->mutable_a(), header->mutable_b()}) {
    operand->mutable_data()->set_type(v1::F32);
    operand->mutable_data()->set_rows(1024);
    operand->mutable_data()->set_columns(1024);
  }
  request.mutable_begin()->set_await_accepted(true);
  const std::uint32_t call = connection_.Begin("/gemmd.v1.Gemm/MatmulStream");
  for (int i = 0; i < 4; ++i) {
    request.mutable_begin()->set_request_id(i);
    connection_.Send(call, testing::RawMessage(false, request.SerializeAsString()), false);
  }
  AwaitFull();
  ExpectOthersAreServed();
}

// Some 24 KB ask for an answer of 9 MiB each.
TEST_F(HeldMemoryTest, ByAnswersThatNobodyReadsIsGivenBack) {
  for (int i = 0; i < 5; ++i) {
    connection_.Send(connection_.Begin("/gemmd.v1.Gemm/Matmul"), testing::OuterProduct(1500), true);
  }
  AwaitFull();
  ExpectOthersAreServed();
}

}  // namespace
}  // namespace gemmd
