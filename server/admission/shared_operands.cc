#include "server/admission/shared_operands.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/device/panel.h"
#include "server/device/scale_values.h"

namespace gemmd {
namespace {

bool IsSameLayout(const MatrixLayout& x, const MatrixLayout& y) {
  return x.type == y.type && x.rows == y.rows && x.columns == y.columns && x.order == y.order &&
         x.leading_dimension == y.leading_dimension;
}

}  // namespace

absl::StatusOr<SharedOperands> SharedOperands::Find(RegionTable* table, const MatmulCall& call,
                                                    const Problem& problem, const Stack& stack) {
  SharedOperands shared;
  absl::Status status;
  const auto add = [&](OperandName operand, const std::optional<OperandSpec>& spec) {
    if (!status.ok() || !spec.has_value() || spec->source != Source::kShared) return;
    status = shared.Add(table, call.tenant, operand, *spec, problem, stack);
  };
  add(OperandName::kA, call.a);
  add(OperandName::kB, call.b);
  add(OperandName::kC, call.c);
  add(OperandName::kBias, call.bias);
  if (status.ok() && call.output.has_value()) {
    status = shared.AddOutput(table, call.tenant, *call.output, problem, stack);
  }
  if (!status.ok()) return status;
  return shared;
}

absl::Status SharedOperands::Add(RegionTable* table, const Tenant& tenant, OperandName operand,
                                 const OperandSpec& spec, const Problem& problem,
                                 const Stack& stack) {
  const std::string field = absl::StrCat(Name(operand), ".shared");
  if (table == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat(field, " is set: this server shares no memory with clients"));
  }
  absl::StatusOr<std::shared_ptr<const Region>> region =
      table->Use(field, spec.shared.region, tenant);
  if (!region.ok()) return region.status();
  // The bytes are those of planes within the limits, so their sum is within them too.
  std::uint64_t bytes = 0;
  std::vector<Plane> planes;
  for (const OperandPlane& each : kOperandPlanes) {
    if (each.operand != operand) continue;
    // C's is what its header says, though beta may be 0.
    const bool is_data = each.name == PlaneName::kData;
    if (!is_data && !HasPlane(problem, each.plane)) continue;
    const MatrixLayout layout = PlaneOf(problem, stack, each.plane);
    planes.push_back({each, is_data ? field : Name(operand, each.name), *region,
                      spec.shared.offset + bytes, layout.size_bytes(), layout.type,
                      operand == OperandName::kA ? problem.a.type : problem.b.type});
    bytes += planes.back().bytes;
  }
  absl::Status status = (*region)->CheckRange(field, spec.shared.offset, bytes);
  if (status.ok()) status = (*region)->CheckFile();
  const bool is_for_cpu = planes.size() > 1 || operand == OperandName::kBias;
  if (status.ok() && is_for_cpu && !(*region)->is_file()) {
    status = absl::InvalidArgumentError(
        absl::StrCat(field, ".region is memory of a GPU; a bias, and what has scales, must be in ",
                     "host memory"));
  }
  if (!status.ok()) return status;
  for (Plane& plane : planes) planes_.push_back(std::move(plane));
  return absl::OkStatus();
}

absl::Status SharedOperands::AddOutput(RegionTable* table, const Tenant& tenant,
                                       const SharedMemorySpec& spec, const Problem& problem,
                                       const Stack& stack) {
  if (table == nullptr) {
    return absl::UnimplementedError("output is set: this server shares no memory with clients");
  }
  absl::StatusOr<std::shared_ptr<const Region>> region = table->Use("output", spec.region, tenant);
  if (!region.ok()) return region.status();
  const std::uint64_t bytes = ResultOf(problem, stack).size_bytes();
  absl::Status status = (*region)->CheckRange("output", spec.offset, bytes);
  if (status.ok()) status = (*region)->CheckFile();
  if (!status.ok()) return status;
  for (const Plane& plane : planes_) {
    if (!(*region)->Overlaps(spec.offset, bytes, *plane.region, plane.offset, plane.bytes)) {
      continue;
    }
    const bool is_c_itself = plane.which.plane == WorkPlane::kC && plane.region == *region &&
                             plane.offset == spec.offset && IsSameLayout(problem.c, problem.d) &&
                             stack.strides[WorkPlane::kC] == stack.d_stride;
    if (is_c_itself) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("output is ", bytes, " bytes from ", spec.offset, " of the region of \"",
                     (*region)->name(), "\", which overlap with ", plane.field,
                     "; D may only be C itself, in the same region and layout"));
  }
  output_ =
      Plane{{}, "output", *std::move(region), spec.offset, bytes, problem.d.type, problem.d.type};
  return absl::OkStatus();
}

std::uint64_t SharedOperands::bytes_in() const {
  std::uint64_t bytes = 0;
  for (const Plane& plane : planes_) bytes += plane.bytes;
  return bytes;
}

Device* SharedOperands::holder() const {
  for (const Plane& plane : planes_) {
    if (plane.region->device() != nullptr) return plane.region->device();
  }
  return has_output() ? output_->region->device() : nullptr;
}

bool SharedOperands::IsInPlace(const Plane& plane) {
  return plane.region->mapping() != nullptr && plane.which.name == PlaneName::kData &&
         plane.which.operand != OperandName::kBias;
}

