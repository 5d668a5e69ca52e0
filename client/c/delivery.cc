#include "client/c/delivery.h"

#include <system_error>
#include <thread>

namespace gemmd::client::c {
namespace {

// True on a thread that is in Finish(), which holds no lock of gRPC's.
thread_local bool may_run_here = false;

}  // namespace

std::shared_ptr<Delivery> Delivery::Create(Done done) {
  return {new Delivery(std::move(done)), &Delivery::Release};
}

void Delivery::Finish(std::shared_ptr<Delivery> delivery, absl::StatusOr<Product> outcome) {
  delivery->outcome_ = std::move(outcome);
  const bool before = std::exchange(may_run_here, true);
  delivery.reset();
  may_run_here = before;
}

void Delivery::Release(Delivery* delivery) {
  const std::shared_ptr<Delivery> last(delivery);
  const auto run = [last] { last->done_(std::move(last->outcome_)); };
  if (may_run_here || !last->outcome_.has_value()) return run();
  // Within gRPC, which lets go of a message: a callback that begins a call could wait for this
  // thread.
  try {
    std::thread(run).detach();
  } catch (const std::system_error&) {
    run();
  }
}

}  // namespace gemmd::client::c
