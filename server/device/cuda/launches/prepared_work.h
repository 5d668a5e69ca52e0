// One work as its commands see it: how it lands, in which panels, where its parts lie; and the
// commands that every way of issuing it shares.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "server/device/cuda/backend/backend.h"
#include "server/device/cuda/backend/commands.h"
#include "server/device/cuda/planes/landing.h"
#include "server/device/cuda/planes/panels.h"
#include "server/device/device.h"

namespace gemmd {

struct PreparedWork {
  const DeviceWork* work = nullptr;
  Problem landed;
  Residency resident;       // d: the kernel writes D where it stays
  Planes<bool> is_settled;  // no launch of this work's writes it
  std::vector<Panel> panels;
  AllocationLayout block;
  // The plane that buffers.d holds, and the row and column at which the work's D begins there.
  MatrixLayout buffer_d;
  std::int64_t d_row = 0;
  std::int64_t d_column = 0;
};

PreparedWork Prepare(const DeviceWork& work, std::uint64_t panel_bytes);
// Prepares a work that has not got its operands yet: `resident` says which planes will stay.
PreparedWork Prepare(const DeviceWork& work, std::uint64_t panel_bytes, const Residency& resident);
// Prepares a work in panels of the caller's choice.
PreparedWork PrepareInPanels(const DeviceWork& work, const Residency& resident,
                             std::vector<Panel> panels);

// Commands that are under way.
struct IssuedWork {
  // Not OK: what could not be issued; what was before it is under way nevertheless.
  absl::Status status;
  // Null if nothing is under way.
  CudaEvent last = nullptr;
  std::vector<TimedStage> stages;
  CopiedBytes copied;
  // Bytes of D go through the drain ring: they arrive some time after `last`.
  bool drains = false;
};
// One after another in the same launch.
void Append(IssuedWork next, IssuedWork* issued);

// Bytes from line to line.
inline std::uint64_t Pitch(const MatrixLayout& layout) {
  return ElementBytes(layout, layout.leading_dimension);
}

// Returns whether rows, columns or both are padded: the operand sent does not fill the landed one.
inline bool IsPadded(const MatrixLayout& sent, const MatrixLayout& landed) {
  return sent.rows != landed.rows || sent.columns != landed.columns;
}

// The direction of a device's copy from memory of this access.
inline CopyDirection DirectionFrom(Access access) {
  return access == Access::kDevice ? CopyDirection::kWithinDevice : CopyDirection::kToDevice;
}

// Returns whether the panels cut M, or N.
bool CutsRows(const std::vector<Panel>& panels);
bool CutsColumns(const std::vector<Panel>& panels);

// Bias and scales that come with the work, as planes of one line.
struct VectorInput {
  const void* host = nullptr;
  std::uint64_t bytes = 0;
  AllocationLayout::Part part;
};
std::vector<VectorInput> VectorInputs(const PreparedWork& prepared);

// Queues the transposition of what is needed of an operand that lands in the other order:
// `begin` to `end` along op()'s outer dimension.
void TransposeInput(const MatrixLayout& sent, const MatrixLayout& landed, std::int64_t begin,
                    std::int64_t end, const char* scratch, char* to, CudaStream stream,
                    CudaCommands* commands);

// Transposes what this panel brought; `is_first`: what came whole before it, too.
void TransposePanel(const PreparedWork& prepared, const Panel& panel, bool is_first, char* block,
                    CudaStream stream, CudaCommands* commands);
// The kernel's arguments for the panel.
Arguments PanelArguments(const PreparedWork& prepared, const Panel& panel, char* block);
// Transposes and launches the kernel.
void ComputePanel(const PreparedWork& prepared, const Panel& panel, bool is_first, char* block,
                  CudaStream stream, CudaCommands* commands);

// Returns whether one launch may serve both works as a batch: the same plan for equal problems.
bool HaveEqualLaunches(const PreparedWork& x, const PreparedWork& y);

// Has the streams wait for the memory of a D that stays, where another block's last use of it may
// be under way.
void AwaitKept(const DeviceWork& work, std::initializer_list<CudaStream> streams,
               CudaCommands* commands);

// The copies that bring the panel's D to the buffers that the work has for it.
std::vector<CudaRect> CopiesOut(const PreparedWork& prepared, const Panel& panel,
                                const char* block);
// Copies the panel's D there, or to where D stays if the kernel could not write it there.
void CopyPanelOut(const PreparedWork& prepared, const Panel& panel, const char* block,
                  CudaStream stream, CudaCommands* commands);

}  // namespace gemmd
