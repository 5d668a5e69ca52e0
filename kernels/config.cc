#include "kernels/config.h"

#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gemmd {

namespace {

auto Fields(const Config& c) {
  return std::tie(c.tile_m, c.tile_n, c.tile_k, c.stages, c.cluster_m, c.cluster_n, c.warps,
                  c.raster_group, c.raster_order, c.by_place, c.split_k, c.threads, c.algorithm,
                  c.workspace_bytes);
}

}  // namespace

bool operator==(const Config& x, const Config& y) { return Fields(x) == Fields(y); }

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
  add("raster_order", config.raster_order);
  add("by_place", config.by_place);
  add("split_k", config.split_k);
  add("threads", config.threads);
  add("algorithm", config.algorithm);
  if (config.workspace_bytes != 0) {
    words.push_back(absl::StrCat("workspace_bytes=", config.workspace_bytes));
  }
  return absl::StrJoin(words, " ");
}

}  // namespace gemmd
