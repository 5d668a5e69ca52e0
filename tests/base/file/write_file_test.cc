#include "base/file/write_file.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/testing/temporary_directory.h"

namespace gemmd {
namespace {

using ::gemmd::testing::FileBytes;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct stat StatOf(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info;
}

constexpr uid_t kNobody = 65534;

// Runs it in a process without the rights that root has over files of any mode and owner. Returns
// whether it succeeded.
bool WithoutPrivileges(const std::function<bool()>& succeeds) {
  const pid_t child = ::fork();
  if (child == 0) {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {};
    const bool is_ready = ::syscall(SYS_capset, &header, none) == 0;
    ::_exit(is_ready && succeeds() ? 0 : 1);
  }
  int status = 1;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

TEST(WriteFileTest, WritesThePartsOneAfterAnother) {
  testing::TemporaryDirectory directory;
  ASSERT_TRUE(WriteFile(directory.Path("x"), {"ab", "", "c"}).ok());
  EXPECT_EQ(FileBytes(directory.Path("x")), "abc");
  EXPECT_EQ(directory.Names(), "x");
}

TEST(WriteFileTest, HasTheModeThatOpenWouldGive) {
  testing::TemporaryDirectory directory;
  const mode_t mask = ::umask(027);
  ASSERT_TRUE(WriteFile(directory.Path("x"), {"ab"}).ok());
  ::umask(mask);
  EXPECT_EQ(StatOf(directory.Path("x")).st_mode & 0777, 0640U);
}

// The limit makes write() fail halfway, as a full disk does.
absl::Status WriteWithLittleRoom(const std::string& path) {
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit;
  EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const rlimit limit{1000, old_limit.rlim_max};
  EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  absl::Status status = WriteFile(path, {std::string(5000, 'n')});
  EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  return status;
}

TEST(WriteFileTest, AFailedWriteLeavesTheOldFileAndNothingElse) {
  testing::TemporaryDirectory directory;
  const std::string path = directory.File("x", "old");
  const absl::Status status = WriteWithLittleRoom(path);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/x: write"));
  EXPECT_EQ(FileBytes(path), "old");
  EXPECT_EQ(directory.Names(), "x");
}

TEST(WriteFileTest, ALinkIsWrittenThrough) {
  testing::TemporaryDirectory directory;
  const std::string target = directory.File("target", "old");
  ASSERT_EQ(::symlink(target.c_str(), directory.Path("link").c_str()), 0);
  ASSERT_TRUE(WriteFile(directory.Path("link"), {"new"}).ok());
  EXPECT_EQ(FileBytes(target), "new");
}

TEST(WriteFileTest, ADeviceIsWrittenInPlace) {
  ASSERT_TRUE(CheckWritable("/dev/null").ok());
  ASSERT_TRUE(WriteFile("/dev/null", {"gone"}).ok());
  EXPECT_TRUE(S_ISCHR(StatOf("/dev/null").st_mode));
}

TEST(WriteFileTest, SaysBeforehandWhereNothingCanBeWritten) {
  testing::TemporaryDirectory directory;
  EXPECT_TRUE(CheckWritable(directory.Path("new")).ok());
  EXPECT_TRUE(CheckWritable("a-name-without-a-directory").ok());
  EXPECT_THAT(std::string(CheckWritable(directory.Path("no/such")).message()),
              HasSubstr("no/such: write: No such file or directory"));
  EXPECT_THAT(std::string(CheckWritable(directory.Path(".")).message()),
              HasSubstr("is a directory"));
}

TEST(WriteFileTest, AFileKeepsItsMode) {
  testing::TemporaryDirectory directory;
  const std::string path = directory.File("x", "old");
  for (const mode_t mode : {0600U, 0640U, 0666U, 0755U, 02664U}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    ASSERT_TRUE(WriteFile(path, {"new"}).ok());
    EXPECT_EQ(StatOf(path).st_mode & 07777, mode);
  }
  EXPECT_EQ(FileBytes(path), "new");
  EXPECT_EQ(directory.Names(), "x");
}

TEST(WriteFileTest, AFileKeepsItsOwnerWhereWeMayGiveIt) {
  testing::TemporaryDirectory directory;
  const std::string path = directory.File("x", "old");
  const bool may_give = ::chown(path.c_str(), kNobody, kNobody) == 0;
  ASSERT_EQ(::chmod(path.c_str(), 04750), 0);
  const struct stat before = StatOf(path);
  ASSERT_TRUE(WriteFile(path, {"new"}).ok());
  const struct stat after = StatOf(path);
  EXPECT_EQ(after.st_uid, before.st_uid);
  EXPECT_EQ(after.st_gid, before.st_gid);
  EXPECT_EQ(after.st_mode, before.st_mode);
  EXPECT_TRUE(!may_give || after.st_uid == kNobody);
}

TEST(WriteFileTest, AFileOfAnotherOwnerIsWrittenInPlace) {
  testing::TemporaryDirectory directory;
  const std::string path = directory.File("x", "old and long");
  ASSERT_EQ(::chmod(path.c_str(), 0666), 0);
  if (::chown(path.c_str(), kNobody, kNobody) != 0) GTEST_SKIP() << "there is no other owner";
  EXPECT_TRUE(WithoutPrivileges([&] { return WriteFile(path, {"new"}).ok(); }));
  EXPECT_EQ(FileBytes(path), "new");
  EXPECT_EQ(StatOf(path).st_uid, kNobody);
  EXPECT_EQ(directory.Names(), "x");
}

TEST(WriteFileTest, AFileInAFolderThatMayNotBeWrittenIsWrittenInPlace) {
  testing::TemporaryDirectory directory;
  const std::string path = directory.File("x", "old and long");
  ASSERT_EQ(::chmod(directory.Path(".").c_str(), 0555), 0);
  EXPECT_TRUE(
      WithoutPrivileges([&] { return CheckWritable(path).ok() && WriteFile(path, {"new"}).ok(); }));
  EXPECT_TRUE(WithoutPrivileges([&] { return !CheckWritable(directory.Path("y")).ok(); }));
  ASSERT_EQ(::chmod(directory.Path(".").c_str(), 0755), 0);
  EXPECT_EQ(FileBytes(path), "new");
}

TEST(WriteFileTest, AFileThatMayNotBeWrittenIsNotReplacedEither) {
  testing::TemporaryDirectory directory;
  const std::string path = directory.File("x", "old");
  ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
  EXPECT_TRUE(WithoutPrivileges(
      [&] { return !CheckWritable(path).ok() && !WriteFile(path, {"new"}).ok(); }));
  EXPECT_EQ(FileBytes(path), "old");
}

TEST(WriteFileTest, EveryNameOfAFileHasTheNewBytes) {
  testing::TemporaryDirectory directory;
  const std::string path = directory.File("x", "old and long");
  ASSERT_EQ(::link(path.c_str(), directory.Path("y").c_str()), 0);
  ASSERT_TRUE(WriteFile(path, {"new"}).ok());
  EXPECT_EQ(FileBytes(directory.Path("y")), "new");
  EXPECT_EQ(StatOf(path).st_nlink, 2U);
  EXPECT_EQ(directory.Names(), "x y");
}

// The bytes that found no room beside it go into its place no more than half.
TEST(WriteFileTest, AFullDiskLeavesAFileThatIsWrittenInPlace) {
  testing::TemporaryDirectory directory;
  const std::string path = directory.File("x", "old");
  ASSERT_EQ(::chmod(directory.Path(".").c_str(), 0555), 0);
  EXPECT_TRUE(WithoutPrivileges([&] { return !WriteWithLittleRoom(path).ok(); }));
  ASSERT_EQ(::chmod(directory.Path(".").c_str(), 0755), 0);
  EXPECT_EQ(FileBytes(path), "old");
}

TEST(WriteFileTest, AFileKeepsItsExtendedAttributes) {
  testing::TemporaryDirectory directory;
  const std::string path = directory.File("x", "old");
  if (::setxattr(path.c_str(), "user.origin", "lab", 3, 0) != 0) {
    GTEST_SKIP() << "the file system has no attributes of users";
  }
  ASSERT_TRUE(WriteFile(path, {"new"}).ok());
  char value[8];
  EXPECT_EQ(::getxattr(path.c_str(), "user.origin", value, sizeof value), 3);
  EXPECT_EQ(FileBytes(path), "new");
}

TEST(WriteFileTest, ALinkToAMissingFileMakesIt) {
  testing::TemporaryDirectory directory;
  ASSERT_EQ(::symlink("target", directory.Path("link").c_str()), 0);
  ASSERT_TRUE(CheckWritable(directory.Path("link")).ok());
  ASSERT_TRUE(WriteFile(directory.Path("link"), {"new"}).ok());
  EXPECT_EQ(FileBytes(directory.Path("target")), "new");
  EXPECT_EQ(directory.Names(), "link target");
  ASSERT_EQ(::symlink("no/such", directory.Path("far").c_str()), 0);
  EXPECT_FALSE(CheckWritable(directory.Path("far")).ok());
  ASSERT_EQ(::symlink("ring", directory.Path("ring").c_str()), 0);
  EXPECT_THAT(std::string(CheckWritable(directory.Path("ring")).message()),
              HasSubstr("Too many levels of symbolic links"));
}

TEST(WriteFileTest, ANameAsLongAsAnyIsWritten) {
  testing::TemporaryDirectory directory;
  const std::string path = directory.Path(std::string(255, 'n'));
  ASSERT_TRUE(WriteFile(path, {"new"}).ok());
  EXPECT_EQ(FileBytes(path), "new");
  EXPECT_FALSE(CheckWritable(path + "n").ok());
}

TEST(WriteFileTest, ADescriptorIsWrittenWhereItIs) {
  testing::TemporaryDirectory directory;
  const std::string path = directory.File("x", "head ");
  const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  ASSERT_GE(file, 0);
  const std::string name = absl::StrCat("/dev/fd/", file);
  ASSERT_EQ(::symlink(name.c_str(), directory.Path("link").c_str()), 0);
  ASSERT_TRUE(CheckWritable(name).ok());
  ASSERT_TRUE(WriteFile(name, {"a"}).ok());
  ASSERT_TRUE(WriteFile(directory.Path("link"), {"b"}).ok());
  EXPECT_EQ(FileBytes(path), "head ab");
  ASSERT_EQ(::close(file), 0);
  EXPECT_THAT(std::string(CheckWritable(name).message()), StartsWith(name + ": write"));
  const int reading = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(reading, file);
  EXPECT_THAT(std::string(CheckWritable(name).message()), HasSubstr("reading alone"));
  ASSERT_EQ(::close(reading), 0);
}

}  // namespace
}  // namespace gemmd
