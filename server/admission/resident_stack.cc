#include "server/admission/resident_stack.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/device/panel.h"
#include "server/device/stack.h"

namespace gemmd {
namespace {

using absl::InvalidArgumentError;
using absl::StrCat;

// The dimension of the plane that the data's lines lie along.
std::int64_t& Outer(Order data, MatrixLayout* plane) {
  return data == Order::kRowMajor ? plane->rows : plane->columns;
}

std::string Shape(const MatrixLayout& layout) { return StrCat(layout.rows, " x ", layout.columns); }

// Cuts a plane of scales, or of what lies as they do, to one matrix's.
class ScaleCutter {
 public:
  ScaleCutter(absl::string_view field, const OperandForm& whole, const MatrixOfStack& one)
      : field_(field), whole_(whole), one_(one) {}

  absl::Status Cut(absl::string_view name, MatrixLayout* plane, bool* is_shared) const {
    return whole_.blocks.has_value() ? CutBlocks(name, plane) : CutVector(plane, is_shared);
  }

 private:
  bool is_one() const { return one_.stack.matrices == 1; }
  std::int64_t lines() const { return one_.form.data.outer(); }

  absl::Status CutVector(MatrixLayout* plane, bool* is_shared) const {
    const bool has_one_a_line = plane->rows * plane->columns == whole_.data.outer();
    *is_shared = one_.stack.lies_along_k || !has_one_a_line || whole_.data.outer() == 1;
    if (*is_shared) return absl::OkStatus();
    (plane->rows == 1 ? plane->columns : plane->rows) = lines();
    plane->leading_dimension = plane->inner();
    return absl::OkStatus();
  }

  absl::Status CutBlocks(absl::string_view name, MatrixLayout* plane) const {
    if (is_one()) return absl::OkStatus();
    const BlockScaling& blocks = *whole_.blocks;
    constexpr std::int64_t kTileLines = 128;
    const std::int64_t block = one_.stack.lies_along_k ? blocks.block_k
                               : blocks.is_tiled       ? kTileLines
                                                       : blocks.block_lines;
    if (lines() % block != 0) {
      return InvalidArgumentError(StrCat(field_, ".data is ", Shape(one_.form.data),
                                         ", one of a stack whose blocks have ", block,
                                         " of its lines: they do not end where matrices do"));
    }
    const bool is_apart =
        blocks.is_tiled ? one_.stack.lies_along_k : plane->order != whole_.data.order;
    if (is_apart) {
      return InvalidArgumentError(
          StrCat(field_, ".", name, " of a stack must be ", Name(whole_.data.order),
                 " as the data are, and not in tiles along K: one matrix's do not lie together"));
    }
    Outer(whole_.data.order, plane) /= one_.stack.matrices;
    plane->leading_dimension = plane->inner();
    return absl::OkStatus();
  }

