#include "server/regions/abandoned_objects.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"

namespace gemmd {
namespace {

// Where shm_open() has its objects.
constexpr char kFolder[] = "/dev/shm";

bool PromisesALock(absl::string_view name, const std::string& prefix) {
  return absl::StartsWith(name, prefix) && absl::EndsWith(name, kLockedSuffix);
}

std::vector<std::string> LockedNames(DIR* folder, const std::string& prefix) {
  std::vector<std::string> names;
  while (const dirent* const entry = readdir(folder)) {
    if (PromisesALock(entry->d_name, prefix)) names.emplace_back(entry->d_name);
  }
  return names;
}

// An object is locked before it gets its name: one without a lock has been abandoned.
bool IsAbandoned(int folder, const std::string& name) {
  // Whatever lies there must not make this wait.
  const int file = openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return false;
  const bool is_free = flock(file, LOCK_EX | LOCK_NB) == 0;
  close(file);
  return is_free;
}

}  // namespace

void RemoveAbandonedObjects(const std::string& prefix) {
  DIR* const folder = opendir(kFolder);
  if (folder == nullptr) return;
  const std::vector<std::string> names = LockedNames(folder, prefix);
  if (const int descriptor = dirfd(folder); descriptor >= 0) {
    for (const std::string& name : names) {
      if (IsAbandoned(descriptor, name)) unlinkat(descriptor, name.c_str(), 0);
    }
  }
  closedir(folder);
}

}  // namespace gemmd
