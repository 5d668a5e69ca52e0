// Counts the server's copies of a byte of payload: one on its way in, none on its way out.
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <type_traits>

#include "gemmd/v1/gemm.grpc.pb.h"
#include "gemmd/v1/regions.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/testing/server_process.h"
#include "tests/testing/shared_file.h"
#include "tests/testing/wire.h"

namespace gemmd {
namespace {

using testing::ServerProcess;

constexpr std::int64_t kSize = 1200;
constexpr std::uint64_t kPlaneBytes = kSize * kSize * sizeof(std::int32_t);  // of A, B and D

// In int8 by the kernel that widens operands as it multiplies them: large copies are the server's
// doing.
v1::MatmulRequest Request() {
  const Problem problem = MakeProblem(kSize, kSize, 4 * kSize, DataType::kInt8, DataType::kInt32);
  v1::MatmulRequest request =
      testing::MakeRequest(problem, testing::Operands(problem, testing::Distribution::kNormal, 1));
  request.mutable_header()->set_kernel("cpu/panel_int8");
  return request;
}

// The bytes that a server copies besides, as a part of the payload: it reads gRPC's counters again
// and again, however long a product takes. One operand that is copied once more is a third or a
// half.
constexpr double kBesides = 0.1;

// Returns the bytes that a server copies between its start and its end, while `use` uses it.
template <typename Use>
double CopiedBytes(Use use) {
  setenv("LD_PRELOAD", "tests/testing/libcopy_counter.so", 1);
  ServerProcess server({"--cpu.threads=2", "--shared-memory.name-prefix=gemmd-test-"});
  unsetenv("LD_PRELOAD");
  const std::shared_ptr<grpc::Channel> channel = server.NewChannel();
  if constexpr (std::is_invocable_v<Use, const std::shared_ptr<grpc::Channel>&>) {
    use(channel);
  } else {
    use(v1::Gemm::NewStub(channel).get());
  }
  server.Signal(SIGTERM);
  EXPECT_EQ(server.WaitForExit(), 0);
  const std::size_t at = server.log().find("copied_bytes ");
  EXPECT_NE(at, std::string::npos) << server.log();
  return std::stod(server.log().substr(at + 13));
}

// A server that starts and ends copies too: its CPU's bandwidth is measured so.
double IdleBytes() {
  static const double bytes = CopiedBytes([](v1::Gemm::Stub*) {});
  return bytes;
}

TEST(Copies, AUnaryProductsPayloadIsCopiedOnce) {
  constexpr int kProducts = 4;
  const double copied = CopiedBytes([](v1::Gemm::Stub* stub) {
    for (int i = 0; i < kProducts; ++i) {
      grpc::ClientContext context;
      v1::MatmulResponse response;
      EXPECT_TRUE(stub->Matmul(&context, Request(), &response).ok());
    }
  });
  const double ratio = (copied - IdleBytes()) / (kProducts * 2.0 * kPlaneBytes);
  EXPECT_GT(ratio, 0.99);
  EXPECT_LT(ratio, 1 + kBesides);
}

TEST(Copies, AStreamedProductsPayloadIsCopiedOnce) {
  const double copied = CopiedBytes([](v1::Gemm::Stub* stub) {
    grpc::ClientContext context;
    const auto stream = stub->MatmulStream(&context);
    v1::MatmulRequest request = Request();
    v1::MatmulStreamRequest event;
    *event.mutable_begin()->mutable_header() = request.header();
    stream->Write(event);
    constexpr std::uint64_t kChunk = 1 << 20;
    for (const v1::Chunk& plane : request.payload()) {
      for (std::uint64_t offset = 0; offset < kPlaneBytes; offset += kChunk) {
        v1::Chunk& chunk = *event.mutable_chunk();
        chunk.set_operand(plane.operand());
        chunk.set_offset_bytes(offset);
        chunk.set_data(plane.data().substr(offset, kChunk));
        stream->Write(event);
      }
    }
    stream->WritesDone();
    std::uint64_t received = 0;
    v1::MatmulStreamResponse response;
    while (stream->Read(&response)) received += response.chunk().data().size();
    EXPECT_TRUE(stream->Finish().ok());
    EXPECT_EQ(received, kPlaneBytes);
  });
  const double ratio = (copied - IdleBytes()) / (2.0 * kPlaneBytes);
  EXPECT_GT(ratio, 0.99);
  EXPECT_LT(ratio, 1 + kBesides);
}

// pread and pwrite copy no more than the one copy that a payload takes.
TEST(Copies, SharedOperandsAreCopiedByTheKernelAlone) {
  constexpr int kProducts = 4;
  testing::SharedFile file(3 * kPlaneBytes);
  const double copied = CopiedBytes([&](const std::shared_ptr<grpc::Channel>& channel) {
    v1::RegisterRegionRequest registration;
    registration.mutable_posix()->set_name(file.name());
    registration.mutable_posix()->set_size_bytes(3 * kPlaneBytes);
    v1::RegisterRegionResponse registered;
    grpc::ClientContext register_context;
    ASSERT_TRUE(
        v1::Regions::NewStub(channel)->Register(&register_context, registration, &registered).ok());
    v1::MatmulRequest request;
    *request.mutable_header() = Request().header();
    const auto place = [&](v1::SharedMemory* memory, std::uint64_t offset) {
      memory->set_region(registered.region());
      memory->set_offset_bytes(offset);
    };
    place(request.mutable_header()->mutable_a()->mutable_shared(), 0);
    place(request.mutable_header()->mutable_b()->mutable_shared(), kPlaneBytes);
    place(request.mutable_header()->mutable_output(), 2 * kPlaneBytes);
    for (int i = 0; i < kProducts; ++i) {
      grpc::ClientContext context;
      v1::MatmulResponse response;
      EXPECT_TRUE(v1::Gemm::NewStub(channel)->Matmul(&context, request, &response).ok());
    }
  });
  EXPECT_LT((copied - IdleBytes()) / (kProducts * 3.0 * kPlaneBytes), kBesides);
}

}  // namespace
}  // namespace gemmd
