// A file's mode, owner, names and extended attributes.
#pragma once

#include <sys/stat.h>

#include <string>

namespace gemmd {

// Gives the open file mode, owner and extended attributes of the file at that path, whose `stat` is
// given. Returns false where it cannot be like that one in everything, which may have other names.
bool MakeAlike(int descriptor, const std::string& path, const struct stat& like);

}  // namespace gemmd
