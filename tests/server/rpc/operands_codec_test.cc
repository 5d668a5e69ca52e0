#include "server/rpc/codec/operands_codec.h"

#include <cstring>
#include <string>

#include "gtest/gtest.h"
#include "server/rpc/codec/decode.h"

namespace gemmd {
namespace {

TEST(OperandsCodec, AnUploadsChunkNamesAPlaneAndNothingElse) {
  const auto message = [](auto spoil) {
    v1::Chunk chunk;
    chunk.set_plane(v1::SCALES);
    chunk.set_offset_bytes(7);
    spoil(&chunk);
    return std::string(DecodeUploadChunk(chunk, PayloadViews()).status().message());
  };
  EXPECT_EQ(message([](v1::Chunk*) {}), "");
  EXPECT_EQ(message([](v1::Chunk* chunk) { chunk->set_request_id(1); }),
            "chunk.request_id is 1; in an upload it must be 0");
  EXPECT_EQ(message([](v1::Chunk* chunk) { chunk->set_operand(v1::B); }),
            "chunk.operand is 2; in an upload it must be unspecified");
  EXPECT_EQ(message([](v1::Chunk* chunk) { chunk->set_plane(static_cast<v1::PlaneName>(5)); }),
            "chunk.plane is 5; it must be a value of the enum in gemmd.v1");
  v1::Chunk chunk;
  chunk.set_plane(v1::SCALES);
  chunk.set_offset_bytes(7);
  EXPECT_EQ(DecodeUploadChunk(chunk, PayloadViews())->plane, PlaneName::kScales);
  EXPECT_EQ(DecodeUploadChunk(chunk, PayloadViews())->offset, 7u);
  chunk.set_plane(v1::TENSOR_SCALE);
  EXPECT_EQ(DecodeUploadChunk(chunk, PayloadViews())->plane, PlaneName::kTensorScale);
  chunk.set_plane(v1::DATA);
  EXPECT_EQ(DecodeUploadChunk(chunk, PayloadViews())->plane, PlaneName::kData);
}

TEST(OperandsCodec, PageTokensAreThoseThatWereGiven) {
  EXPECT_EQ(*DecodePageToken(""), 0u);
  EXPECT_EQ(EncodePageToken(0), "");
  for (const std::uint64_t last : {std::uint64_t{1}, std::uint64_t{255}, ~std::uint64_t{0}}) {
    EXPECT_EQ(*DecodePageToken(EncodePageToken(last)), last);
  }
  for (const char* token : {"0", "0x1", "01", "FF", " 1", "g", "11112222333344445"}) {
    EXPECT_FALSE(DecodePageToken(token).ok()) << token;
  }
}

TEST(OperandsCodec, AKeyIsAHandleADigestOrAName) {
  const std::string digest(32, 'd');
  EXPECT_EQ(MakeKey("a.", "h", "", "")->handle, "h");
  EXPECT_EQ(MakeKey("a.", "", digest, "")->digest, digest);
  EXPECT_EQ(MakeKey("a.", "", "", "encoder.w")->name, "encoder.w");
  EXPECT_EQ(MakeKey("a.", "", "", "").status().message(),
            "a.handle, digest and name are missing; one of them says which operand");
  EXPECT_EQ(MakeKey("a.", std::string(65, 'h'), "", "").status().message(),
            "a.handle has 65 bytes; a handle has at most 64");
  EXPECT_EQ(MakeKey("a.", "", "short", "").status().message(),
            "a.digest has 5 bytes; a digest has 32");
  EXPECT_EQ(MakeKey("", "", "", "a\nb").status().message(),
            "name is \"a\\nb\"; a name is UTF-8 without control characters");
}

// Whatever the pieces of its memory, a chunk has the plane's own bytes.
TEST(OperandsCodec, ADownloadsChunkIsAPartOfThePlane) {
  HostBuffer memory;
  std::string plane;
  for (const std::uint64_t bytes : {3, 1, 6}) {
    memory.push_back(AllocateHostBuffer(bytes).front());
    for (std::uint64_t i = 0; i < bytes; ++i) {
      memory.back().data[i] = static_cast<char>('a' + plane.size());
      plane += memory.back().data[i];
    }
  }
  for (std::uint64_t offset = 0; offset < plane.size(); ++offset) {
    for (std::uint64_t bytes = 1; bytes <= plane.size() - offset; ++bytes) {
      v1::DownloadResponse response;
      ASSERT_TRUE(
          ParseMessage(EncodeDownloadChunk(PlaneName::kScales, memory, offset, bytes), &response)
              .ok());
      EXPECT_EQ(response.chunk().plane(), v1::SCALES);
      EXPECT_EQ(response.chunk().offset_bytes(), offset);
      EXPECT_EQ(response.chunk().data(), plane.substr(offset, bytes));
    }
  }
}

TEST(OperandsCodec, ARangeAndALeaseComeAsTheyAre) {
  const v1::ByteRange range = EncodeRange({PlaneName::kScales, {3, 9}});
  EXPECT_EQ(range.plane(), v1::SCALES);
  EXPECT_EQ(range.begin_bytes(), 3u);
  EXPECT_EQ(range.end_bytes(), 9u);
  google::protobuf::Duration lease;
  EncodeDuration(61000000005, &lease);
  EXPECT_EQ(lease.seconds(), 61);
  EXPECT_EQ(lease.nanos(), 5);
}

}  // namespace
}  // namespace gemmd
