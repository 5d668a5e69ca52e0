// Devices of this machine as the server makes them, and works to give them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/device/cuda/cuda_device.h"
#include "server/scheduling/router.h"
#include "tests/testing/products/matrices.h"

namespace gemmd::testing {

// Ends the process with the message where the machine does not do what the run needs.
void Require(const absl::Status& status, const std::string& what);
template <typename T>
T Require(absl::StatusOr<T> result, const std::string& what) {
  Require(result.status(), what);
  return *std::move(result);
}

struct ServedGpu {
  std::shared_ptr<CudaBackend> backend;
  std::unique_ptr<CudaDevice> device;
  std::unique_ptr<ThreadAlarm> alarm;
  std::unique_ptr<Scheduler> scheduler;
};

// Half of the device's memory, 2 GiB of pinned memory, warmed up.
ServedGpu ServeGpu(
    int ordinal, const Clock* clock,
    std::function<void(const absl::Status&)> on_lost = [](const absl::Status&) {});
int CountGpus();

// A work on operands in the host's ordinary memory; `operands` outlives it.
DeviceWork MakeWork(ServedGpu* gpu, const Problem& problem, Operands* operands);
void CopyOut(const HostBuffer& d, PlaneBytes* plane);

// Counts down as works end, and keeps what they said.
class Ends {
 public:
  // A callback for one more work.
  Device::Callback Expect();
  // Until at most `left` are outstanding.
  void WaitFor(int left);
  // The first error; OK if none.
  absl::Status status();
  std::vector<StageSpan> last_spans();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int outstanding_ = 0;
  absl::Status status_;
  std::vector<StageSpan> last_spans_;
};

double Median(std::vector<double> values);

}  // namespace gemmd::testing
