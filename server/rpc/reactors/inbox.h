// Messages of one stream on their way to whoever handles them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gemmd {

// Many bring messages, one at a time handles them, in the order in which they came: whoever brings
// one while nobody does. Those that come meanwhile gather, and are handled together next. Not
// thread-safe.
template <typename Message>
class Inbox {
 public:
  struct Bounds {
    std::size_t messages = 16;
    std::uint64_t bytes = 256 << 10;
  };

  explicit Inbox(const Bounds& bounds) : bounds_(bounds) {}

  // Returns whether the caller is to handle what is here: to call Take() until it gives nothing.
  bool Put(Message message, std::uint64_t bytes) {
    messages_.push_back(std::move(message));
    bytes_ += bytes;
    return !std::exchange(is_handled_, true);
  }

  // All that gathered. Empty: there is nothing, and the caller handles no more.
  // REQUIRES: the caller is the one that handles.
  std::vector<Message> Take() {
    is_handled_ = !messages_.empty();
    bytes_ = 0;
    return std::exchange(messages_, {});
  }

  // Returns whether it is empty, and no caller still handles messages of it.
  bool is_idle() const { return !is_handled_; }
  // Another may be read: what is here reaches no bound, which one message may pass by its size.
  bool has_room() const { return messages_.size() < bounds_.messages && bytes_ < bounds_.bytes; }

 private:
  const Bounds bounds_;
  std::vector<Message> messages_;
  std::uint64_t bytes_ = 0;  // of messages_
  bool is_handled_ = false;
};

}  // namespace gemmd