  const absl::string_view field_;
  const OperandForm& whole_;
  const MatrixOfStack& one_;
};

// The dimensions of D that an operand's data give, from its own.
void SetSizes(OperandName operand, const MatrixLayout& data, Problem* problem) {
  switch (operand) {
    case OperandName::kA:
      problem->m = problem->transpose_a ? data.columns : data.rows;
      problem->k = problem->transpose_a ? data.rows : data.columns;
      return;
    case OperandName::kB:
      problem->n = problem->transpose_b ? data.rows : data.columns;
      problem->k = problem->transpose_b ? data.columns : data.rows;
      return;
    case OperandName::kC:
    case OperandName::kBias:
      problem->m = data.rows;
      problem->n = data.columns;
      return;
  }
}

MatrixLayout Tight(MatrixLayout layout, std::int64_t rows, std::int64_t columns) {
  layout.rows = rows;
  layout.columns = columns;
  layout.leading_dimension = layout.inner();
  return layout;
}

MatrixLayout DataOf(const Problem& problem, OperandName operand) {
  if (operand == OperandName::kA) return problem.a;
  if (operand == OperandName::kB) return problem.b;
  if (operand == OperandName::kC) return problem.c;
  return PlaneOf(problem, WorkPlane::kBias);
}

}  // namespace

absl::StatusOr<MatrixOfStack> FindMatrix(absl::string_view field, const OperandForm& whole,
                                         const PlaneSpec& said, bool k_is_columns) {
  const Order order = whole.data.order;
  MatrixOfStack one;
  one.form = whole;
  const std::uint64_t lines = order == Order::kRowMajor ? said.rows : said.columns;
  const std::uint64_t inner = order == Order::kRowMajor ? said.columns : said.rows;
  const auto all_lines = static_cast<std::uint64_t>(whole.data.outer());
  const bool is_tight = said.leading_dimension == 0 || said.leading_dimension == inner;
  if (said.type != whole.data.type || said.order != order || !is_tight ||
      inner != static_cast<std::uint64_t>(whole.data.inner()) || lines == 0 ||
      all_lines % lines != 0) {
    return InvalidArgumentError(
        StrCat(field, ".data is ", said.rows, " x ", said.columns, " ", Name(said.type), " ",
               Name(said.order),
               is_tight ? "" : StrCat(" with leading dimension ", said.leading_dimension),
               "; the resident operand is ", Shape(whole.data), " ", Name(whole.data.type), " ",
               Name(order), ", which is no stack of such matrices, one behind the other"));
  }
  one.stack.matrices = static_cast<std::int64_t>(all_lines / lines);
  one.stack.lies_along_k = (order == Order::kRowMajor) != k_is_columns;
  Outer(order, &one.form.data) = static_cast<std::int64_t>(lines);
  one.form.data.leading_dimension = one.form.data.inner();
  if (one.form.data.outer() * one.form.data.inner() * SizeBits(whole.data.type) % 8 != 0) {
    return InvalidArgumentError(StrCat(field, ".data is ", Shape(one.form.data), " ",
                                       Name(whole.data.type),
                                       ", one of a stack: its matrices do not begin bytes"));
  }
  if (one.stack.lies_along_k && one.stack.matrices != 1 && whole.k_order != nullptr) {
    return InvalidArgumentError(
        StrCat(field, " has a k_order, and is a stack along K, of which it is no order"));
  }
  const ScaleCutter cutter(field, whole, one);
  struct Plane {
    PlaneName name;
    std::optional<MatrixLayout>* layout;
  };
  one.stack.shares[PlaneName::kTensorScale] = true;
  MatrixOfStack cut = one;
  for (const Plane& plane : {Plane{PlaneName::kScales, &cut.form.scales},
                             Plane{PlaneName::kZeroPoints, &cut.form.zero_points},
                             Plane{PlaneName::kOffsets, &cut.form.offsets}}) {
    if (!plane.layout->has_value()) continue;
    if (absl::Status s =
            cutter.Cut(Name(plane.name), &**plane.layout, &cut.stack.shares[plane.name]);
        !s.ok()) {
      return s;
    }
  }
  return cut;
}

absl::Status ChooseMatrices(OperandName operand, std::uint64_t first, std::uint64_t stride,
                            std::uint64_t products, const MatrixLayout& one, StackSpec* stack) {
  const absl::string_view field = Name(operand);
  const auto matrices = static_cast<std::uint64_t>(stack->matrices);
  const auto elements =
      static_cast<std::uint64_t>(one.rows) * static_cast<std::uint64_t>(one.columns);
  if (stride % elements != 0) {
    return InvalidArgumentError(StrCat("batch.", field, "_stride is ", stride, ", and ", field,
                                       " is a resident stack of matrices of ", Shape(one),
                                       ": it must be a multiple of ", elements));
  }
  const std::uint64_t each = stride / elements;
  if (first >= matrices) {
    return InvalidArgumentError(StrCat(field, ".matrix is ", first, "; the resident operand has ",
                                       matrices, " matrices of ", Shape(one)));
  }
  // Products after the first one; those that there is room for.
  if (each != 0 && products != 0 && products - 1 > (matrices - 1 - first) / each) {
    return InvalidArgumentError(StrCat("batch.count is ", products, ", and ", field,
                                       " is a resident stack of ", matrices, " matrices of ",
                                       Shape(one), ", of which the products take every ", each,
                                       " from ", first, " on"));
  }
  stack->first = static_cast<std::int64_t>(first);
  stack->each = static_cast<std::int64_t>(each);
  return absl::OkStatus();
}

Problem WithStack(const Problem& problem, OperandName operand, const StackSpec& stack) {
  MatrixLayout data = DataOf(problem, operand);
  Outer(data.order, &data) *= stack.matrices;
  Problem whole = problem;
  SetSizes(operand, data, &whole);
  const auto along = [](bool is_transposed, std::int64_t rows, std::int64_t columns,
                        const MatrixLayout& layout) {
    return is_transposed ? Tight(layout, columns, rows) : Tight(layout, rows, columns);
  };
  whole.a = along(whole.transpose_a, whole.m, whole.k, whole.a);
  whole.b = along(whole.transpose_b, whole.k, whole.n, whole.b);
  whole.c = Tight(whole.c, whole.m, whole.n);
  whole.d = Tight(whole.d, whole.m, whole.n);
  if (operand == OperandName::kBias) whole.c = Tight(data, data.rows, data.columns);
  return whole;
}

WorkPlane LandedAs(WorkPlane plane, bool is_stack) {
  return is_stack && plane == WorkPlane::kBias ? WorkPlane::kC : plane;
}

bool MayPack(const Problem& problem, const StackSpec& stack) {
  return !stack.lies_along_k && problem.n % kPackedLines == 0 &&
         PackingRejection(WithStack(problem, OperandName::kB, stack)).empty();
}

ResidentPart::Place PlaceInHost(const Problem& problem, const StackSpec& stack, WorkPlane plane,
                                PlaneName name) {
  if (stack.shares[name]) return {};
  MatrixLayout one = PlaneOf(problem, plane);
  one.leading_dimension = one.inner();
  const std::uint64_t bytes = one.size_bytes();
  const auto first = static_cast<std::uint64_t>(stack.first);
  return {first * bytes, static_cast<std::uint64_t>(stack.each) * bytes, first * bytes};
}

absl::StatusOr<ResidentPart::Place> PlaceOnDevice(const Device& device, const Problem& problem,
                                                  const StackSpec& stack,
                                                  const OperandPlane& plane) {
  if (stack.shares[plane.name]) return ResidentPart::Place{};
  constexpr std::uint64_t kAlignment = 256;  // of what the device allocates itself
  ResidentPart::Place place = PlaceInHost(problem, stack, plane.plane, plane.name);
  const Problem whole = device.Landed(WithStack(problem, plane.operand, stack));
  std::uint64_t bytes = PlaneBytes(problem, plane.plane);
  const std::optional<WeightPlane> packed = PackedPlaneOf(whole, plane.plane);
  bool lies_so = true;
  if (packed.has_value()) {
    bytes = PackedOffset(whole, *packed, problem.n);
  } else if (plane.name == PlaneName::kData) {
    const MatrixLayout sent = PlaneOf(problem, plane.plane);
    const MatrixLayout one = PlaneOf(device.Landed(problem), plane.plane);
    const MatrixLayout all = PlaneOf(whole, LandedAs(plane.plane, true));
    const bool is_line = plane.operand == OperandName::kBias;
    lies_so = is_line || (one.order == sent.order && one.outer() == sent.outer() &&
                          one.leading_dimension == all.leading_dimension);
    bytes = ElementBytes(all, sent.outer() * all.leading_dimension);
  }
  const bool is_aligned = stack.matrices == 1 || bytes % kAlignment == 0;
  if (lies_so && is_aligned) {
    place.offset = static_cast<std::uint64_t>(stack.first) * bytes;
    place.step = static_cast<std::uint64_t>(stack.each) * bytes;
    return place;
  }
  const std::string field = Name(plane.operand, plane.name);
  return absl::FailedPreconditionError(
      lies_so ? StrCat(field, " of the stack is ", bytes, " bytes a matrix in the memory of ",
                       device.traits().name, "; it must be a multiple of ", kAlignment)
              : StrCat(field, " of the stack is ", Name(DataOf(problem, plane.operand).type),
                       " and lies another way on ", device.traits().name,
                       ": its matrices must be K-major, of a multiple of 16 lines"));
}

}  // namespace gemmd
