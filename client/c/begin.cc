#include "client/c/begin.h"

#include <new>
#include <optional>
#include <utility>

#include "client/c/arguments.h"
#include "client/c/delivery.h"
#include "client/c/errors.h"

namespace gemmd::client::c {
namespace {

// Returns what `finish` makes, or an error where there is no memory for that.
Outcome OutcomeOf(const Finish& finish, absl::StatusOr<Product> product) {
  Outcome no_memory = absl::ResourceExhaustedError("this process has no memory for it");
  try {
    return finish(std::move(product));
  } catch (const std::bad_alloc&) {
    return no_memory;
  }
}

}  // namespace

absl::Status Begin(gemmd_client* client, const Make& make, Finish finish,
                   std::function<void(Outcome)> done, std::shared_ptr<Flight>* begun) {
  if (absl::Status s = CheckNotNull("client", client); !s.ok()) return s;
  const auto flight = std::make_shared<Flight>();
  if (absl::Status s = client->calls->Begin(flight); !s.ok()) return s;
  std::shared_ptr<Delivery> delivery =
      Delivery::Create([calls = client->calls, flight, finish = std::move(finish),
                        done = std::move(done)](std::optional<absl::StatusOr<Product>> product) {
        if (product.has_value()) done(OutcomeOf(finish, *std::move(product)));
        calls->End(flight);
      });
  const absl::StatusOr<Start> start = make(delivery);
  if (!start.ok()) return start.status();
  flight->Set((*start)([delivery = std::move(delivery)](absl::StatusOr<Product> product) mutable {
    Delivery::Finish(std::move(delivery), std::move(product));
  }));
  if (begun != nullptr) *begun = flight;
  return absl::OkStatus();
}

absl::Status BeginAsync(gemmd_client* client, const Make& make, Finish finish,
                        gemmd_matmul_callback callback, void* context, gemmd_call** call) {
  if (call != nullptr) *call = nullptr;
  if (absl::Status s = CheckNotNull("callback", callback); !s.ok()) return s;
  // Made before the product begins, because afterwards nothing may fail.
  auto handle = std::make_unique<gemmd_call>();
  absl::Status begun = Begin(
      client, make, std::move(finish),
      [callback, context](Outcome ended) {
        gemmd_error* error = nullptr;
        gemmd_result* result = nullptr;
        if (ended.ok()) {
          result = ended->release();
        } else {
          Report(ended.status(), &error);
        }
        const CallbackScope scope;
        callback(context, result, error);
      },
      &handle->flight);
  if (begun.ok() && call != nullptr) *call = handle.release();
  return begun;
}

}  // namespace gemmd::client::c
