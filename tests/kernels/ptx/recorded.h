// Results that a GPU gave, as one hash a line of a text file: "name hash".
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <string>

namespace gemmd::testing {

// FNV-1a, 64 bits.
inline std::uint64_t HashBytes(const void* data, std::size_t bytes,
                               std::uint64_t hash = 0xcbf29ce484222325u) {
  const auto* byte = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ byte[i]) * 0x100000001b3u;
  return hash;
}

inline std::map<std::string, std::uint64_t> ReadRecorded(const std::string& path) {
  std::map<std::string, std::uint64_t> recorded;
  std::ifstream file(path);
  std::string name;
  std::uint64_t hash;
  while (file >> name >> std::hex >> hash) recorded[name] = hash;
  return recorded;
}

}  // namespace gemmd::testing
