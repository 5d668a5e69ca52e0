// The devices that the options ask for, each with its queue.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/device/device.h"
#include "server/device/keyed_pool.h"
#include "server/observe/energy_meter.h"
#include "server/observe/gpu_sensors.h"
#include "server/options/config.pb.h"
#include "server/scheduling/alarm.h"
#include "server/scheduling/router.h"
#include "server/scheduling/rows_planner.h"

namespace gemmd {

class Devices {
 public:
  // Warmed up. `on_lost` is called on any thread, at most once a device, when a device is
  // lost; it and the clock outlive the result.
  // FAILED_PRECONDITION: the device asked for is not here. RESOURCE_EXHAUSTED: it has not
  // the memory asked for.
  // `plans`: as Admission's; it outlives the result.
  static absl::StatusOr<std::unique_ptr<Devices>> Make(
      const config::ServerConfig& config, const Clock* clock, const PlanCache* plans,
      const std::function<void(const absl::Status&)>& on_lost);

  Router& router() const { return *router_; }
  // The memory of the device that has the most.
  std::uint64_t memory_bytes() const;
  // The most that all planes of one product may take: what is larger than a device with memory of
  // its own goes through it in parts, from the host's.
  std::uint64_t request_bytes() const;
  // The sensors of the GPUs among the devices. Null: there is none, or no NVML.
  const GpuSensors* sensors() const { return sensors_.get(); }

 private:
  Devices() = default;

  // A device with what its queue needs.
  struct Unit {
    std::unique_ptr<Device> device;
    std::unique_ptr<EnergyMeter> energy;
    std::unique_ptr<ThreadAlarm> alarm;
    std::unique_ptr<RowsPlanner> planner;
    std::unique_ptr<Scheduler> scheduler;
  };

  std::unique_ptr<KeyedPool> workers_;
  std::vector<Unit> units_;
  std::unique_ptr<Router> router_;
  std::unique_ptr<GpuSensors> sensors_;  // last: it tells the meters
};

}  // namespace gemmd
