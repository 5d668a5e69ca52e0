#include "server/rpc/oip/infer_decoder.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/time/units.h"
#include "server/rpc/calls/peer.h"

namespace gemmd {
namespace {

std::uint64_t UnixMs() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

}  // namespace

absl::StatusOr<InferProduct> InferDecoder::Decode(const inference::ModelInferRequest& request,
                                                  const PayloadViews& raw, const Origin& origin,
                                                  std::string* model) const {
  const absl::StatusOr<InferModel> found =
      FindModel(parts_.store, origin.tenant, request.model_name(), request.model_version());
  if (!found.ok()) return found.status();
  *model = found->name;
  absl::StatusOr<InferProduct> product = MapRequest(
      request, raw, *found, limits_, [&](const std::string& name) -> absl::StatusOr<std::string> {
        if (absl::Status s = CheckSharesMemory(origin.peer); !s.ok()) return s;
        return parts_.regions->Find(origin.tenant, name);
      });
  if (product.ok() && product->queue_timeout_us != 0) {
    product->call.start_by =
        origin.arrival + static_cast<TimeNs>(product->queue_timeout_us) * kMicrosecond;
  }
  return product;
}

void InferDecoder::RecordEnd(const std::string& tenant, const std::string& model,
                             const absl::Status& status, const Receipt& receipt,
                             TimeNs arrival) const {
  if (model.empty()) return;
  if (status.ok()) {
    parts_.totals->RecordSuccess(tenant, model, receipt, UnixMs());
  } else {
    parts_.totals->RecordFailure(tenant, model, parts_.clock->Now() - arrival);
  }
}

}  // namespace gemmd
