// Products through shared memory of a real server on the CPU device.
#include <atomic>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gemmd/v1/admin.grpc.pb.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "gemmd/v1/regions.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/testing/products/matrices.h"
#include "tests/testing/server_process.h"
#include "tests/testing/shared_file.h"
#include "tests/testing/wire.h"

namespace gemmd {
namespace {

using grpc::StatusCode;
using testing::Operands;
using testing::SharedFile;

constexpr std::uint64_t kFirst = 37;  // in the file: no operand is aligned

class SharedMemoryTest : public ::testing::Test {
 protected:
  // Messages are far too small for any operand here.
  explicit SharedMemoryTest(std::vector<std::string> flags = {"--shared-memory.name-prefix=gemmd-"
                                                              "test-",
                                                              "--shared-memory.max-regions=2",
                                                              "--cpu.threads=1",
                                                              "--limits.message-bytes=4096"})
      : server_(std::move(flags)),
        channel_(server_.NewChannel()),
        gemm_(v1::Gemm::NewStub(channel_)),
        admin_(v1::Admin::NewStub(channel_)),
        regions_(v1::Regions::NewStub(channel_)) {}

  grpc::Status Register(const std::string& name, std::uint64_t offset, std::uint64_t bytes,
                        std::string* region) {
    grpc::ClientContext context;
    v1::RegisterRegionRequest request;
    request.mutable_posix()->set_name(name);
    request.mutable_posix()->set_offset_bytes(offset);
    request.mutable_posix()->set_size_bytes(bytes);
    v1::RegisterRegionResponse response;
    grpc::Status status = regions_->Register(&context, request, &response);
    *region = response.region();
    return status;
  }

  grpc::Status Unregister(const std::string& region) {
    grpc::ClientContext context;
    v1::UnregisterRegionRequest request;
    request.set_region(region);
    v1::UnregisterRegionResponse response;
    return regions_->Unregister(&context, request, &response);
  }

  grpc::Status Call(const v1::MatmulRequest& request, v1::MatmulResponse* response) {
    grpc::ClientContext context;
    return gemm_->Matmul(&context, request, response);
  }

  // The header of the product with every plane, and then D, in the region one after another;
  // the planes' bytes go into the file, if one is given. Returns where D begins.
  static std::uint64_t Share(const v1::MatmulRequest& inline_request, const std::string& region,
                             SharedFile* file, v1::MatmulRequest* shared) {
    *shared->mutable_header() = inline_request.header();
    v1::MatmulHeader* header = shared->mutable_header();
    std::uint64_t next = kFirst;
    for (const v1::OperandName name : {v1::A, v1::B, v1::C, v1::BIAS}) {
      bool is_first = true;
      for (const v1::PlaneName plane : {v1::DATA, v1::SCALES}) {
        for (const v1::Chunk& chunk : inline_request.payload()) {
          if (chunk.operand() != name || chunk.plane() != plane) continue;
          if (is_first) {
            v1::Operand* operand = name == v1::A   ? header->mutable_a()
                                   : name == v1::B ? header->mutable_b()
                                   : name == v1::C ? header->mutable_c()
                                                   : header->mutable_bias();
            operand->mutable_shared()->set_region(region);
            operand->mutable_shared()->set_offset_bytes(next);
            is_first = false;
          }
          if (file != nullptr) file->Write(next, chunk.data().data(), chunk.data().size());
          next += chunk.data().size();
        }
      }
    }
    header->mutable_output()->set_region(region);
    header->mutable_output()->set_offset_bytes(next);
    return next;
  }

  v1::StatisticsResponse Statistics() const {
    grpc::ClientContext context;
    v1::StatisticsResponse response;
    EXPECT_TRUE(admin_->Statistics(&context, {}, &response).ok());
    return response;
  }

