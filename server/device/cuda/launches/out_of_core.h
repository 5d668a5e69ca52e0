// Products that are larger than the device's memory, in parts: blocks of D, each of them a work of
// its own. The parts of a strip share columns of B, or rows of A, which come to the device once for
// the strip; the rest comes for each part. Pure functions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/gemm.h"
#include "server/device/cuda/launches/prepared_work.h"
#include "server/device/device.h"
#include "server/device/panel.h"

namespace gemmd {

// One computes while the next one's operands arrive.
inline constexpr std::uint64_t kPartsAtOnce = 2;

// Blocks that cover D: strip after strip, each from its begin to its end.
struct PartCut {
  std::vector<Panel> panels;
  // A or B: of each strip its rows or columns come once. Absent: every part is a strip.
  std::optional<WorkPlane> shared;
};

// An operand's part that a strip shares, in a block of its own.
struct SharedStrip {
  Panel panel;        // rows of A, or columns of B; all of the other
  MatrixLayout sent;  // as the buffers of the whole have it
  MatrixLayout landed;
  std::uint64_t scratch_bytes = 0;  // behind what landed, where that is transposed; else 0
  std::uint64_t total_bytes = 0;
};
// The strip that the panel lies in. REQUIRES: parts.shared is set.
SharedStrip StripOf(const DeviceWork& whole, WorkPlane shared, const Panel& panel);

// Cuts works for one device.
class PartCutter {
 public:
  // `panel_bytes` as CutIntoPanels() takes them.
  PartCutter(std::uint64_t memory_bytes, std::uint64_t panel_bytes)
      : memory_bytes_(memory_bytes), panel_bytes_(panel_bytes) {}

  // Returns whether it is worth asking Cut() about the work.
  bool MayCut(const PreparedWork& prepared) const {
    return prepared.block.total_bytes > MostBytes(prepared.landed, prepared.resident);
  }

  // Where the whole would take more than three quarters of the memory that its resident operands
  // leave, those parts that take no more and the fewest bytes to the device. No panels: the work
  // goes whole, because it takes less, or because it cannot be cut: it is decoded or scaled by
  // blocks, its result or C stays, or the plan's kernel does not take the parts or would give them
  // other bits.
  PartCut Cut(const DeviceWork& work, const Residency& resident) const;
  PartCut Cut(const DeviceWork& work) const { return Cut(work, work.resident.which()); }

  // The memory that a work in these parts takes.
  Footprint FootprintOf(const DeviceWork& work, const Residency& resident,
                        const PartCut& parts) const;

 private:
  struct Candidate {
    std::int64_t rows = 0;  // of every part but the last ones
    std::int64_t columns = 0;
    std::optional<WorkPlane> shared;
    double bytes = 0;  // that go to the device
  };
  // The block that a part has to itself; the strip of `shared` is not in it.
  AllocationLayout BlockOf(const DeviceWork& work, Residency resident, const Panel& part,
                           std::optional<WorkPlane> shared) const;
  // The bytes that a work may take at a time.
  std::uint64_t MostBytes(const Problem& landed, const Residency& resident) const;
  // The fewest strips along one dimension whose parts have at least `least` rows or columns.
  std::optional<Candidate> CutStrips(const DeviceWork& work, const Residency& resident,
                                     WorkPlane shared, std::int64_t least,
                                     std::uint64_t most_bytes) const;
  // Parts that cut one dimension, where an operand lies on the device.
  std::optional<Candidate> CutBeside(const DeviceWork& work, const Residency& resident,
                                     WorkPlane cut, std::uint64_t most_bytes) const;
  bool IsAllowed(const DeviceWork& work, const std::vector<Panel>& panels) const;

  const std::uint64_t memory_bytes_;
  const std::uint64_t panel_bytes_;
};

// One part as a work. `strip`: where what it shares has landed; null: nothing has. Its D is the
// part's, in the buffers of the whole: see PreparePart().
DeviceWork PartOf(const DeviceWork& whole, const Panel& part, std::optional<WorkPlane> shared,
                  std::shared_ptr<const ResidentOperand> strip);
// REQUIRES: part_work is PartOf() them; it outlives what is returned.
PreparedWork PreparePart(const DeviceWork& whole, const DeviceWork& part_work, const Panel& part,
                         std::optional<WorkPlane> shared, std::uint64_t panel_bytes);

}  // namespace gemmd
