#include "client/split/cut_rows.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/math.h"

namespace gemmd::client {
namespace {

absl::Status Refuse(absl::string_view field, absl::string_view is, absl::string_view must_be) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", is, ": in a product that is split, it must be ", must_be));
}

// A and C: their rows are sent from here.
absl::Status CheckIsHere(absl::string_view field, const Operand& operand) {
  const auto* const here = std::get_if<InlineOperand>(&operand);
  if (here == nullptr) {
    return Refuse(field, "a matrix on a server or in shared memory",
                  "one that goes along, because its rows go to several servers");
  }
  if (!here->data.stack().is_one()) return Refuse(field, "a stack", "one matrix");
  if (here->blocks && here->blocks->is_tiled) {
    return Refuse(absl::StrCat(field, ".scales"), "in tiles of 128 x 4", "plain");
  }
  return absl::OkStatus();
}

// B and the bias: every server takes all of it.
absl::Status CheckIsEverywhere(absl::string_view field, const Operand& operand) {
  constexpr char kWhole[] = "bytes that are here, or a digest, which several servers can have";
  const auto check = [&](const OperandName& name) {
    if (!name.handle.empty()) return Refuse(field, "a handle of one server", kWhole);
    if (!name.name.empty()) return Refuse(field, "a name, which one server has", kWhole);
    return absl::OkStatus();
  };
  if (std::holds_alternative<SharedOperand>(operand)) {
    return Refuse(field, "in memory that one server shares", kWhole);
  }
  if (const auto* const name = std::get_if<OperandName>(&operand)) return check(*name);
  const auto* const stacked = std::get_if<StackedOperand>(&operand);
  if (stacked == nullptr) return absl::OkStatus();
  const auto* const name = std::get_if<OperandName>(&stacked->stack);
  return name == nullptr ? absl::OkStatus() : check(*name);
}

// A side of a matrix: its rows, or its columns.
std::uint64_t& LinesOf(bool are_rows, MatrixFormat& format) {
  return are_rows ? format.rows : format.columns;
}

absl::Status CannotCut(absl::string_view field, const MatrixFormat& format, const RowRange& lines) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", ToString(format), ": lines ",
                                                 lines.begin, " to ", lines.end,
                                                 " of it cannot be sent by themselves"));
}

// Returns rows, or columns, of a matrix as a matrix.
absl::StatusOr<Matrix> Cut(absl::string_view field, const Matrix& matrix, bool are_rows,
                           const RowRange& lines) {
  const auto bits = static_cast<std::uint64_t>(SizeBits(matrix.format().type));
  const std::uint64_t stride = matrix.format().stride();
  MatrixFormat format = matrix.format();
  if (LinesOf(are_rows, format) < lines.end) return CannotCut(field, matrix.format(), lines);
  LinesOf(are_rows, format) = lines.size();
  const bool lie_together = are_rows == (format.order == Order::kRowMajor);
  if (lie_together) {
    const absl::StatusOr<std::uint64_t> size = SizeBytes(format);
    if (!size.ok()) return size.status();
    if (lines.begin * stride * bits % 8 != 0) return CannotCut(field, matrix.format(), lines);
    const absl::string_view bytes = matrix.bytes().substr(lines.begin * stride * bits / 8, *size);
    return Matrix::Create(format, matrix.shared_bytes().Part(bytes));
  }
  format.leading_dimension = 0;
  const bool are_whole_bytes =
      bits % 8 == 0 ||
      (stride * bits % 8 == 0 && lines.begin * bits % 8 == 0 && lines.size() * bits % 8 == 0);
  if (!are_whole_bytes) return CannotCut(field, matrix.format(), lines);
  const std::uint64_t line_bytes = lines.size() * bits / 8;
  Buffer packed = Buffer::Allocate(format.outer() * line_bytes);
  for (std::uint64_t i = 0; i < format.outer(); ++i) {
    std::memcpy(packed.data() + i * line_bytes,
                matrix.bytes().data() + (i * stride + lines.begin) * bits / 8, line_bytes);
  }
  return Matrix::Create(format, std::move(packed).Freeze(format.outer() * line_bytes));
}

// Cuts scales, zero points or offsets: as the data where they are of blocks; else one for each row,
// or one for all of them.
absl::Status CutPlane(absl::string_view field, const std::optional<BlockScaling>& blocks,
                      bool are_rows, const RowRange& lines, std::optional<Matrix>& plane) {
  if (!plane) return absl::OkStatus();
  RowRange places = lines;
  if (blocks) {
    const std::uint64_t each = std::max<std::uint32_t>(1, blocks->block_lines);
    if (lines.begin % each != 0) return CannotCut(field, plane->format(), lines);
    places = {lines.begin / each, CeilOfRatio(lines.end, each)};
  } else if (plane->format().rows == 1 && plane->format().columns == 1) {
    return absl::OkStatus();
  }
  absl::StatusOr<Matrix> cut = Cut(field, *plane, blocks ? are_rows : true, places);
  if (!cut.ok()) return cut.status();
  plane = *std::move(cut);
  return absl::OkStatus();
}

