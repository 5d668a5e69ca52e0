#include "server/admission/completion.h"

#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace gemmd {
namespace {

// The memory that a sampled product keeps while it waits.
struct Held {
  MemoryShares::Charge charge;
  std::unique_ptr<InlinePayload> payload;
  std::vector<HostPiece> memory;
  SharedOperands::Placed placed;
};

FinishedProduct ProductOf(const Completion& completion, std::uint64_t request_id) {
  FinishedProduct product;
  product.request_id = request_id;
  product.tenant = completion.tenant;
  product.problem = completion.problem;
  product.buffers = completion.buffers;
  product.buffers.d = completion.d;
  product.device = completion.device;
  product.resident = completion.resident;
  product.kernel = completion.kernel;
  return product;
}

// Returns the device time of the request. Launches that several share are divided by their FLOPs.
double DeviceUs(const Receipt& receipt) {
  TimeNs busy = 0;
  for (const StageSpan& span : receipt.spans) {
    const bool is_device = span.stage == Stage::kCopyIn || span.stage == Stage::kCompute ||
                           span.stage == Stage::kCopyOut;
    if (is_device) busy += span.end - span.start;
  }
  const double share =
      receipt.batch_flops > receipt.flops ? receipt.flops / receipt.batch_flops : 1;
  return static_cast<double>(busy) / 1e3 * share;
}

// Gives the memory back and tells the caller.
void Conclude(std::unique_ptr<Completion> completion, absl::Status status, Receipt receipt) {
  Completion& c = *completion;
  std::optional<FinishedProduct> sample;
  if (status.ok() && c.verifier != nullptr && c.verification_vectors == 0 &&
      c.verifier->Samples(receipt.request_id, c.problem, c.buffers)) {
    sample = ProductOf(c, receipt.request_id);
  }
  if (status.ok() && !c.shared.empty()) status = c.shared.Finish(c.placed, c.problem.d, c.d);
  if (!status.ok() || c.shared.has_output()) c.d.clear();
  if (sample.has_value()) {
    sample->memory = std::make_shared<Held>(
        Held{std::move(c.charge), std::move(c.payload), std::move(c.memory), std::move(c.placed)});
  }
  // The memory is given back before anybody is told.
  c.payload.reset();
  c.memory.clear();
  c.residents = {};
  c.placed = {};
  c.shared = {};
  c.resident = {};
  c.buffers = {};
  c.charge.Release();
  c.quota.SettleDeviceTime(DeviceUs(receipt));
  c.quota.Release();
  // The device wrote the elements; padding between lines must not tell what the
  // memory held before.
  if (!c.d.empty()) ClearPadding(c.problem.d, c.d);
  std::string handle;
  if (c.kept != nullptr) {
    c.d.clear();
    if (status.ok()) handle = c.store->Keep(std::move(c.kept));
    c.kept.reset();
  }
  std::move(c.done)(
      {std::move(status), c.problem, std::move(receipt), std::move(c.d), std::move(handle)});
  if (sample.has_value()) c.verifier->Sample(*std::move(sample));
}

absl::Status StatusOf(const absl::StatusOr<double>& residual, const Completion& completion,
                      TimeNs now) {
  if (completion.deadline <= now) {
    return absl::DeadlineExceededError("the deadline passed while the product was verified");
  }
  if (!residual.ok()) return residual.status();
  if (*residual <= 1) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the product failed its verification: it differs from what it should be by ",
                   *residual, " times what rounding explains; what computed it is broken"));
}

}  // namespace

void Complete(std::unique_ptr<Completion> completion, absl::Status status, Receipt receipt) {
  if (!status.ok() || completion->verification_vectors == 0) {
    Conclude(std::move(completion), std::move(status), std::move(receipt));
    return;
  }
  FinishedProduct product = ProductOf(*completion, receipt.request_id);
  Verifier* const verifier = completion->verifier;
  const int vectors = completion->verification_vectors;
  const TimeNs start = completion->clock->Now();
  verifier->Verify(std::move(product), vectors,
                   [completion = std::move(completion), receipt = std::move(receipt),
                    start](absl::StatusOr<double> residual) mutable {
                     const TimeNs now = completion->clock->Now();
                     receipt.spans.push_back({Stage::kVerify, start, now});
                     if (residual.ok()) receipt.verification_residual = *residual;
                     absl::Status told = StatusOf(residual, *completion, now);
                     Conclude(std::move(completion), std::move(told), std::move(receipt));
                   });
}

}  // namespace gemmd
