// Products under way, however their requests are made.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/c/calls_under_way.h"
#include "client/c/handles.h"
#include "client/client.h"

namespace gemmd::client::c {

// Starts a request that has been made.
using Start = std::function<std::shared_ptr<PendingMatmul>(Client::MatmulDone)>;
// Makes a request, whose bytes keep the owner.
using Make = std::function<absl::StatusOr<Start>(const std::shared_ptr<const void>& owner)>;

using Outcome = absl::StatusOr<std::unique_ptr<gemmd_result>>;
// Makes a result of a product; may throw std::bad_alloc.
using Finish = std::function<Outcome(absl::StatusOr<Product>)>;

// Begins a product. Where it returns OK, `done` runs once, when no memory of the caller's is used
// any more.
absl::Status Begin(gemmd_client* client, const Make& make, Finish finish,
                   std::function<void(Outcome)> done, std::shared_ptr<Flight>* begun);

// Begins a product whose outcome goes to the callback.
absl::Status BeginAsync(gemmd_client* client, const Make& make, Finish finish,
                        gemmd_matmul_callback callback, void* context, gemmd_call** call);

}  // namespace gemmd::client::c
