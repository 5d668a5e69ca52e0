#include "base/file/attributes.h"

#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <optional>

namespace gemmd {
namespace {

using Attributes = std::map<std::string, std::string>;

// Calls `read` for the size, then for the bytes. Nothing where they cannot be read, or have grown
// between.
template <typename Reader>
std::optional<std::string> ReadSized(Reader read) {
  const ssize_t size = read(nullptr, 0);
  if (size < 0) return std::nullopt;
  std::string bytes(static_cast<std::size_t>(size), '\0');
  if (size == 0) return bytes;
  const ssize_t got = read(&bytes[0], bytes.size());
  if (got < 0) return std::nullopt;
  bytes.resize(static_cast<std::size_t>(got));
  return bytes;
}

// Reads all by `list` and `get`, which are listxattr() and getxattr() of some file. Nothing where
// they cannot be read; a file system without them has none.
template <typename List, typename Get>
std::optional<Attributes> ReadAttributes(List list, Get get) {
  const std::optional<std::string> names = ReadSized(list);
  if (!names) return errno == ENOTSUP ? std::make_optional(Attributes()) : std::nullopt;
  Attributes attributes;
  for (std::size_t begin = 0; begin < names->size();) {
    const std::string name = names->c_str() + begin;
    begin += name.size() + 1;
    const std::optional<std::string> value =
        ReadSized([&](char* to, std::size_t size) { return get(name.c_str(), to, size); });
    if (!value) return std::nullopt;
    attributes[name] = *value;
  }
  return attributes;
}

// The new file has some already where its folder gives files an access list.
bool CopyAttributes(const std::string& path, int to) {
  const char* const from = path.c_str();
  const auto wanted = ReadAttributes(
      [from](char* names, std::size_t size) { return ::listxattr(from, names, size); },
      [from](const char* name, char* value, std::size_t size) {
        return ::getxattr(from, name, value, size);
      });
  const auto present =
      ReadAttributes([to](char* names, std::size_t size) { return ::flistxattr(to, names, size); },
                     [to](const char* name, char* value, std::size_t size) {
                       return ::fgetxattr(to, name, value, size);
                     });
  if (!wanted || !present) return false;
  for (const auto& [name, value] : *present) {
    if (wanted->count(name) == 0 && ::fremovexattr(to, name.c_str()) != 0) return false;
  }
  for (const auto& [name, value] : *wanted) {
    const auto found = present->find(name);
    if (found != present->end() && found->second == value) continue;
    if (::fsetxattr(to, name.c_str(), value.data(), value.size(), 0) != 0) return false;
  }
  return true;
}

}  // namespace

bool MakeAlike(int descriptor, const std::string& path, const struct stat& like) {
  if (like.st_nlink > 1) return false;  // its other names would keep the old bytes
  struct stat now;
  if (::fstat(descriptor, &now) != 0) return false;
  const bool is_others = now.st_uid != like.st_uid || now.st_gid != like.st_gid;
  if (is_others && ::fchown(descriptor, like.st_uid, like.st_gid) != 0) return false;
  // The mode comes last: a new owner and a new access list change it.
  return CopyAttributes(path, descriptor) && ::fchmod(descriptor, like.st_mode & 07777) == 0;
}

}  // namespace gemmd
