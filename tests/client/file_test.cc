#include "client/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/temporary_directory.h"

namespace gemmd::client {
namespace {

using ::gemmd::testing::FileBytes;
using ::testing::HasSubstr;

// By several threads, a part each.
TEST(FileTest, ALargePartIsReadWhole) {
  std::string content((40 << 20) + 123, '\0');
  std::mt19937_64 random(1);
  for (std::size_t i = 0; i + 8 <= content.size(); i += 8) {
    const std::uint64_t value = random();
    std::memcpy(&content[i], &value, sizeof value);
  }
  testing::TemporaryDirectory directory;
  const auto file = InputFile::Open(directory.File("x", content));
  ASSERT_TRUE(file.ok());
  const absl::StatusOr<Bytes> read = file->ReadLarge(5, content.size() - 7);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->view() == absl::string_view(content).substr(5, content.size() - 7));
}

TEST(FileTest, PagesOfAMappedFileAloneAreGivenBack) {
  const testing::TemporaryDirectory directory;
  const std::string text(1 << 16, 'x');
  const auto file = InputFile::Open(directory.File("x", text));
  ASSERT_TRUE(file.ok());
  const Bytes mapped = *file->Map();
  EXPECT_TRUE(mapped.is_mapped_file());
  const Bytes part = mapped.Part(mapped.view().substr(5000, 20000));
  EXPECT_TRUE(part.is_mapped_file());
  EXPECT_EQ(part.owner(), mapped.owner());
  ReleasePages(part);
  EXPECT_EQ(mapped.view(), text);
  const Bytes own(text);
  EXPECT_FALSE(own.is_mapped_file());
  ReleasePages(own);
  EXPECT_EQ(own.view(), text);
}

TEST(FileTest, AFileThatShrankIsDataLoss) {
  testing::TemporaryDirectory directory;
  const std::string path = directory.File("x", "abcdef");
  const auto file = InputFile::Open(path);
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(::truncate(path.c_str(), 3), 0);
  EXPECT_EQ(file->Read(0, file->size_bytes()).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(file->ReadLarge(0, file->size_bytes()).status().code(), absl::StatusCode::kDataLoss);
}

TEST(FileTest, APipeIsRefusedAndNotWaitedFor) {
  testing::TemporaryDirectory directory;
  ASSERT_EQ(::mkfifo(directory.Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(std::string(InputFile::Open(directory.Path("pipe")).status().message()),
              HasSubstr("not a regular file"));
}

// Its rest, and the same again whenever it is opened.
TEST(FileTest, ADescriptorIsReadToItsEndOnce) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "abcdef", 6), 6);
  ASSERT_EQ(::close(ends[1]), 0);
  char first = 0;
  ASSERT_EQ(::read(ends[0], &first, 1), 1);
  for (int time = 0; time < 2; ++time) {
    const auto file = InputFile::Open("/dev/fd/" + std::to_string(ends[0]));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(*file->Read(0, file->size_bytes()), "bcdef");
  }
  ::close(ends[0]);
}

}  // namespace
}  // namespace gemmd::client
