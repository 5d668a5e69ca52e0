// Streams that are opened and left alone. Each holds what a call holds, and no thread.
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/abuse/abuse_fixture.h"
#include "tests/abuse/raw_http2.h"

namespace gemmd {
namespace {

constexpr int kConnections = 4;
constexpr int kStreams = 20;  // on each

class IdleStreamsTest : public testing::AbuseFixture {
 protected:
  std::ptrdiff_t Threads() const {
    const std::filesystem::directory_iterator tasks(absl::StrCat("/proc/", server_.pid(), "/task"));
    return std::distance(begin(tasks), end(tasks));
  }
};

TEST_F(IdleStreamsTest, HoldNoThreads) {
  for (const char* method : {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                             "/grpc.health.v1.Health/Watch", "/gemmd.v1.Gemm/MatmulStream",
                             "/inference.GRPCInferenceService/ModelStreamInfer",
                             "/gemmd.v1.Operands/Upload", "/no.such.Service/Method"}) {
    const std::ptrdiff_t before = Threads();
    std::vector<std::unique_ptr<testing::RawConnection>> connections;
    for (int i = 0; i < kConnections; ++i) {
      testing::RawConnection& connection =
          *connections.emplace_back(std::make_unique<testing::RawConnection>(server_.address()));
      for (int j = 0; j < kStreams; ++j) connection.Begin(method);
      // Its answer shows that the calls before it have come.
      const std::uint32_t last = connection.Begin("/no.such.Service/Method");
      EXPECT_EQ(testing::RawHeader(connection.ReceiveEnd(last), "grpc-status"), "12");
    }
    EXPECT_LE(Threads(), before + kConnections * kStreams / 2) << method;
  }
}

}  // namespace
}  // namespace gemmd
