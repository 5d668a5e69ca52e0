#include "kernels/cpu/row_gemm.h"

#include <algorithm>
#include <memory>
#include <type_traits>
#include <vector>

#include "base/math.h"
#include "kernels/cpu/row_tile.h"

namespace gemmd {
namespace {

// A packed strip of 32 columns then stays in the second cache, and adding up chains of 64 elements
// costs some 5 %.
constexpr std::int64_t kSpan = kSpanSteps * kLanes<float>;
// f32: a K of up to so many elements is one chain, as adding up several would cost too much.
constexpr std::int64_t kShort = 256;
// Lines that were packed lie apart by what is no power of two, which the cache would mind.
constexpr std::int64_t kPad = 16;

template <typename Real>
constexpr std::int64_t ChainsOf(std::int64_t k) {
  return std::is_same_v<Real, float> && k > kShort ? kLanes<Real> : 1;
}

template <typename Real>
const RowTile<Real>& TileOf(RowGemmForm form) {
  switch (form) {
    case RowGemmForm::kPlain:
      break;
    case RowGemmForm::kAvx2:
      return *Avx2RowTile<Real>();
    case RowGemmForm::kAvx512:
      return *Avx512RowTile<Real>();
  }
  return *PlainRowTile<Real>();
}

// One product on one thread.
template <typename Real>
class Multiplication {
 public:
  Multiplication(RowGemmForm form, const Columns<Real>& b, std::int64_t m, std::int64_t n,
                 std::int64_t k, const Real* a, std::int64_t lda, Real* c, std::int64_t ldc)
      : form_(form),
        tile_(TileOf<Real>(form)),
        b_(b),
        m_(m),
        n_(n),
        k_(k),
        a_(a),
        lda_(lda),
        c_(c),
        ldc_(ldc),
        lanes_(ChainsOf<Real>(k)) {}

  void Run() const {
    for (std::int64_t row = 0; row < m_; ++row) std::fill_n(c_ + row * ldc_, n_, Real{0});
    if constexpr (std::is_same_v<Real, float>) {
      const std::int64_t few = b_.has_lines_of_k ? tile_.few_rows : kFewRows;
      if (lanes_ > 1 && m_ <= few) return MultiplyFewRows();
    }
    for (std::int64_t k = 0; k < k_; k += kSpan) AddSpan(k, std::min(kSpan, k_ - k));
  }

 private:
  static constexpr std::int64_t kLanes = gemmd::kLanes<Real>;

  // Lines of B: where they lie, or a copy.
  struct Lines {
    const Real* data;
    std::int64_t pitch;
  };

  // Those of B from an element on; null where they are read.
  Lines LinesFrom(std::int64_t element) const {
    return {b_.data == nullptr ? nullptr : b_.data + element, b_.pitch};
  }

  // Buffers of the thread, which lines and strips are brought into, aligned to cache lines. They
  // stay with it: some 3 MiB for 256 rows, which a unit has at most, whatever N and K are.
  static Real* Buffer(std::int64_t count, int index) {
    thread_local std::vector<Real> buffers[4];
    std::vector<Real>& buffer = buffers[index];
    const auto size = static_cast<std::size_t>(count + kLanes);
    if (buffer.size() < size) buffer.resize(size);
    void* begin = buffer.data();
    std::size_t space = buffer.size() * sizeof(Real);
    return static_cast<Real*>(std::align(64, 1, begin, space));
  }

  // ------------------------------------------------------------- few rows

  void MultiplyFewRows() const {
    if (b_.has_lines_of_k) {
      for (std::int64_t k = 0; k < k_; k += kPart) DotPartOfK(k, std::min(kPart, k_ - k));
    } else {
      for (std::int64_t column = 0; column < n_; column += kLineColumns) AddLines(column);
    }
  }

  // Several spans of a line are read before the next line, because memory is quicker with what lies
  // side by side.
  static constexpr std::int64_t kPart = kMostDotSteps * kLanes;
  static constexpr std::int64_t kSpansOfPart = kPart / kSpan;

