// Kernels whose configs are the tilings of one table, walked in groups of rows.
#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "kernels/hopper/common/operand_rules.h"
#include "kernels/kernel.h"

namespace gemmd::hopper {

// An entry adds the problems that it takes, the time that it expects of a tiling, and its launches.
template <class Tiling>
class TiledKernel : public Kernel {
 public:
  std::string UnavailableReason(const DeviceTraits& device) const final {
    return hopper::UnavailableReason(device);
  }

  Config Configure(const Problem& problem, const DeviceTraits& device) const final {
    const Tiling* best = &tilings_.front();
    for (const Tiling& tiling : tilings_) {
      if (PredictedTilingUs(tiling, problem, device) < PredictedTilingUs(*best, problem, device)) {
        best = &tiling;
      }
    }
    return ConfigOf(*best);
  }

  std::vector<Config> Alternatives(const Problem& problem, const DeviceTraits& device) const final {
    std::vector<Config> configs = {Configure(problem, device)};
    for (const Tiling& tiling : tilings_) {
      for (const int group : {8, 16}) {
        Config config = ConfigOf(tiling);
        config.raster_group = group;
        if (config != configs.front()) configs.push_back(config);
      }
    }
    return configs;
  }

  double PredictedUs(const Problem& problem, const Config& config,
                     const DeviceTraits& device) const final {
    const Tiling* const tiling = TilingOf(config);
    if (tiling == nullptr) return std::numeric_limits<double>::infinity();
    return PredictedTilingUs(*tiling, problem, device);
  }

  absl::Status Launch(const Problem& problem, const Config& config, const Arguments& arguments,
                      const LaunchTarget& target) const final {
    const Tiling* const tiling = TilingOf(config);
    if (tiling == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(traits().name, " has no tiling of ", ToString(config)));
    }
    const auto index = static_cast<int>(tiling - tilings_.data());
    return LaunchTiling(index, problem, config, arguments, target);
  }

 protected:
  TiledKernel(Traits traits, absl::Span<const Tiling> tilings)
      : Kernel(std::move(traits)), tilings_(tilings) {}

  // Returns the config's tiling, in whatever groups it walks the tiles; null where there is none.
  const Tiling* TilingOf(Config config) const {
    const auto found = std::find_if(tilings_.begin(), tilings_.end(), [&](const Tiling& tiling) {
      config.raster_group = ConfigOf(tiling).raster_group;
      return ConfigOf(tiling) == config;
    });
    return found == tilings_.end() ? nullptr : &*found;
  }

 private:
  virtual Config ConfigOf(const Tiling& tiling) const = 0;
  virtual double PredictedTilingUs(const Tiling& tiling, const Problem& problem,
                                   const DeviceTraits& device) const = 0;
  // `tiling` is the tiling's place in the table.
  virtual absl::Status LaunchTiling(int tiling, const Problem& problem, const Config& config,
                                    const Arguments& arguments,
                                    const LaunchTarget& target) const = 0;

  const absl::Span<const Tiling> tilings_;
};

}  // namespace gemmd::hopper
