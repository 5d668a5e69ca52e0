#include "client/file.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
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

TEST(FileTest, WritesThePartsOneAfterAnother) {
  testing::TemporaryDirectory directory;
  ASSERT_TRUE(WriteFile(directory.Path("x"), {"ab", "", "c"}).ok());
  EXPECT_EQ(FileBytes(directory.Path("x")), "abc");
  EXPECT_EQ(directory.Names(), "x");
}

TEST(FileTest, HasTheModeThatOpenWouldGive) {
  testing::TemporaryDirectory directory;
  const mode_t mask = ::umask(027);
  ASSERT_TRUE(WriteFile(directory.Path("x"), {"ab"}).ok());
  ::umask(mask);
  struct stat info;
  ASSERT_EQ(::stat(directory.Path("x").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640U);
}

// The limit makes write() fail halfway, as a full disk does.
TEST(FileTest, AFailedWriteLeavesTheOldFileAndNothingElse) {
  testing::TemporaryDirectory directory;
  const std::string path = directory.File("x", "old");
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const rlimit limit{1000, old_limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const absl::Status status = WriteFile(path, {std::string(5000, 'n')});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/x: write"));
  EXPECT_EQ(FileBytes(path), "old");
  EXPECT_EQ(directory.Names(), "x");
}

TEST(FileTest, ALinkIsWrittenThrough) {
  testing::TemporaryDirectory directory;
  const std::string target = directory.File("target", "old");
  ASSERT_EQ(::symlink(target.c_str(), directory.Path("link").c_str()), 0);
  ASSERT_TRUE(WriteFile(directory.Path("link"), {"new"}).ok());
  EXPECT_EQ(FileBytes(target), "new");
}

TEST(FileTest, ADeviceIsWrittenInPlace) {
  ASSERT_TRUE(CheckWritable("/dev/null").ok());
  ASSERT_TRUE(WriteFile("/dev/null", {"gone"}).ok());
  struct stat info;
  ASSERT_EQ(::stat("/dev/null", &info), 0);
  EXPECT_TRUE(S_ISCHR(info.st_mode));
}

TEST(FileTest, SaysBeforehandWhereNothingCanBeWritten) {
  testing::TemporaryDirectory directory;
  EXPECT_TRUE(CheckWritable(directory.Path("new")).ok());
  EXPECT_TRUE(CheckWritable("a-name-without-a-directory").ok());
  EXPECT_THAT(std::string(CheckWritable(directory.Path("no/such")).message()),
              HasSubstr("no/such: write: No such file or directory"));
  EXPECT_THAT(std::string(CheckWritable(directory.Path(".")).message()),
              HasSubstr("is a directory"));
}

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

}  // namespace
}  // namespace gemmd::client
