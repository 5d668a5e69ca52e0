#include "base/file/file_target.h"

#include <unistd.h>

#include <climits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace gemmd {
namespace {

std::optional<int> OwnDescriptor(absl::string_view path) {
  int number = 0;
  const bool is_own =
      absl::ConsumePrefix(&path, "/proc/self/fd/") || absl::ConsumePrefix(&path, "/dev/fd/");
  if (!is_own || !absl::SimpleAtoi(path, &number)) return std::nullopt;
  return number;
}

}  // namespace

FileTarget FollowLinks(const std::string& path) {
  constexpr int kMostLinks = 40;  // Linux follows no more
  std::string at = path;
  for (int links = 0; links < kMostLinks; ++links) {
    if (const auto descriptor = OwnDescriptor(at)) return {at, descriptor};
    char to[PATH_MAX];
    const ssize_t size = ::readlink(at.c_str(), to, sizeof to);
    if (size < 0) break;
    const absl::string_view link(to, static_cast<std::size_t>(size));
    at = absl::StartsWith(link, "/") ? std::string(link) : absl::StrCat(FolderOf(at), "/", link);
  }
  return {at, std::nullopt};
}

std::string FolderOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace gemmd
