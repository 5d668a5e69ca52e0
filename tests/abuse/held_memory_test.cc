// Memory of requests that waits for clients who do nothing, with the limits that are the defaults.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gemmd/v1/admin.grpc.pb.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/abuse/abuse_fixture.h"
#include "tests/abuse/attacks.h"
#include "tests/abuse/raw_http2.h"
#include "tests/testing/wire.h"

namespace gemmd {
namespace {

constexpr int kAddresses = 3;
constexpr int kMany = 16;                // requests of an address; a few of all find memory
constexpr std::uint64_t kOthers = 1400;  // rows and columns of f32: 7.5 MiB each of A, B and D

// The server has 64 MiB for requests, and a tenant may have 80 % of it, which attackers at several
// addresses hold in no time while many more of their requests wait. Yet the polite client of the
// fixture has its products, and another tenant one for which not enough is left at a time.
class HeldMemoryTest : public testing::AbuseFixture {
 protected:
  HeldMemoryTest() : AbuseFixture({}, std::uint64_t{160} << 20) {
    for (int i = 1; i <= kAddresses; ++i) {
      testing::RawConnection::Options options;
      options.stream_window = 0;  // no answer is read
      options.source = absl::StrCat("127.0.4.", i);
      connections_.push_back(std::make_unique<testing::RawConnection>(server_.address(), options));
    }
  }
  // The attackers leave: memory that nobody else wants stays theirs until the stall timeout.
  void TearDown() override {
    connections_.clear();
    AbuseFixture::TearDown();
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

  std::vector<std::unique_ptr<testing::RawConnection>> connections_;
};

// Each header of some 60 bytes announces 12 MiB.
TEST_F(HeldMemoryTest, ByHeadersAloneIsGivenBack) {
  v1::MatmulStreamRequest request;
  v1::MatmulHeader* const header = request.mutable_begin()->mutable_header();
  for (v1::Operand* const operand : {header->mutable_a(), header->mutable_b()}) {
    operand->mutable_data()->set_type(v1::F32);
    operand->mutable_data()->set_rows(1024);
    operand->mutable_data()->set_columns(1024);
  }
  request.mutable_begin()->set_await_accepted(true);
  for (const auto& connection : connections_) {
    const std::uint32_t call = connection->Begin("/gemmd.v1.Gemm/MatmulStream");
    for (int i = 0; i < kMany; ++i) {
      request.mutable_begin()->set_request_id(i);
      connection->Send(call, testing::RawMessage(false, request.SerializeAsString()), false);
    }
  }
  AwaitFull();
  ExpectOthersAreServed();
}

// Each request of some 12 KB asks for an answer of 9 MiB.
TEST_F(HeldMemoryTest, ByAnswersThatNobodyReadsIsGivenBack) {
  for (int i = 0; i < kMany; ++i) {
    const char* const method = testing::kUnaryProducts[i % 2];
    for (const auto& connection : connections_) {
      connection->Send(connection->Begin(method), testing::OuterProduct(method, 1500), true);
    }
  }
  AwaitFull();
  ExpectOthersAreServed();
}

}  // namespace
}  // namespace gemmd