  testing::ServerProcess server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Gemm::Stub> gemm_;
  std::unique_ptr<v1::Admin::Stub> admin_;
  std::unique_ptr<v1::Regions::Stub> regions_;
};

TEST_F(SharedMemoryTest, ProductsAreThoseOfInlineOperandsBitForBit) {
  testing::ServerProcess inline_server({"--cpu.threads=1"});
  const auto inline_gemm = v1::Gemm::NewStub(inline_server.NewChannel());
  std::uint32_t seed = 0;
  for (const auto& [type, output] :
       {std::pair{DataType::kF32, DataType::kF32}, std::pair{DataType::kInt8, DataType::kF32}}) {
    for (const Problem& problem : testing::SmallProblems(type, output)) {
      if (++seed % 3 != 0) continue;
      const Operands operands(problem, testing::Distribution::kNormal, seed);
      const v1::MatmulRequest request = testing::MakeRequest(problem, operands);
      grpc::ClientContext context;
      v1::MatmulResponse expected;
      ASSERT_TRUE(inline_gemm->Matmul(&context, request, &expected).ok());
      const std::string& bits = expected.payload(0).data();

      SharedFile file(1 << 20);
      std::string region;
      ASSERT_TRUE(Register(file.name(), 0, 1 << 20, &region).ok());
      v1::MatmulRequest shared;
      const std::uint64_t d = Share(request, region, &file, &shared);
      // Between D's lines the region keeps what it had: what inline results have there, zeros.
      v1::MatmulResponse response;
      const grpc::Status status = Call(shared, &response);
      ASSERT_TRUE(status.ok()) << status.error_message() << ToString(problem);
      EXPECT_EQ(response.payload_size(), 0);
      EXPECT_EQ(file.Read(d, bits.size()), bits) << ToString(problem);
      EXPECT_EQ(response.d().SerializeAsString(), expected.d().SerializeAsString());
      ASSERT_TRUE(Unregister(region).ok());
    }
  }
}

TEST_F(SharedMemoryTest, NoPayloadByteGoesThroughTheSocket) {
  const Problem problem = MakeProblem(512, 512, 512, DataType::kF32, DataType::kF32);
  const Operands operands(problem, testing::Distribution::kNormal, 7);
  const std::uint64_t bytes = kFirst + 3 * problem.d.size_bytes();
  SharedFile file(bytes);
  std::string region;
  ASSERT_TRUE(Register(file.name(), 0, bytes, &region).ok());
  v1::MatmulRequest shared;
  const std::uint64_t d = Share(testing::MakeRequest(problem, operands), region, &file, &shared);
  v1::MatmulResponse response;
  ASSERT_TRUE(Call(shared, &response).ok());
  EXPECT_LT(shared.ByteSizeLong(), 512);
  EXPECT_LT(response.ByteSizeLong(), 1024);
  EXPECT_EQ(response.receipt().payload_bytes_in(), 0);
  EXPECT_EQ(response.receipt().payload_bytes_out(), 0);
  const std::string unary = file.Read(d, problem.d.size_bytes());

  // The product goes over a stream too, into the same place.
  file.Write(d, std::string(problem.d.size_bytes(), 'x').data(), problem.d.size_bytes());
  grpc::ClientContext context;
  const auto stream = gemm_->MatmulStream(&context);
  v1::MatmulStreamRequest begin;
  begin.mutable_begin()->set_request_id(3);
  *begin.mutable_begin()->mutable_header() = shared.header();
  ASSERT_TRUE(stream->Write(begin));
  stream->WritesDone();
  v1::MatmulStreamResponse event;
  ASSERT_TRUE(stream->Read(&event));
  EXPECT_EQ(event.finished().code(), 0) << event.finished().message();
  EXPECT_EQ(event.finished().payload_size(), 0);
  EXPECT_FALSE(stream->Read(&event));
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(file.Read(d, problem.d.size_bytes()), unary);

  const v1::StatisticsResponse statistics = Statistics();
  EXPECT_EQ(statistics.payload_bytes_in(), 0);
  EXPECT_EQ(statistics.payload_bytes_out(), 0);
  EXPECT_EQ(statistics.reserved_bytes(), 0);
}

TEST_F(SharedMemoryTest, BadRegionsAndRangesAreRefusedByName) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  constexpr std::uint64_t kBytes = kFirst + 3 * 256;
  SharedFile file(kBytes);
  std::string region;
  EXPECT_EQ(Register("other", 0, 1, &region).error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Register(file.name(), kMax, kMax, &region).error_code(),
            StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Register(file.name(), kMax, 2, &region).error_code(), StatusCode::INVALID_ARGUMENT);
  ASSERT_TRUE(Register(file.name(), 0, kBytes, &region).ok());
  v1::MatmulRequest good;
  const std::uint64_t d = Share(testing::ZeroRequest(8), region, nullptr, &good);
  v1::MatmulResponse response;
  ASSERT_TRUE(Call(good, &response).ok());

