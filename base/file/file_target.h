// The file that a path leads to.
#pragma once

#include <optional>
#include <string>

namespace gemmd {

struct FileTarget {
  std::string path;               // no symbolic link; there may be no such file yet
  std::optional<int> descriptor;  // the path names this one of the process
};

// Follows symbolic links as the system does, up to one whose target is missing. /dev/stdout,
// /dev/fd/3 and links to them are descriptors, because a file opened anew is at its begin.
FileTarget FollowLinks(const std::string& path);

// "." or "/" where the path has no other folder.
std::string FolderOf(const std::string& path);

}  // namespace gemmd