  // C += A * B over a part of K, by chains along lines of B.
  void DotPartOfK(std::int64_t k, std::int64_t depth) const {
    const Lines rows = RowsOfPart(k, depth);
    for (std::int64_t column = 0; column < n_; column += kLanes) {
      DotColumns(rows, k, depth, column);
    }
  }

  // The part of A; a copy of it where there are several rows, which are read side by side.
  Lines RowsOfPart(std::int64_t k, std::int64_t depth) const {
    if (m_ == 1) return {a_ + k, lda_};
    constexpr std::int64_t kPitch = kPart + kPad;
    Real* const rows = Buffer(m_ * kPitch, 2);
    for (std::int64_t row = 0; row < m_; ++row) {
      std::copy_n(a_ + row * lda_ + k, depth, rows + row * kPitch);
    }
    return {rows, kPitch};
  }

  // kLanes columns at most.
  void DotColumns(const Lines& rows, std::int64_t k, std::int64_t depth,
                  std::int64_t column) const {
    const std::int64_t columns = std::min(kLanes, n_ - column);
    const std::int64_t of_span = m_ * kLanes * kLanes;
    Real* const chains = Buffer(kSpansOfPart * of_span, 0);
    std::fill_n(chains, kSpansOfPart * of_span, Real{0});
    for (std::int64_t j = 0; j < columns; j += kDotColumns) {
      DotGroup(rows, {column + j, std::min(kDotColumns, columns - j)}, k, depth,
               chains + j * m_ * kLanes, of_span);
    }
    for (std::int64_t span = 0; span * kSpan < depth; ++span) {
      AddChains(chains + span * of_span, column, columns);
    }
  }

  // kDotColumns columns at most.
  struct Group {
    std::int64_t column;
    std::int64_t columns;
  };

  // In the source's registers if it can, else from lines.
  void DotGroup(const Lines& rows, const Group& group, std::int64_t k, std::int64_t depth,
                Real* chains, std::int64_t pitch) const {
    const std::int64_t steps = depth / kLanes;
    std::int64_t added = 0;
    if (b_.data == nullptr && group.columns == kDotColumns &&
        b_.source->AddDots(group.column, {k, steps}, {rows.data, rows.pitch, m_}, form_, chains,
                           pitch)) {
      added = steps * kLanes;
    }
    while (added < depth) {
      const std::int64_t span = added / kSpan;
      const std::int64_t end = std::min(depth, (span + 1) * kSpan);
      DotLines({rows.data + added, rows.pitch}, LinesOfGroup(group, k + added, end - added),
               end - added, chains + span * pitch);
      added = end;
    }
  }

  // Columns are fewer than kDotColumns at the end of B; then the first one stands in for others.
  Lines LinesOfGroup(const Group& group, std::int64_t k, std::int64_t depth) const {
    if (b_.data != nullptr && group.columns == kDotColumns) {
      return LinesFrom(group.column * b_.pitch + k);
    }
    Real* const lines = Buffer(kDotColumns * (kSpan + kPad), 1);
    constexpr std::int64_t kPitch = kSpan + kPad;
    ReadLines(group.column, group.columns, k, depth, lines, kPitch);
    for (std::int64_t j = group.columns; j < kDotColumns; ++j) {
      std::copy_n(lines, depth, lines + j * kPitch);
    }
    return {lines, kPitch};
  }

  void ReadLines(std::int64_t column, std::int64_t columns, std::int64_t k, std::int64_t depth,
                 Real* out, std::int64_t pitch) const {
    if (b_.data == nullptr) return b_.source->Read(column, columns, k, depth, out, pitch);
    for (std::int64_t j = 0; j < columns; ++j) {
      std::copy_n(b_.data + (column + j) * b_.pitch + k, depth, out + j * pitch);
    }
  }

