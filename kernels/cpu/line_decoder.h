// Lines of an operand as f32 or f64, for kernels that multiply those.
#pragma once

#include <cstdint>

#include "base/numbers/quant/quantize.h"
#include "kernels/cpu/code_run.h"
#include "kernels/cpu/row_source.h"

namespace gemmd {

// Elements [k, k + depth) of lines [line, line + lines).
struct LinePart {
  std::int64_t line = 0;
  std::int64_t lines = 0;
  std::int64_t k = 0;
  std::int64_t depth = 0;
};

// Splits what an element is worth:
//
//     ((code - zero point) * block factor + block offset) * line factor
//
// The line factor is the scale itself where all of K has one scale, else a power of two, that of
// the largest scale or offset of the line; so block factors are below 2, and values neither
// overflow nor depend on other lines. The scale of the tensor belongs to the line factor.
//
// Parts are read as they lie in memory. Where that is along K, out[i * pitch + p] is element k + p
// of the part's line i; else lines of the operand lie across, and out[p * pitch + i] is.
class LineDecoder {
 public:
  explicit LineDecoder(const QuantizedView& view);

  bool lies_along_k() const { return view_.k_stride == 1; }

  // Returns the line factor as binary64 holds it, without the scale of the tensor. Reads every
  // scale of the line.
  double LineScale(std::int64_t line) const;
  // REQUIRES: line_scale is the line's. Exact: a division by a power of two, or 1.
  double BlockFactor(std::int64_t line, std::int64_t k, double line_scale) const;

  // Where the block of k ends, at most at K.
  std::int64_t EndOfBlock(std::int64_t k) const;

  // (code - zero point) * block factor + block offset, rounded once; in f32 the numbers of a block
  // are rounded before, where they are below 2^-126. `line_scales` are those of the part's lines;
  // null leaves factors and offsets out.
  template <typename Real>
  void Read(const LinePart& part, const double* line_scales, Real* out, std::int64_t pitch) const;

  // As ColumnSource::AddDots(), of lines from `line` on. `line_scales` are theirs, or null.
  bool AddDots(std::int64_t line, const DotPart& part, const double* line_scales,
               const DotRows& rows, RowGemmForm form, float* chains, std::int64_t pitch) const;

  // As ColumnSource::AddLines(), of lines from `line` on.
  bool AddLines(std::int64_t line, std::int64_t lines, const DotPart& part, const DotRows& rows,
                RowGemmForm form, float* sums, std::int64_t pitch) const;

  // Reads whole lines, each into a line of `out`, K apart.
  template <typename Real>
  void Lines(std::int64_t line, std::int64_t lines, const double* line_scales, Real* out) const;

 private:
  // Numbers of the blocks of an operand, as Blocks has them.
  struct Numbers {
    float* factors;
    float* zero_points;  // null without zero points
    float* offsets;      // null without offsets

    Blocks blocks(std::int64_t length) const { return {length, factors, zero_points, offsets}; }
  };
  // Room for one number of each kind of up to `count` blocks.
  template <std::int64_t count>
  struct NumbersRoom {
    float factors[count];
    float shifts[count];  // zero points or offsets
  };
  template <std::int64_t count>
  Numbers NumbersIn(NumbersRoom<count>* room) const {
    return {room->factors, has_zero_points() ? room->shifts : nullptr,
            has_offsets() ? room->shifts : nullptr};
  }

  void ReadAlongK(std::int64_t line, std::int64_t k, std::int64_t depth, const double* line_scale,
                  float* out) const;
  void ReadAcross(const LinePart& part, const double* line_scales, float* out,
                  std::int64_t pitch) const;

  // Those of `count` blocks of a line, the first of which has element k.
  void NumbersAlongK(std::int64_t line, std::int64_t k, std::int64_t count,
                     const double* line_scale, const Numbers& numbers) const;
  // Those of the blocks that element k of lines is in.
  void NumbersAcross(std::int64_t line, std::int64_t lines, std::int64_t k,
                     const double* line_scales, const Numbers& numbers) const;

  // Scales, zero points or offsets.
  struct Plane {
    DataType type;
    const void* data;
  };
  Plane scales() const { return {view_.format.scaling.type, view_.scales}; }
  Plane zero_points() const;
  Plane offsets() const { return {view_.format.scaling.type, view_.offsets}; }
  // Blocks of a line, each times `power`, which is one of two; those of lines, each times its own.
  void ReadPlaneAlongK(const Plane& plane, std::int64_t line, std::int64_t k, std::int64_t count,
                       double power, float* out) const;
  void ReadPlaneAcross(const Plane& plane, std::int64_t line, std::int64_t lines, std::int64_t k,
                       const double* powers, float* out) const;
  std::int64_t ScaleAt(std::int64_t line, std::int64_t k) const;
  bool has_zero_points() const { return view_.format.scaling.has_zero_points; }
  bool has_offsets() const { return view_.format.scaling.has_offsets; }

  const QuantizedView view_;
  const bool has_blocks_;  // along K, or offsets: then values have numbers of their block
};

// Columns of op(B) that are decoded as RowGemm() asks for them.
template <typename Real>
class DecodedColumns final : public ColumnSource<Real> {
 public:
  // Column 0 is `first_line` of the decoder, and element 0 of it `first_k`. `line_scales` are those
  // from that line on, or null.
  DecodedColumns(const LineDecoder& decoder, std::int64_t first_line, std::int64_t first_k,
                 const double* line_scales)
      : decoder_(decoder), first_line_(first_line), first_k_(first_k), line_scales_(line_scales) {}

  Columns<Real> columns() const { return {decoder_.lies_along_k(), nullptr, 0, this}; }

  void Read(std::int64_t column, std::int64_t columns, std::int64_t k, std::int64_t depth,
            Real* out, std::int64_t pitch) const override;
  bool AddDots(std::int64_t column, const DotPart& part, const DotRows& rows, RowGemmForm form,
               float* chains, std::int64_t pitch) const override;
  bool AddLines(std::int64_t column, std::int64_t columns, const DotPart& part, const DotRows& rows,
                RowGemmForm form, float* sums, std::int64_t pitch) const override;

 private:
  const LineDecoder& decoder_;
  const std::int64_t first_line_;
  const std::int64_t first_k_;
  const double* const line_scales_;
};

}  // namespace gemmd
