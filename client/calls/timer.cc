#include "client/calls/timer.h"

#include <utility>

#include "absl/time/clock.h"
#include "grpcpp/alarm.h"

namespace gemmd::client {
namespace {

class AlarmTimer : public Timer {
 public:
  void After(absl::Duration delay, std::function<void()> work) override {
    // The alarm lives until it has rung; deleting one from its own callback is allowed.
    auto* alarm = new grpc::Alarm;
    alarm->Set(absl::ToChronoTime(absl::Now() + delay), [alarm, work = std::move(work)](bool) {
      work();
      delete alarm;
    });
  }
};

}  // namespace

std::shared_ptr<Timer> MakeAlarmTimer() { return std::make_shared<AlarmTimer>(); }

}  // namespace gemmd::client