  // Goes on with the chains of a span, or of its last elements.
  void DotLines(const Lines& rows, const Lines& lines, std::int64_t depth, Real* chains) const {
    const std::int64_t whole = depth / kLanes * kLanes;
    for (std::int64_t row = 0; row < m_; row += kDotRows) {
      const std::int64_t some = std::min(kDotRows, m_ - row);
      const Real* const a = rows.data + row * rows.pitch;
      Real* const to = chains + row * kDotColumns * kLanes;
      tile_.add_dots(some, whole / kLanes, a, rows.pitch, lines.data, lines.pitch, to);
      if (whole < depth) {
        AddLastStep(some, depth - whole, {a + whole, rows.pitch}, {lines.data + whole, lines.pitch},
                    to);
      }
    }
  }

  // The last elements of K, with zeros where chains have none.
  void AddLastStep(std::int64_t rows, std::int64_t count, const Lines& a, const Lines& b,
                   Real* chains) const {
    Real last_a[kDotRows * kLanes] = {};
    Real last_b[kDotColumns * kLanes] = {};
    for (std::int64_t row = 0; row < rows; ++row) {
      std::copy_n(a.data + row * a.pitch, count, last_a + row * kLanes);
    }
    for (std::int64_t j = 0; j < kDotColumns; ++j) {
      std::copy_n(b.data + j * b.pitch, count, last_b + j * kLanes);
    }
    tile_.add_dots(rows, 1, last_a, kLanes, last_b, kLanes, chains);
  }

  // C += the chains of a span, which lie by groups of columns, then by rows.
  void AddChains(const Real* chains, std::int64_t column, std::int64_t columns) const {
    for (std::int64_t row = 0; row < m_; ++row) {
      const Real* const from = chains + row * kDotColumns * kLanes;
      const std::int64_t pitch = kDotColumns * m_ * kLanes;
      Real* const to = c_ + row * ldc_ + column;
      if (columns == kLanes) {
        tile_.add_chains(from, pitch, to);
        continue;
      }
      Real sums[kLanes] = {};
      std::copy_n(to, columns, sums);
      tile_.add_chains(from, pitch, sums);
      std::copy_n(sums, columns, to);
    }
  }

  // The chains of kLineColumns columns at most, from lines of columns.
  void AddLines(std::int64_t column) const {
    const std::int64_t columns = std::min(kLineColumns, n_ - column);
    Real* const sums = Buffer(kLanes * m_ * kLineColumns, 0);
    for (std::int64_t k = 0; k < k_; k += kSpan) {
      const std::int64_t end = std::min(k_, k + kSpan);
      std::fill_n(sums, kLanes * m_ * kLineColumns, Real{0});
      for (std::int64_t p = k; p < end; p += kLineDepth) {
        AddLineBlock(column, columns, p, std::min(kLineDepth, end - p), sums);
      }
      for (std::int64_t row = 0; row < m_; ++row) {
        Real* const to = c_ + row * ldc_ + column;
        for (std::int64_t chain = 0; chain < kLanes; ++chain) {
          const Real* const from = sums + (chain * m_ + row) * kLineColumns;
          for (std::int64_t j = 0; j < columns; ++j) to[j] += from[j];
        }
      }
    }
  }

  // sums[(chain * m + row) * kLineColumns + column]
  void AddLineBlock(std::int64_t column, std::int64_t columns, std::int64_t k, std::int64_t depth,
                    Real* sums) const {
    const std::int64_t whole_columns = RoundUp(columns, kLanes);
    const bool is_whole = whole_columns == columns;
    if (b_.data == nullptr && is_whole && AddLinesOfSource(column, columns, k, depth, sums)) return;
    Lines lines = LinesFrom(k * b_.pitch + column);
    if (b_.data == nullptr || !is_whole) {
      Real* const copy = Buffer(kLineDepth * kLineColumns, 1);
      ReadRows(column, columns, k, depth, copy, kLineColumns);
      lines = {copy, kLineColumns};
    }
    for (std::int64_t chain = 0; chain < std::min(kLanes, depth); ++chain) {
      tile_.add_lines(m_, StepsOf(chain, depth), whole_columns, a_ + k + chain, lda_,
                      lines.data + chain * lines.pitch, kLanes * lines.pitch,
                      sums + chain * m_ * kLineColumns, kLineColumns);
    }
  }
  static std::int64_t StepsOf(std::int64_t chain, std::int64_t depth) {
    return (depth - chain + kLanes - 1) / kLanes;
  }

