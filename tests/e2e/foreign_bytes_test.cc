// Memory that was one tenant's never shows in what another one is answered. Each plane of alice's
// is full of a mark; bob multiplies zeros, so that every other byte than a zero is somebody else's.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/digest/operand_digest.h"
#include "gemmd/v1/gemm.grpc.pb.h"
#include "gemmd/v1/operands.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/testing/server_process.h"

namespace gemmd {
namespace {

// As f32 it is an ordinary number, 5e7.
constexpr char kMark[] = "MARK";

std::string Marks(std::uint64_t bytes) {
  std::string text;
  while (text.size() < bytes) text += kMark;
  return text;
}

std::string Zeros(std::uint64_t bytes) { return std::string(bytes, '\0'); }

void Describe(std::uint64_t rows, std::uint64_t columns, v1::Operand* operand) {
  operand->mutable_data()->set_type(v1::F32);
  operand->mutable_data()->set_rows(rows);
  operand->mutable_data()->set_columns(columns);
}

v1::MatmulHeader HeaderOf(std::uint64_t n) {
  v1::MatmulHeader header;
  Describe(n, n, header.mutable_a());
  Describe(n, n, header.mutable_b());
  return header;
}

v1::Chunk ChunkOf(v1::OperandName name, std::string bytes) {
  v1::Chunk chunk;
  chunk.set_operand(name);
  chunk.set_data(std::move(bytes));
  return chunk;
}

class ForeignBytesTest : public ::testing::Test {
 protected:
  static void Be(const std::string& tenant, grpc::ClientContext* context) {
    context->AddMetadata("gemmd-tenant", tenant);
  }

