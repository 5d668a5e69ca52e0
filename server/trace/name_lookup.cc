#include "server/trace/name_lookup.h"

#include <thread>
#include <utility>

#include "base/sync/mutex.h"
#include "boost/asio/post.hpp"

namespace gemmd {

// Shared with the thread that looks the name up.
struct NameLookup::State {
  Mutex mutex;
  bool is_busy ABSL_GUARDED_BY(mutex) = false;
  // The context and the callback of the question that waits; null: none does.
  boost::asio::io_context* io ABSL_GUARDED_BY(mutex) = nullptr;
  std::function<void(const Addresses&)> done ABSL_GUARDED_BY(mutex);
};

NameLookup::NameLookup(Lookup lookup)
    : lookup_(std::move(lookup)), state_(std::make_shared<State>()) {}

NameLookup NameLookup::System(const std::string& host, const std::string& port) {
  return NameLookup([host, port] {
    boost::asio::io_context io;
    boost::asio::ip::tcp::resolver resolver(io);
    boost::system::error_code error;
    Addresses addresses;
    for (const auto& entry : resolver.resolve(host, port, error)) {
      addresses.push_back(entry.endpoint());
    }
    return addresses;
  });
}

void NameLookup::Find(boost::asio::io_context* io, std::function<void(const Addresses&)> done) {
  {
    const MutexLock lock(state_->mutex);
    state_->io = io;
    state_->done = std::move(done);
    if (std::exchange(state_->is_busy, true)) return;
  }
  std::thread([lookup = lookup_, state = state_] {
    Addresses addresses = lookup();
    const MutexLock lock(state->mutex);
    state->is_busy = false;
    if (state->io == nullptr) return;
    // Under the lock, because the context may be gone right after Forget().
    boost::asio::post(*std::exchange(state->io, nullptr),
                      [state, addresses = std::move(addresses)] {
                        std::function<void(const Addresses&)> done;
                        {
                          const MutexLock told(state->mutex);
                          state->io = nullptr;
                          done = std::exchange(state->done, nullptr);
                        }
                        if (done) done(addresses);
                      });
  }).detach();
}

bool NameLookup::Forget() {
  const MutexLock lock(state_->mutex);
  state_->io = nullptr;
  return std::exchange(state_->done, nullptr) != nullptr;
}

}  // namespace gemmd