absl::StatusOr<SharedOperands::Placed> SharedOperands::PlaceOn(Device* device) const {
  Placed placed;
  const auto check_device = [device](const Plane& plane) {
    Device* const holder = plane.region->device();
    if (holder == nullptr || holder == device) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(plane.field, " lies on ", holder->traits().name,
                     "; every shared operand of a request must be there, or in host memory"));
  };
  for (const Plane& plane : planes_) {
    if (absl::Status s = check_device(plane); !s.ok()) return s;
    HostPiece& piece = placed.copies.emplace_back();
    if (IsInPlace(plane)) continue;
    absl::StatusOr<HostPiece> memory = device->AllocateOperand(plane.bytes);
    if (!memory.ok()) return memory.status();
    piece = *std::move(memory);
  }
  if (!has_output()) return placed;
  if (absl::Status s = check_device(*output_); !s.ok()) return s;
  if (const SharedMapping* mapping = output_->region->mapping(); mapping != nullptr) {
    placed.d = {{mapping->data() + output_->offset, output_->bytes,
                 std::const_pointer_cast<Region>(output_->region)}};
  }
  return placed;
}

bool SharedOperands::AnyInPlace(const Placed& placed) {
  return !placed.d.empty() ||
         std::any_of(placed.copies.begin(), placed.copies.end(),
                     [](const HostPiece& piece) { return piece.data == nullptr; });
}

absl::Status SharedOperands::Read(const Placed& placed) const {
  for (std::size_t i = 0; i < planes_.size(); ++i) {
    const Plane& plane = planes_[i];
    char* const to = placed.copies[i].data;
    if (to == nullptr) continue;
    absl::Status status = plane.region->Read(plane.offset, to, plane.bytes);
    if (status.ok() && plane.which.name == PlaneName::kZeroPoints) {
      status = CheckZeroPoints(plane.field, plane.element, to, plane.bytes);
    } else if (status.ok() && plane.which.name != PlaneName::kData) {
      status = CheckScaleValues(plane.field, plane.type, to, plane.bytes);
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

char* SharedOperands::CopyOf(WorkPlane plane, const Placed& placed) const {
  for (std::size_t i = 0; i < planes_.size(); ++i) {
    if (planes_[i].which.plane == plane) return placed.copies[i].data;
  }
  return nullptr;
}

void SharedOperands::Overlay(const Placed& placed, HostBuffers* buffers) const {
  for (std::size_t i = 0; i < planes_.size(); ++i) {
    const Plane& plane = planes_[i];
    const SharedMapping* const mapping = plane.region->mapping();
    const bool is_copied = placed.copies[i].data != nullptr;
    const char* const data = is_copied ? placed.copies[i].data : mapping->data() + plane.offset;
    const Access access = is_copied ? Access::kHost : mapping->access();
    (*buffers)[plane.which.plane] = data;
    buffers->access[plane.which.plane] = access;
  }
  if (!placed.d.empty()) buffers->d_access = output_->region->mapping()->access();
}

absl::Status SharedOperands::Finish(const Placed& placed, const Problem& problem,
                                    const Stack& stack, const HostBuffer& buffer) const {
  // Bytes that were used in place and are gone by now were perhaps not those that the client meant.
  for (const Plane& plane : planes_) {
    if (!IsInPlace(plane)) continue;
    if (absl::Status s = plane.region->CheckFile(); !s.ok()) return s;
  }
  if (!has_output()) return absl::OkStatus();
  // Writing would make the file whole again, with zeros where the client took bytes away.
  if (absl::Status s = output_->region->CheckFile(); !s.ok()) return s;
  if (!placed.d.empty()) return absl::OkStatus();
  const MatrixLayout together = ResultOf(problem, stack);
  if (together.inner() == problem.d.inner()) return Write(*output_, 0, together, buffer);
  // Bytes between the results stay as they are.
  for (std::int64_t i = 0; i < stack.count; ++i) {
    const std::uint64_t offset = static_cast<std::uint64_t>(i) * ResultStrideBytes(problem, stack);
    absl::Status status =
        Write(*output_, offset, problem.d, PartOf(buffer, offset, problem.d.size_bytes()));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status SharedOperands::Write(const Plane& plane, std::uint64_t offset, const MatrixLayout& d,
                                   const HostBuffer& buffer) {
  const std::uint64_t pitch = ElementBytes(d, d.leading_dimension);
  const std::uint64_t width = ElementBytes(d, d.inner());
  std::uint64_t begin = 0;  // of the piece, in the plane
  for (const HostPiece& piece : buffer) {
    const std::uint64_t end = begin + piece.size_bytes;
    // If there is no padding between lines, a piece is written at once.
    const std::uint64_t step = pitch == width ? end : pitch;
    for (std::uint64_t line = pitch == width ? begin : begin / pitch * pitch; line < end;
         line += step) {
      const std::uint64_t from = std::max(line, begin);
      const std::uint64_t to = pitch == width ? end : std::min(line + width, end);
      if (from >= to) continue;
      absl::Status status =
          plane.region->Write(plane.offset + offset + from, piece.data + (from - begin), to - from);
      if (!status.ok()) return status;
    }
    begin = end;
  }
  return absl::OkStatus();
}

}  // namespace gemmd