  v1::MatmulResponse Multiply(const std::string& tenant, const v1::MatmulRequest& request) const {
    grpc::ClientContext context;
    Be(tenant, &context);
    v1::MatmulResponse response;
    const grpc::Status status = v1::Gemm::NewStub(channel_)->Matmul(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  // D = 0 * mark + mark, with marks in every plane; kept, and given back.
  void MarkProducts(std::uint64_t n) const {
    v1::MatmulRequest request;
    *request.mutable_header() = HeaderOf(n);
    request.mutable_header()->set_alpha(0);
    request.mutable_header()->set_beta(1);
    Describe(n, n, request.mutable_header()->mutable_c());
    for (const v1::OperandName name : {v1::A, v1::B, v1::C}) {
      *request.add_payload() = ChunkOf(name, Marks(4 * n * n));
    }
    EXPECT_EQ(Multiply("alice", request).payload(0).data(), Marks(4 * n * n));
    request.mutable_header()->mutable_keep_result();
    const v1::MatmulResponse kept = Multiply("alice", request);
    Release("alice", kept.handle());
  }

  void Release(const std::string& tenant, const std::string& handle) const {
    grpc::ClientContext context;
    Be(tenant, &context);
    v1::ReleaseRequest request;
    request.set_handle(handle);
    v1::ReleaseResponse response;
    EXPECT_TRUE(v1::Operands::NewStub(channel_)->Release(&context, request, &response).ok());
  }

  // An upload of n x n numbers of which so many bytes are sent.
  grpc::Status Upload(const std::string& tenant, std::uint64_t n, const std::string& whole,
                      std::uint64_t sent, v1::UploadResponse* response) const {
    grpc::ClientContext context;
    Be(tenant, &context);
    const auto stream = v1::Operands::NewStub(channel_)->Upload(&context, response);
    v1::UploadRequest request;
    request.mutable_begin()->set_digest(DigestOf(n, whole));
    Describe(n, n, request.mutable_begin()->mutable_operand());
    stream->Write(request);
    *request.mutable_chunk() = ChunkOf(v1::OPERAND_UNSPECIFIED, whole.substr(0, sent));
    stream->Write(request);
    stream->WritesDone();
    return stream->Finish();
  }
  static std::string DigestOf(std::uint64_t n, const std::string& bytes) {
    DigestPlane plane;
    plane.type = DataType::kF32;
    plane.rows = plane.columns = n;
    plane.bytes = bytes.size();
    plane.chunks = ChunkDigests(bytes);
    plane.name = v1::DATA;
    return ToBytes(OperandDigest(DataType::kF32, {plane}));
  }

  // A product that is begun with half of its payload, and given up.
  void AbandonProduct(std::uint64_t n) const {
    grpc::ClientContext context;
    Be("alice", &context);
    const auto stream = v1::Gemm::NewStub(channel_)->MatmulStream(&context);
    v1::MatmulStreamRequest request;
    request.mutable_begin()->set_request_id(1);
    *request.mutable_begin()->mutable_header() = HeaderOf(n);
    stream->Write(request);
    *request.mutable_chunk() = ChunkOf(v1::A, Marks(2 * n * n));
    request.mutable_chunk()->set_request_id(1);
    stream->Write(request);
    context.TryCancel();
    stream->Finish();
  }

  static void ExpectZeros(const std::string& bytes, std::uint64_t size, const std::string& what) {
    ASSERT_EQ(bytes.size(), size) << what;
    const auto foreign = std::find_if(bytes.begin(), bytes.end(), [](char c) { return c != 0; });
    EXPECT_EQ(foreign, bytes.end()) << what << ": byte " << foreign - bytes.begin();
  }

  // Bob's product of zeros, whose lines have room for `padding` more numbers.
  void ExpectCleanProduct(std::uint64_t n, std::uint64_t padding) const {
    v1::MatmulRequest request;
    *request.mutable_header() = HeaderOf(n);
    if (padding != 0) request.mutable_header()->set_output_leading_dimension(n + padding);
    *request.add_payload() = ChunkOf(v1::A, Zeros(4 * n * n));
    *request.add_payload() = ChunkOf(v1::B, Zeros(4 * n * n));
    const v1::MatmulResponse response = Multiply("bob", request);
    ASSERT_EQ(response.payload_size(), 1);
    const std::uint64_t tight = 4 * ((n + padding) * n - padding);
    const std::string& bytes = response.payload(0).data();
    ExpectZeros(bytes, bytes.size() == tight ? tight : tight + 4 * padding,
                absl::StrCat("a product of ", n, " and ", padding));
  }

  void ExpectCleanKeptResult(std::uint64_t n) const {
    v1::MatmulRequest request;
    *request.mutable_header() = HeaderOf(n);
    request.mutable_header()->mutable_keep_result();
    *request.add_payload() = ChunkOf(v1::A, Zeros(4 * n * n));
    *request.add_payload() = ChunkOf(v1::B, Zeros(4 * n * n));
    const std::string handle = Multiply("bob", request).handle();
    grpc::ClientContext context;
    Be("bob", &context);
    v1::DownloadRequest wanted;
    wanted.set_handle(handle);
    const auto reader = v1::Operands::NewStub(channel_)->Download(&context, wanted);
    v1::DownloadResponse part;
    std::string bytes;
    while (reader->Read(&part)) bytes += part.chunk().data();
    EXPECT_TRUE(reader->Finish().ok());
    ExpectZeros(bytes, 4 * n * n, "a kept result");
    Release("bob", handle);
  }

  // Memory was made for it, and what came is not all: nothing of it may be read.
  void ExpectNothingOfAHalfUpload(std::uint64_t n) const {
    const std::string whole = Zeros(4 * n * n);
    v1::UploadResponse response;
    const grpc::Status status = Upload("bob", n, whole, whole.size() / 4, &response);
    EXPECT_FALSE(status.ok());
    EXPECT_FALSE(absl::StrContains(status.error_message() + status.error_details(), kMark));
    const std::string digest = DigestOf(n, whole);
    grpc::ClientContext context;
    Be("bob", &context);
    v1::DownloadRequest wanted;
    wanted.set_digest(digest);
    const auto reader = v1::Operands::NewStub(channel_)->Download(&context, wanted);
    v1::DownloadResponse part;
    EXPECT_FALSE(reader->Read(&part));
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
    v1::MatmulRequest request;
    *request.mutable_header() = HeaderOf(n);
    request.mutable_header()->mutable_b()->Clear();
    request.mutable_header()->mutable_b()->set_digest(digest);
    *request.add_payload() = ChunkOf(v1::A, Zeros(4 * n * n));
    grpc::ClientContext product;
    Be("bob", &product);
    v1::MatmulResponse answer;
    EXPECT_EQ(v1::Gemm::NewStub(channel_)->Matmul(&product, request, &answer).error_code(),
              grpc::StatusCode::NOT_FOUND);
  }

  // One thread, so that what one gives back the next one gets.
  const testing::ServerProcess server_{{"--cpu.threads=1", "--operands.upload-lease-ms=0"}};
  const std::shared_ptr<grpc::Channel> channel_ = server_.NewChannel();
};

TEST_F(ForeignBytesTest, AreNeverInAnAnswer) {
  // Small memory is malloc's to give again, and from a mebibyte on the device's own pool's.
  for (const std::uint64_t n : {7, 64, 300, 700}) {
    for (int round = 0; round < 3; ++round) {
      MarkProducts(n);
      v1::UploadResponse stored;
      const std::string marks = Marks(4 * n * n);
      ASSERT_TRUE(Upload("alice", n, marks, marks.size(), &stored).ok());
      Release("alice", stored.resident().handle());
      EXPECT_FALSE(Upload("alice", n, marks, marks.size() / 2, &stored).ok());
      AbandonProduct(n);
      ExpectCleanProduct(n, 0);
      MarkProducts(n);
      ExpectCleanProduct(n, 5);
      MarkProducts(n);
      ExpectCleanKeptResult(n);
      MarkProducts(n);
      ExpectNothingOfAHalfUpload(n);
    }
  }
}

}  // namespace
}  // namespace gemmd