  // Returns whether the source has added the lines in registers: all of them, or none.
  bool AddLinesOfSource(std::int64_t column, std::int64_t columns, std::int64_t k,
                        std::int64_t depth, Real* sums) const {
    for (std::int64_t chain = 0; chain < std::min(kLanes, depth); ++chain) {
      if (!b_.source->AddLines(column, columns, {k + chain, StepsOf(chain, depth)},
                               {a_ + k + chain, lda_, m_}, form_, sums + chain * m_ * kLineColumns,
                               kLineColumns)) {
        return false;
      }
    }
    return true;
  }

  void ReadRows(std::int64_t column, std::int64_t columns, std::int64_t k, std::int64_t depth,
                Real* out, std::int64_t pitch) const {
    if (b_.data == nullptr) return b_.source->Read(column, columns, k, depth, out, pitch);
    for (std::int64_t p = 0; p < depth; ++p) {
      std::copy_n(b_.data + (k + p) * b_.pitch + column, columns, out + p * pitch);
    }
  }

  static constexpr std::int64_t kLineColumns = 512;
  static constexpr std::int64_t kLineDepth = kLineSteps * kLanes;

  // ------------------------------------------------------------- many rows

  // C += A * B over a span. Strips of B are packed by chains, and then all rows of A meet them.
  void AddSpan(std::int64_t k, std::int64_t depth) const {
    const Span span = {k, depth, RoundUp(depth, lanes_) / lanes_};
    const Real* const left = PackLeft(span);
    const std::int64_t group = kStrips * tile_.columns;
    for (std::int64_t column = 0; column < n_; column += group) {
      const std::int64_t columns = std::min(group, n_ - column);
      AddStrips(span, left, PackStrips(span, column, columns), column, columns);
    }
  }

  struct Span {
    std::int64_t k;
    std::int64_t depth;
    std::int64_t steps;  // of each chain, with zeros where it has fewer
  };

  // Whole squares of steps and what keeps rows and chains apart.
  static std::int64_t LeftPitch(const Span& span) { return RoundUp(span.steps, kLanes) + kPad; }
  std::int64_t StripPitch(const Span& span) const { return span.steps * tile_.columns + kPad; }

  // The span of A: left[(chain * m + row) * LeftPitch() + step].
  const Real* PackLeft(const Span& span) const {
    const std::int64_t pitch = LeftPitch(span);
    Real* const left = Buffer(lanes_ * m_ * pitch, 2);
    for (std::int64_t row = 0; row < m_; ++row) {
      const Real* const line = a_ + row * lda_ + span.k;
      Real* const to = left + row * pitch;
      if (lanes_ == 1) {
        std::copy_n(line, span.depth, to);
        continue;
      }
      for (std::int64_t p = 0; p < span.depth; p += kLanes * kLanes) {
        TransposePart(line + p, std::min(kLanes * kLanes, span.depth - p), to + p / kLanes,
                      m_ * pitch);
      }
    }
    return left;
  }

  // Elements of a line, `count` of a square, to the chains that they belong to.
  void TransposePart(const Real* line, std::int64_t count, Real* to, std::int64_t to_pitch) const {
    if (count == kLanes * kLanes) return tile_.transpose(line, kLanes, to, to_pitch);
    alignas(64) Real square[kLanes * kLanes] = {};
    std::copy_n(line, count, square);
    tile_.transpose(square, kLanes, to, to_pitch);
  }

  // kStrips strips at most, one after another. Where lines are of columns, pieces of some length
  // are read from each.
  const Real* PackStrips(const Span& span, std::int64_t column, std::int64_t columns) const {
    Real* const strips = Buffer(kStrips * lanes_ * StripPitch(span), 1);
    if (!b_.has_lines_of_k) {
      PackRows(span, column, columns, strips);
      return strips;
    }
    Real* strip = strips;
    for (std::int64_t j = 0; j < columns; j += tile_.columns, strip += lanes_ * StripPitch(span)) {
      PackLines(span, column + j, std::min(tile_.columns, columns - j), strip);
    }
    return strips;
  }

