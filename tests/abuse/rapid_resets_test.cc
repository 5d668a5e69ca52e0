// Calls that are opened and reset at once (CVE-2023-44487): HTTP/2 does not count them as open any
// more, and gRPC has yet to tell the server of each.
#include <thread>

#include "gtest/gtest.h"
#include "tests/abuse/abuse_fixture.h"
#include "tests/abuse/raw_http2.h"

namespace gemmd {
namespace {

class RapidResetsTest : public testing::AbuseFixture {
 protected:
  RapidResetsTest()
      : AbuseFixture({"--limits.streams-per-connection=25", "--limits.stall-timeout-ms=1000"},
                     256 << 20) {}

  // Over a connection of its own, until the server closes that. The calls come from an address of
  // its own, which opens no other connection for a while then.
  void Reset(const char* method, int count) {
    constexpr int kTogether = 100;
    testing::RawConnection::Options options;
    options.source = "127.0.1.1";
    testing::RawConnection connection(server_.address(), options);
    for (int i = 0; i < count && connection.BeginAndReset(method, kTogether); i += kTogether) {
    }
  }
};

// Without a bound each takes some ten kilobytes, for seconds: the fixture looks at memory. gRPC
// reads thousands of them before it tells of one.
TEST_F(RapidResetsTest, FillNoMemory) {
  for (const char* method : {"/gemmd.v1.Gemm/Matmul", "/inference.GRPCInferenceService/ModelInfer",
                             "/inference.GRPCInferenceService/ModelStreamInfer",
                             "/grpc.health.v1.Health/Check", "/no.such.Service/Method"}) {
    std::thread other([&] { Reset(method, 20000); });
    Reset(method, 20000);
    other.join();
  }
}

}  // namespace
}  // namespace gemmd
