#include "base/process/read_file.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace gemmd {
namespace {

std::string PathOf(const std::string& name) {
  std::string path = ::testing::TempDir() + "/" + name;
  unlink(path.c_str());
  return path;
}

std::string FileOf(const std::string& name, const std::string& text) {
  std::string path = PathOf(name);
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::string Wrong(const std::string& path, std::size_t most_bytes = 100) {
  const absl::StatusOr<std::string> text = ReadRegularFile(path, most_bytes);
  EXPECT_FALSE(text.ok()) << path;
  return std::string(text.status().message());
}

TEST(ReadRegularFile, GivesAllOfIt) {
  EXPECT_EQ(*ReadRegularFile(FileOf("empty", ""), 0), "");
  const std::string text(300000, 'x');
  EXPECT_EQ(*ReadRegularFile(FileOf("long", text), text.size()), text);
  const std::string link = PathOf("link");
  ASSERT_EQ(symlink(FileOf("linked", std::string("a\0b", 3)).c_str(), link.c_str()), 0);
  EXPECT_EQ(*ReadRegularFile(link, 3), std::string("a\0b", 3));
}

TEST(ReadRegularFile, RefusesWhatIsLonger) {
  const std::string text(70000, 'x');
  EXPECT_EQ(Wrong(FileOf("longer", text), text.size() - 1),
            "has more than 69999 bytes, which is the limit");
}

TEST(ReadRegularFile, WaitsForNobody) {
  const std::string pipe = PathOf("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(Wrong(pipe), "cannot be read: it is no regular file");
  EXPECT_EQ(Wrong("/dev/zero"), "cannot be read: it is no regular file");
  EXPECT_EQ(Wrong(::testing::TempDir()), "cannot be read: it is no regular file");
}

TEST(ReadRegularFile, SaysWhyNot) {
  const absl::StatusOr<std::string> none = ReadRegularFile("/no/such/file", 1);
  EXPECT_TRUE(absl::IsNotFound(none.status()));
  EXPECT_EQ(none.status().message(), "cannot be read: No such file or directory");
  EXPECT_EQ(Wrong("/proc/self/mem"), "cannot be read: Input/output error");
}

}  // namespace
}  // namespace gemmd
