// The devices that the options ask for, each with its queue.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/cost/cost_model.h"
#include "server/device/device.h"
#include "server/options/config.pb.h"
#include "server/scheduling/router.h"

namespace gemmd {

class Devices {
 public:
  // Warmed up. `on_lost` is called on any thread, at most once a device, when a device is
  // lost; it and the clock outlive the result.
  // FAILED_PRECONDITION: the device asked for is not here. RESOURCE_EXHAUSTED: it has not
  // the memory asked for.
  static absl::StatusOr<std::unique_ptr<Devices>> Make(
      const config::ServerConfig& config, const Clock* clock,
      const std::function<void(const absl::Status&)>& on_lost);

  const Router& router() const { return *router_; }
  // Of the device that has the most.
  std::uint64_t memory_bytes() const;

 private:
  Devices() = default;

  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<CostModel>> costs_;
  std::vector<std::unique_ptr<Scheduler>> schedulers_;
  std::unique_ptr<Router> router_;
};

}  // namespace gemmd