  const auto code = [&](const auto& spoil) {
    v1::MatmulRequest bad = good;
    spoil(bad.mutable_header());
    return Call(bad, &response).error_code();
  };
  const auto at = [](auto* memory, std::uint64_t offset) { memory->set_offset_bytes(offset); };
  using H = v1::MatmulHeader*;
  for (std::uint64_t offset : {kMax, kMax - 255, kBytes, kBytes - 255}) {
    EXPECT_EQ(code([&](H h) { at(h->mutable_a()->mutable_shared(), offset); }),
              StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(code([&](H h) { at(h->mutable_output(), offset); }), StatusCode::INVALID_ARGUMENT);
  }
  EXPECT_EQ(code([&](H h) { at(h->mutable_output(), d - 1); }), StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(code([&](H h) { h->mutable_b()->mutable_shared()->set_region(file.name()); }),
            StatusCode::NOT_FOUND);
  EXPECT_EQ(code([&](H h) { h->mutable_output()->set_region("none"); }), StatusCode::NOT_FOUND);
  // C may be where D goes, but only exactly.
  const auto with_c = [&](H h, std::uint64_t offset) {
    *h->mutable_c() = h->a();
    h->set_beta(1);
    at(h->mutable_c()->mutable_shared(), offset);
  };
  EXPECT_EQ(code([&](H h) { with_c(h, d); }), StatusCode::OK);
  EXPECT_EQ(code([&](H h) { with_c(h, d - 4); }), StatusCode::INVALID_ARGUMENT);
  ASSERT_TRUE(Unregister(region).ok());
  EXPECT_EQ(code([](H) {}), StatusCode::NOT_FOUND);
  EXPECT_EQ(Statistics().reserved_bytes(), 0);
}

// Neither another client's name, by which one could register the same memory, nor its id.
TEST_F(SharedMemoryTest, NobodyIsToldOfTheRegionsOfOthers) {
  SharedFile file(4096);
  std::string region;
  ASSERT_TRUE(Register(file.name(), 0, 4096, &region).ok());
  const auto other = v1::Regions::NewStub(server_.NewChannel());
  v1::RegionStatusRequest request;
  v1::RegionStatusResponse response;
  const auto status = [&](const std::string& id) {
    grpc::ClientContext context;
    request.set_region(id);
    return other->Status(&context, request, &response);
  };
  EXPECT_EQ(status("").error_code(), StatusCode::INVALID_ARGUMENT);
  for (const std::string& id : {std::string("0"), std::string(32, '0'), file.name()}) {
    const grpc::Status unknown = status(id);
    EXPECT_EQ(unknown.error_code(), StatusCode::NOT_FOUND);
    EXPECT_EQ(unknown.error_message().find(file.name()), std::string::npos);
    EXPECT_EQ(unknown.error_message().find(region), std::string::npos);
  }
  EXPECT_EQ(response.regions_size(), 0);
  ASSERT_TRUE(status(region).ok());
  ASSERT_EQ(response.regions_size(), 1);
  EXPECT_EQ(response.regions(0).name(), file.name());
}

TEST_F(SharedMemoryTest, AClientThatCutsItsFileShortGetsAnErrorAndTheServerServesOn) {
  constexpr std::uint64_t kSize = 96;
  constexpr std::uint64_t kPlane = kSize * kSize * 4;
  constexpr std::uint64_t kBytes = kFirst + 3 * kPlane;
  SharedFile file(kBytes);
  std::string region;
  ASSERT_TRUE(Register(file.name(), 0, kBytes, &region).ok());
  v1::MatmulRequest request;
  Share(testing::ZeroRequest(kSize), region, nullptr, &request);
  v1::MatmulResponse response;
  file.Resize(kBytes - 1);
  const grpc::Status status = Call(request, &response);
  EXPECT_EQ(status.error_code(), StatusCode::FAILED_PRECONDITION);
  EXPECT_NE(status.error_message().find(file.name()), std::string::npos);

  std::atomic<bool> stop{false};
  std::thread cutter([&] {
    std::mt19937 random(5);
    while (!stop) file.Resize(random() % 2 == 0 ? kBytes : random() % kBytes);
  });
  int failed = 0;
  for (int i = 0; i < 300; ++i) {
    const StatusCode code = Call(request, &response).error_code();
    EXPECT_TRUE(code == StatusCode::OK || code == StatusCode::FAILED_PRECONDITION) << code;
    failed += code == StatusCode::OK ? 0 : 1;
  }
  stop = true;
  cutter.join();
  EXPECT_GT(failed, 0);
  file.Resize(kBytes);
  EXPECT_TRUE(Call(request, &response).ok());
  EXPECT_EQ(Statistics().reserved_bytes(), 0);
}

TEST_F(SharedMemoryTest, AClientThatGoesWhileItsProductRunsLeavesNothing) {
  constexpr std::uint64_t kSize = 768;
  constexpr std::uint64_t kBytes = kFirst + 3 * kSize * kSize * 4;
  std::mt19937 random(11);
  for (int i = 0; i < 20; ++i) {
    SharedFile file(kBytes);
    std::string region;
    ASSERT_TRUE(Register(file.name(), 0, kBytes, &region).ok());
    v1::MatmulRequest request;
    Share(testing::ZeroRequest(kSize), region, nullptr, &request);
    grpc::ClientContext context;
    const auto stream = gemm_->MatmulStream(&context);
    v1::MatmulStreamRequest begin;
    begin.mutable_begin()->set_request_id(1);
    *begin.mutable_begin()->mutable_header() = request.header();
    ASSERT_TRUE(stream->Write(begin));
    // Until its operands are found, which the product's end may or may not precede.
    while (Statistics().admitted_requests() < static_cast<std::uint64_t>(i) + 1) {
    }
    if (random() % 2 == 0) file.Resize(random() % kBytes);
    if (random() % 2 == 0) {
      EXPECT_TRUE(Unregister(region).ok());
    }
    context.TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), StatusCode::CANCELLED);
    while (Statistics().reserved_bytes() != 0) {
    }
    Unregister(region);
    // Regions in use are given back: no more than two exist at a time.
    std::string other;
    while (Register(file.name(), 0, 1, &other).error_code() == StatusCode::RESOURCE_EXHAUSTED) {
    }
    if (!other.empty()) {
      EXPECT_TRUE(Unregister(other).ok());
    }
  }
}

class SharedMemoryOffTest : public SharedMemoryTest {
 protected:
  SharedMemoryOffTest() : SharedMemoryTest({"--cpu.threads=1"}) {}
};

TEST_F(SharedMemoryOffTest, NothingIsTakenUnlessTheOperatorSaysSo) {
  const SharedFile file(4096);
  std::string region;
  EXPECT_EQ(Register(file.name(), 0, 4096, &region).error_code(), StatusCode::FAILED_PRECONDITION);
  v1::MatmulRequest request;
  Share(testing::ZeroRequest(8), "any", nullptr, &request);
  v1::MatmulResponse response;
  EXPECT_EQ(Call(request, &response).error_code(), StatusCode::FAILED_PRECONDITION);
}

}  // namespace
}  // namespace gemmd