// REQUIRES: it goes along.
absl::StatusOr<Operand> CutOperand(const std::string& field, const Operand& operand, bool are_rows,
                                   const RowRange& lines) {
  InlineOperand part = std::get<InlineOperand>(operand);
  absl::StatusOr<Matrix> data = Cut(field, part.data, are_rows, lines);
  if (!data.ok()) return data.status();
  part.data = *std::move(data);
  for (const auto& [name, plane] :
       {std::make_pair(".scales", &part.scales), std::make_pair(".zero_points", &part.zero_points),
        std::make_pair(".offsets", &part.offsets)}) {
    absl::Status s = CutPlane(absl::StrCat(field, name), part.blocks, are_rows, lines, *plane);
    if (!s.ok()) return s;
  }
  return Operand(std::move(part));
}

// Those of op(A). REQUIRES: A goes along.
std::uint64_t RowsOf(const MatmulInputs& inputs, const MatmulOptions& options) {
  const MatrixFormat& a = *FormatOf(inputs.a);
  return options.transpose_a ? a.columns : a.rows;
}

// Returns what a row of D takes. An N that the server alone knows counts as if B were square.
double FlopsOfRow(const MatmulInputs& inputs, const MatmulOptions& options) {
  const MatrixFormat& a = *FormatOf(inputs.a);
  const std::uint64_t k = options.transpose_a ? a.rows : a.columns;
  std::uint64_t n = k;
  if (const MatrixFormat* const b = FormatOf(inputs.b))
    n = options.transpose_b ? b->rows : b->columns;
  return 2.0 * static_cast<double>(k) * static_cast<double>(n);
}

}  // namespace

absl::Status CheckSplit(const MatmulInputs& inputs, const MatmulOptions& options) {
  if (options.batch) return Refuse("batch", "given", "absent");
  if (options.determinism != Determinism::kBatchInvariant) {
    return Refuse("determinism", "fast", "batch_invariant, so that rows keep their bits");
  }
  if (!std::holds_alternative<SendResult>(options.destination)) {
    return Refuse("D", "to stay on a server or in shared memory",
                  "sent, because each server has some of its rows");
  }
  if (options.output_order != Order::kRowMajor) {
    return Refuse("output_order", "column_major", "row_major, so that D's rows lie together");
  }
  if (options.output_leading_dimension != 0) {
    return Refuse("output_leading_dimension", absl::StrCat(options.output_leading_dimension),
                  "0: tightly packed");
  }
  absl::Status status = CheckIsHere("a", inputs.a);
  if (status.ok()) status = CheckIsEverywhere("b", inputs.b);
  if (status.ok() && inputs.c) status = CheckIsHere("c", *inputs.c);
  if (status.ok() && inputs.bias) status = CheckIsEverywhere("bias", *inputs.bias);
  return status;
}

std::vector<RowRange> CutRows(const MatmulInputs& inputs, const MatmulOptions& options, int servers,
                              const CutPolicy& policy) {
  const std::uint64_t rows = RowsOf(inputs, options);
  const std::uint64_t tiles = CeilOfRatio(rows, policy.tile_rows);
  const double worth =
      static_cast<double>(rows) * FlopsOfRow(inputs, options) / policy.least_part_flops;
  std::uint64_t parts = std::min(static_cast<std::uint64_t>(servers), tiles);
  if (worth < static_cast<double>(parts)) parts = static_cast<std::uint64_t>(worth);
  parts = std::max<std::uint64_t>(1, parts);
  std::vector<RowRange> ranges;
  ranges.reserve(parts);
  for (std::uint64_t i = 0; i < parts; ++i) {
    ranges.push_back({tiles * i / parts * policy.tile_rows,
                      std::min(rows, tiles * (i + 1) / parts * policy.tile_rows)});
  }
  return ranges;
}

absl::StatusOr<MatmulInputs> InputsOf(const MatmulInputs& inputs, const MatmulOptions& options,
                                      const RowRange& rows) {
  // Whole as it is, so that the server says what is wrong with it.
  if (rows.size() == RowsOf(inputs, options)) return inputs;
  MatmulInputs part = inputs;
  absl::StatusOr<Operand> a = CutOperand("a", inputs.a, !options.transpose_a, rows);
  if (!a.ok()) return a.status();
  part.a = *std::move(a);
  if (!inputs.c) return part;
  const std::uint64_t c_rows = FormatOf(*inputs.c)->rows;
  if (c_rows != RowsOf(inputs, options)) {
    return absl::InvalidArgumentError(absl::StrCat("c has ", c_rows, " rows: it must have ",
                                                   RowsOf(inputs, options), ", as op(A) has"));
  }
  absl::StatusOr<Operand> c = CutOperand("c", *inputs.c, true, rows);
  if (!c.ok()) return c.status();
  part.c = *std::move(c);
  return part;
}

}  // namespace gemmd::client
