#include "server/device/chunk_limit.h"

#include "gtest/gtest.h"

namespace gemmd {
namespace {

TEST(ChunkLimit, EmptyChunksEnd) {
  ChunkLimit limit("payload");
  for (int i = 0; i < 1024; ++i) ASSERT_TRUE(limit.Add(0).ok()) << i;
  const absl::Status status = limit.Add(17);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "payload has 1025 chunks of 17 bytes together; it may have 1024 of them, and one more "
            "for each 4096 bytes");
}

TEST(ChunkLimit, ChunksThatBringTheirPartMayGoOn) {
  ChunkLimit limit("payload");
  for (int i = 0; i < 100000; ++i) ASSERT_TRUE(limit.Add(4096).ok()) << i;
  for (int i = 0; i < 1024; ++i) ASSERT_TRUE(limit.Add(1).ok()) << i;
  EXPECT_FALSE(limit.Add(1).ok());
}

TEST(ChunkLimit, WhatWasRefusedDoesNotCount) {
  ChunkLimit limit("the upload");
  for (int i = 0; i < 1024; ++i) ASSERT_TRUE(limit.Add(1).ok());
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(limit.Add(0).ok());
  EXPECT_TRUE(limit.Add(3072).ok());
}

}  // namespace
}  // namespace gemmd