  // A strip from lines of K, by squares.
  void PackLines(const Span& span, std::int64_t column, std::int64_t columns, Real* strip) const {
    constexpr std::int64_t kPitch = kSpan + kPad;
    const std::int64_t to_pitch = lanes_ == 1 ? tile_.columns : StripPitch(span);
    const std::int64_t padded = span.steps * lanes_;
    for (std::int64_t j = 0; j < tile_.columns; j += kLanes) {
      const std::int64_t some = std::clamp<std::int64_t>(columns - j, 0, kLanes);
      Lines lines = LinesFrom((column + j) * b_.pitch + span.k);
      if (b_.data == nullptr || some < kLanes || padded > span.depth) {
        Real* const copy = Buffer(kLanes * kPitch, 0);
        if (some > 0) ReadLines(column + j, some, span.k, span.depth, copy, kPitch);
        for (std::int64_t i = 0; i < kLanes; ++i) {
          const std::int64_t filled = i < some ? span.depth : 0;
          std::fill(copy + i * kPitch + filled, copy + i * kPitch + padded, Real{0});
        }
        lines = {copy, kPitch};
      }
      Real* to = strip + j;
      std::int64_t p = 0;
      for (; p + kLanes <= padded; p += kLanes) {
        tile_.transpose(lines.data + p, lines.pitch, to, to_pitch);
        to += lanes_ == 1 ? kLanes * tile_.columns : tile_.columns;
      }
      for (; p < padded; ++p, to += tile_.columns) {
        for (std::int64_t i = 0; i < kLanes; ++i) to[i] = lines.data[i * lines.pitch + p];
      }
    }
  }

  // Strips from lines of columns.
  void PackRows(const Span& span, std::int64_t column, std::int64_t columns, Real* strips) const {
    const std::int64_t width = tile_.columns;
    Lines lines = LinesFrom(span.k * b_.pitch + column);
    if (b_.data == nullptr) {
      Real* const copy = Buffer(kSpan * kStrips * width, 0);
      b_.source->Read(column, columns, span.k, span.depth, copy, kStrips * width);
      lines = {copy, kStrips * width};
    }
    std::int64_t p = 0;
    for (std::int64_t step = 0; step < span.steps; ++step) {
      for (std::int64_t chain = 0; chain < lanes_; ++chain, ++p) {
        const std::int64_t filled = p < span.depth ? columns : 0;
        const Real* const line = lines.data + (filled == 0 ? 0 : p * lines.pitch);
        // The processor would not find these lines by itself, because they lie too far apart.
        if (p + kAhead < span.depth) Prefetch(line + kAhead * lines.pitch, columns);
        Real* to = strips + chain * StripPitch(span) + step * width;
        for (std::int64_t j = 0; j < columns; j += width, to += lanes_ * StripPitch(span)) {
          CopyPart(line + j, std::clamp<std::int64_t>(filled - j, 0, width), to);
        }
      }
    }
  }

  static constexpr std::int64_t kAhead = 64;  // lines
  static void Prefetch(const Real* line, std::int64_t columns) {
    for (std::int64_t j = 0; j < columns; j += kLanes) __builtin_prefetch(line + j, 0, 2);
  }

  // `count` elements, and zeros to the width of a strip.
  void CopyPart(const Real* from, std::int64_t count, Real* to) const {
    if (count == 2 * kLanes) {
      std::copy_n(from, 2 * kLanes, to);  // of a constant size: no call
      return;
    }
    std::copy_n(from, count, to);
    std::fill(to + count, to + tile_.columns, Real{0});
  }

