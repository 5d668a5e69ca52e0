#include "server/admission/completion.h"

#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace gemmd {
namespace {

// The memory that a sampled product keeps while it waits, in the order of Holdings.
struct SampleMemory {
  Hold charge;
  SharedOperands::Placed placed;
  std::vector<HostPiece> memory;
  std::unique_ptr<InlinePayload> payload;
};

FinishedProduct ProductOf(const Completion& completion, std::uint64_t request_id) {
  FinishedProduct product;
  product.request_id = request_id;
  product.tenant = completion.tenant;
  product.problem = completion.problem;
  product.stack = completion.stack;
  product.buffers = completion.held.buffers;
  product.buffers.d = completion.d;
  product.device = completion.device;
  product.resident = completion.held.resident;
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

// Gives back what the request held.
void GiveBack(Holdings held, double device_us) { held.quota.SettleDeviceTime(device_us); }

// Gives the memory back and tells the caller.
void Conclude(std::unique_ptr<Completion> completion, absl::Status status, Receipt receipt) {
  Completion& c = *completion;
  Holdings& held = c.held;
  std::optional<FinishedProduct> sample;
  if (status.ok() && c.verifier != nullptr && c.verification_vectors == 0 &&
      c.verifier->Samples(receipt.request_id, c.problem, held.buffers)) {
    sample = ProductOf(c, receipt.request_id);
  }
  if (status.ok() && !held.shared.empty()) {
    status = held.shared.Finish(held.placed, c.problem, c.stack, c.d);
  }
  if (!status.ok() || held.shared.has_output()) c.d.clear();
  if (sample.has_value()) {
    sample->memory = std::make_shared<SampleMemory>(
        SampleMemory{std::move(held.charge), std::move(held.placed), std::move(held.memory),
                     std::move(held.payload)});
  }
  // The memory is given back before anybody is told.
  GiveBack(std::move(held), DeviceUs(receipt));
  // The device wrote the elements; padding between lines must not tell what the
  // memory held before.
  if (!c.d.empty()) ClearPadding(ResultOf(c.problem, c.stack), c.d);
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

char* Holdings::OwnMemory(WorkPlane plane) const {
  char* const sent = payload->memory(plane);
  return sent != nullptr ? sent : shared.CopyOf(plane, placed);
}

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
