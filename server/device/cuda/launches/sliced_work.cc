#include "server/device/cuda/launches/sliced_work.h"

namespace gemmd {
namespace {

// The operand that the parts of a strip share, landed.
class StripOperand final : public ResidentOperand {
 public:
  StripOperand(const void* data, const MatrixLayout& layout) : data_(data), layout_(layout) {}
  const void* data() const override { return data_; }
  const MatrixLayout& layout() const override { return layout_; }
  std::uint64_t size_bytes() const override { return 0; }  // the work's

 private:
  const void* const data_;
  const MatrixLayout layout_;
};

}  // namespace

IssuedWork WorkInParts::IssueNext(std::size_t slice, CudaSlot* slot, StagingRing* ring) {
  const Panel& part = parts_.panels[slice];
  std::shared_ptr<const ResidentOperand> operand;
  if (parts_.shared.has_value()) {
    if (absl::Status status = BringStrip(slice, slot, ring); !status.ok()) {
      return std::exchange(brought_, {});
    }
    const SharedStrip strip = StripOf(work_, *parts_.shared, part);
    operand = std::make_shared<const StripOperand>(*strip_.memory(), strip.landed);
  }
  const DeviceWork work = PartOf(work_, part, parts_.shared, std::move(operand));
  IssuedWork issued =
      issuer_->Issue(PreparePart(work_, work, part, parts_.shared, panel_bytes_), slot, ring);
  // It is issued again, with its strip there.
  if (issued.last == nullptr && absl::IsResourceExhausted(issued.status)) return issued;
  IssuedWork together = std::exchange(brought_, {});
  Append(std::move(issued), &together);
  if (!together.status.ok() && *strip_.memory() != nullptr) {
    Append(issuer_->Discard(strip_.memory(), slot), &together);
  }
  if (slice + 1 == parts_.panels.size()) strip_.Free();
  return together;
}

IssuedWork WorkInParts::Settle(CudaSlot* slot) {
  IssuedWork issued = std::exchange(brought_, {});
  if (*strip_.memory() != nullptr) Append(issuer_->Discard(strip_.memory(), slot), &issued);
  return issued;
}

absl::Status WorkInParts::BringStrip(std::size_t slice, CudaSlot* slot, StagingRing* ring) {
  const Panel& part = parts_.panels[slice];
  const bool by_rows = *parts_.shared == WorkPlane::kA;
  // Along a strip the other dimension begins at 0 once.
  const bool begins = (by_rows ? part.n_begin : part.m_begin) == 0;
  if (!begins || (*strip_.memory() != nullptr && has_strip_ == slice)) return absl::OkStatus();
  strip_.Free();
  brought_ = issuer_->IssueStrip(work_, *parts_.shared, StripOf(work_, *parts_.shared, part),
                                 strip_.memory(), slot, ring);
  if (brought_.status.ok()) has_strip_ = slice;
  return brought_.status;
}

}  // namespace gemmd