  // The columns' sums lie apart from C meanwhile, strip by strip: lines of C are often a power of
  // two apart, and a cache holds few of those at a time.
  void AddStrips(const Span& span, const Real* left, const Real* strips, std::int64_t column,
                 std::int64_t columns) const {
    const std::int64_t width = tile_.columns;
    Real* const sums = Buffer(m_ * kStrips * width, 3);
    for (std::int64_t j = 0; j < columns; j += width) {
      const Real* const from = c_ + column + j;
      const std::int64_t count = std::min(width, columns - j);
      Real* const to = sums + j * m_;
      for (std::int64_t i = 0; i < m_; ++i) CopyPart(from + i * ldc_, count, to + i * width);
    }
    // By chains first, whose part of A all strips then find in a cache.
    for (std::int64_t chain = 0; chain < lanes_; ++chain) {
      const Real* strip = strips + chain * StripPitch(span);
      for (std::int64_t j = 0; j < columns; j += width, strip += lanes_ * StripPitch(span)) {
        AddChain(span, left + chain * m_ * LeftPitch(span), strip, sums + j * m_);
      }
    }
    for (std::int64_t j = 0; j < columns; j += width) {
      const Real* const from = sums + j * m_;
      const std::int64_t count = std::min(width, columns - j);
      Real* const to = c_ + column + j;
      for (std::int64_t i = 0; i < m_; ++i) std::copy_n(from + i * width, count, to + i * ldc_);
    }
  }

  void AddChain(const Span& span, const Real* left, const Real* strip, Real* sums) const {
    const std::int64_t pitch = LeftPitch(span);
    for (std::int64_t row = 0; row < m_; row += tile_.rows) {
      tile_.add_tile(std::min(tile_.rows, m_ - row), span.steps, left + row * pitch, pitch, strip,
                     lanes_ == 1, sums + row * tile_.columns);
    }
  }

  static constexpr std::int64_t kStrips = 4;

  const RowGemmForm form_;
  const RowTile<Real>& tile_;
  const Columns<Real>& b_;
  const std::int64_t m_;
  const std::int64_t n_;
  const std::int64_t k_;
  const Real* const a_;
  const std::int64_t lda_;
  Real* const c_;
  const std::int64_t ldc_;
  const std::int64_t lanes_;  // chains
};

}  // namespace

bool HasRowGemmForm(RowGemmForm form) {
  switch (form) {
    case RowGemmForm::kPlain:
      return true;
    case RowGemmForm::kAvx2:
      return HasAvx2AndFma();
    case RowGemmForm::kAvx512:
      return HasAvx512();
  }
  return false;
}

RowGemmForm BestRowGemmForm() {
  if (HasAvx512()) return RowGemmForm::kAvx512;
  return HasAvx2AndFma() ? RowGemmForm::kAvx2 : RowGemmForm::kPlain;
}

template <typename Real>
void RowGemm(const Columns<Real>& b, std::int64_t m, std::int64_t n, std::int64_t k, const Real* a,
             std::int64_t lda, Real* c, std::int64_t ldc, RowGemmForm form) {
  Multiplication<Real>(form, b, m, n, k, a, lda, c, ldc).Run();
}
template void RowGemm(const Columns<float>&, std::int64_t, std::int64_t, std::int64_t, const float*,
                      std::int64_t, float*, std::int64_t, RowGemmForm);
template void RowGemm(const Columns<double>&, std::int64_t, std::int64_t, std::int64_t,
                      const double*, std::int64_t, double*, std::int64_t, RowGemmForm);

template <typename Real>
std::int64_t RowGemmRoundings(std::int64_t k) {
  const std::int64_t chains = ChainsOf<Real>(k);
  if (chains == 1) return k;
  return RoundUp(std::min(k, kSpan), chains) / chains + RoundUp(k, kSpan) / kSpan * chains;
}
template std::int64_t RowGemmRoundings<float>(std::int64_t);
template std::int64_t RowGemmRoundings<double>(std::int64_t);

template <typename Real>
const char* RowGemmArithmetic(std::int64_t k) {
  const bool is_fused = BestRowGemmForm() != RowGemmForm::kPlain;
  if (ChainsOf<Real>(k) == 1) return is_fused ? "fma" : "multiply-add";
  return is_fused ? "fma16" : "multiply-add16";
}
template const char* RowGemmArithmetic<float>(std::int64_t);
template const char* RowGemmArithmetic<double>(std::int64_t);

}  // namespace gemmd
