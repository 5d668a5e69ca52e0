// Hands a product over once the memory of its operands is no longer read.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "client/matmul.h"

namespace gemmd::client::c {

// The operands' bytes keep it, and so does the call: gRPC may still read them when a call has ended
// by a deadline or a cancellation. `done` gets the outcome when the last one lets go, on the thread
// that calls Finish() or on one of its own; and nothing where there is no outcome.
class Delivery {
 public:
  using Done = std::function<void(std::optional<absl::StatusOr<Product>>)>;

  static std::shared_ptr<Delivery> Create(Done done);
  // Sets the outcome and drops the reference.
  static void Finish(std::shared_ptr<Delivery> delivery, absl::StatusOr<Product> outcome);

 private:
  explicit Delivery(Done done) : done_(std::move(done)) {}
  static void Release(Delivery* delivery);

  const Done done_;
  std::optional<absl::StatusOr<Product>> outcome_;
};

}  // namespace gemmd::client::c
