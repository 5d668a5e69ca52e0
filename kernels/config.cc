#include "kernels/config.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gemmd {

std::string ToString(const Config& config) {
  std::vector<std::string> words;
  if (config.tile_m != 0) {
    words.push_back(absl::StrCat("tile=", config.tile_m, "x", config.tile_n));
    if (config.tile_k != 0) absl::StrAppend(&words.back(), "x", config.tile_k);
  }
  if (config.cluster_m != 0) {
    words.push_back(absl::StrCat("cluster=", config.cluster_m, "x", config.cluster_n));
  }
  const auto add = [&words](const char* name, int value) {
    if (value != 0) words.push_back(absl::StrCat(name, "=", value));
  };
  add("stages", config.stages);
  add("warps", config.warps);
  add("raster_group", config.raster_group);
  add("split_k", config.split_k);
  add("threads", config.threads);
  add("algorithm", config.algorithm);
  return absl::StrJoin(words, " ");
}

}  // namespace gemmd
