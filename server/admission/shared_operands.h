// The operands and the result of one request that lie in memory shared by its client.
//
// Factors and C are used in place where the device has mapped their region. Everything else is
// copied once: bias and what scales the factors, which are small and which the CPU checks, and all
// of it for devices that map nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/gemm.h"
#include "server/admission/matmul_call.h"
#include "server/device/device.h"
#include "server/regions/region_table.h"

namespace gemmd {

// Not thread-safe. Holds its regions: they stay as long as this, whatever their leases.
class SharedOperands {
 public:
  // Finds the regions that the call names, which renews their leases, and checks that every
  // plane lies in its region and that D overlaps with no operand (but may be C itself).
  //   NOT_FOUND, FAILED_PRECONDITION   RegionTable::Use(), Region::CheckFile()
  //   INVALID_ARGUMENT                 a plane beyond its region, an overlap, or a bias or
  //                                    scales on a device
  // REQUIRES: `problem` and `stack` are what ValidateHeader() and ValidateBatch() made of the call.
  // `table` null: no memory is shared with this server.
  static absl::StatusOr<SharedOperands> Find(RegionTable* table, const MatmulCall& call,
                                             const Problem& problem, const Stack& stack);

  // The device in whose own memory an operand or D lies; null: none does.
  Device* holder() const;
  bool has_output() const { return output_.has_value(); }
  bool empty() const { return planes_.empty() && !has_output(); }
  // The bytes of all operands here, and of D.
  std::uint64_t bytes_in() const;
  std::uint64_t bytes_out() const { return has_output() ? output_->bytes : 0; }

  // Memory for what has to be copied.
  struct Placed {
    std::vector<HostPiece> copies;  // one for each plane; empty where it is used in place
    HostBuffer d;                   // the region itself; empty: D is written by Finish()
  };
  // Errors are AllocateOperand()'s. FAILED_PRECONDITION: an operand lies on another device.
  absl::StatusOr<Placed> PlaceOn(Device* device) const;

  // Returns whether some operand, or D, is used in place, in memory that the CPU must not touch.
  static bool AnyInPlace(const Placed& placed);

  // Copies what has to be copied. Errors are Region::Read()'s. INVALID_ARGUMENT: a scale is
  // negative, infinite or no number, or a zero point out of range.
  absl::Status Read(const Placed& placed) const;
  // A plane's copy, which the request owns; null: it is used in place, or not shared.
  char* CopyOf(WorkPlane plane, const Placed& placed) const;
  // Sets what of the buffers is shared.
  void Overlay(const Placed& placed, HostBuffers* buffers) const;

  // To be called once the device is done: writes D, if it is not there already, and checks that the
  // operands' memory was not cut short. Errors are Region::Write()'s and CheckFile()'s.
  absl::Status Finish(const Placed& placed, const Problem& problem, const Stack& stack,
                      const HostBuffer& buffer) const;

 private:
  struct Plane {
    OperandPlane which;
    std::string field;  // for errors
    std::shared_ptr<const Region> region;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    DataType type{};
    DataType element{};  // of the operand's data
  };

  absl::Status Add(RegionTable* table, const Tenant& tenant, OperandName operand,
                   const OperandSpec& spec, const Problem& problem, const Stack& stack);
  absl::Status AddOutput(RegionTable* table, const Tenant& tenant, const SharedMemorySpec& spec,
                         const Problem& problem, const Stack& stack);
  static bool IsInPlace(const Plane& plane);
  // Writes the lines of a D that begins `offset` bytes into the plane.
  static absl::Status Write(const Plane& plane, std::uint64_t offset, const MatrixLayout& d,
                            const HostBuffer& buffer);

  std::vector<Plane> planes_;
  std::optional<Plane> output_;
};

}  // namespace gemmd
