#include "server/device/cuda/planes/plane.h"

#include <algorithm>

namespace gemmd {
namespace {

std::uint64_t Pitch(const MatrixLayout& layout) {
  return ElementBytes(layout, layout.leading_dimension);
}

// Rows [row_begin, row_end) by columns [column_begin, column_end).
PlaneRect RectOf(const MatrixLayout& layout, std::int64_t row_begin, std::int64_t row_end,
                 std::int64_t column_begin, std::int64_t column_end) {
  row_end = std::min(row_end, layout.rows);
  column_end = std::min(column_end, layout.columns);
  if (layout.order == Order::kRowMajor) {
    return {row_begin, row_end, ElementBytes(layout, column_begin),
            ElementBytes(layout, column_end)};
  }
  return {column_begin, column_end, ElementBytes(layout, row_begin), ElementBytes(layout, row_end)};
}

// The piece of a plane in these bytes: whole lines (the last may lack its padding), or part of one
// line.
PlaneRect RectOfBytes(std::uint64_t begin, std::uint64_t end, std::uint64_t pitch) {
  const auto line = static_cast<std::int64_t>(begin / pitch);
  const std::uint64_t byte = begin % pitch;
  if (byte != 0 || end - begin < pitch) return {line, line + 1, byte, byte + (end - begin)};
  return {line, static_cast<std::int64_t>((end + pitch - 1) / pitch), 0, pitch};
}

// Returns whether the second copy's lines come right after the first's on both sides: each copy
// costs the engine more than a microsecond beside its bytes.
bool Continues(const CudaRect& first, const CudaRect& second) {
  const auto end = [](const void* begin, std::uint64_t pitch, std::uint64_t lines) {
    return static_cast<const char*>(begin) + pitch * lines;
  };
  return first.width == second.width && second.to == end(first.to, first.to_pitch, first.lines) &&
         second.from == end(first.from, first.from_pitch, first.lines);
}

}  // namespace

PlaneRect WholePlane(const MatrixLayout& layout) {
  return RectOf(layout, 0, layout.rows, 0, layout.columns);
}

PlaneRect Intersect(const PlaneRect& x, const PlaneRect& y) {
  PlaneRect both{std::max(x.line_begin, y.line_begin), std::min(x.line_end, y.line_end),
                 std::max(x.byte_begin, y.byte_begin), std::min(x.byte_end, y.byte_end)};
  both.line_end = std::max(both.line_begin, both.line_end);
  both.byte_end = std::max(both.byte_begin, both.byte_end);
  return both;
}

PlaneRect RectOfA(const Problem& sent, const Panel& panel) {
  if (SizeBits(sent.a.type) < 8) return WholePlane(CopiedLayout(sent.a));
  return sent.transpose_a ? RectOf(sent.a, 0, sent.a.rows, panel.m_begin, panel.m_end)
                          : RectOf(sent.a, panel.m_begin, panel.m_end, 0, sent.a.columns);
}

PlaneRect RectOfB(const Problem& sent, const Panel& panel) {
  if (SizeBits(sent.b.type) < 8) return WholePlane(CopiedLayout(sent.b));
  return sent.transpose_b ? RectOf(sent.b, panel.n_begin, panel.n_end, 0, sent.b.columns)
                          : RectOf(sent.b, 0, sent.b.rows, panel.n_begin, panel.n_end);
}

PlaneRect RectOfD(const MatrixLayout& d, const Panel& panel) {
  return RectOf(d, panel.m_begin, panel.m_end, panel.n_begin, panel.n_end);
}

std::vector<PlaneRect> RectsOfBytes(const MatrixLayout& layout, std::uint64_t begin,
                                    std::uint64_t end) {
  const PlaneRect whole = WholePlane(layout);
  const std::uint64_t pitch = Pitch(layout);
  std::vector<PlaneRect> rects;
  const auto add = [&](std::uint64_t line_begin, std::uint64_t line_end, std::uint64_t byte_begin,
                       std::uint64_t byte_end) {
    const PlaneRect rect =
        Intersect(whole, {static_cast<std::int64_t>(line_begin),
                          static_cast<std::int64_t>(line_end), byte_begin, byte_end});
    if (rect.lines() != 0 && rect.width() != 0) rects.push_back(rect);
  };
  if (begin >= end) return rects;
  std::uint64_t line = begin / pitch;
  const std::uint64_t last = (end - 1) / pitch;
  const std::uint64_t last_end = end - last * pitch;
  if (line == last) {
    add(line, line + 1, begin % pitch, last_end);
    return rects;
  }
  if (begin % pitch != 0) {
    add(line, line + 1, begin % pitch, pitch);
    ++line;
  }
  const bool has_all_of_last = last_end >= whole.byte_end;
  add(line, has_all_of_last ? last + 1 : last, 0, pitch);
  if (!has_all_of_last) add(last, last + 1, 0, last_end);
  return rects;
}

std::vector<PlaneRect> CutForSlabs(const PlaneRect& rect, std::uint64_t pitch,
                                   std::uint64_t slab_bytes) {
  std::vector<PlaneRect> parts;
  const auto lines_a_slab =
      static_cast<std::int64_t>(std::max<std::uint64_t>(1, slab_bytes / pitch));
  for (std::int64_t line = rect.line_begin; line < rect.line_end; line += lines_a_slab) {
    for (std::uint64_t byte = rect.byte_begin; byte < rect.byte_end; byte += slab_bytes) {
      parts.push_back({line, std::min(rect.line_end, line + lines_a_slab), byte,
                       std::min(rect.byte_end, byte + slab_bytes)});
    }
  }
  return parts;
}

CudaRect CopyToSlab(const PlaneRect& part, const void* plane, std::uint64_t pitch, char* slab) {
  return {slab,  part.width(), static_cast<const char*>(plane) + StartOf(part, pitch),
          pitch, part.width(), static_cast<std::uint64_t>(part.lines())};
}

void ScatterPart(const PlaneRect& part, const char* slab, void* plane, std::uint64_t pitch) {
  char* to = static_cast<char*>(plane) + StartOf(part, pitch);
  const std::uint64_t width = part.width();
  if (pitch == width) {
    std::memcpy(to, slab, width * static_cast<std::uint64_t>(part.lines()));
    return;
  }
  for (std::int64_t line = 0; line < part.lines(); ++line) {
    std::memcpy(to, slab, width);
    to += pitch;
    slab += width;
  }
}

std::vector<PlanePiece> CutPlane(const MatrixLayout& layout, std::uint64_t slab_bytes) {
  const std::uint64_t pitch = Pitch(layout);
  const std::uint64_t used = ElementBytes(layout, layout.inner());
  std::vector<PlanePiece> pieces;
  if (pitch <= slab_bytes) {
    const auto lines_a_slab = static_cast<std::int64_t>(slab_bytes / pitch);
    for (std::int64_t line = 0; line < layout.outer(); line += lines_a_slab) {
      const std::int64_t end = std::min(layout.outer(), line + lines_a_slab);
      // The plane ends with its last element.
      const std::uint64_t padding = end == layout.outer() ? pitch - used : 0;
      pieces.push_back(
          {{line, end, 0, pitch}, static_cast<std::uint64_t>(end - line) * pitch - padding});
    }
    return pieces;
  }
  for (std::int64_t line = 0; line < layout.outer(); ++line) {
    const std::uint64_t line_end = line + 1 == layout.outer() ? used : pitch;
    for (std::uint64_t byte = 0; byte < line_end; byte += slab_bytes) {
      const std::uint64_t end = std::min(line_end, byte + slab_bytes);
      pieces.push_back({{line, line + 1, byte, end}, end - byte});
    }
  }
  return pieces;
}

std::vector<CudaRect> CopiesToPieces(const MatrixLayout& layout, const HostBuffer& pieces,
                                     const PlaneRect& rect, const void* device_rect,
                                     std::uint64_t device_pitch) {
  const std::uint64_t pitch = Pitch(layout);
  std::vector<CudaRect> copies;
  std::uint64_t begin = 0;  // of the piece, in the plane
  for (const HostPiece& piece : pieces) {
    const PlaneRect held = RectOfBytes(begin, begin + piece.size_bytes, pitch);
    begin += piece.size_bytes;
    const PlaneRect both = Intersect(rect, held);
    if (both.lines() == 0 || both.width() == 0) continue;
    CudaRect copy;
    copy.to = piece.data + static_cast<std::uint64_t>(both.line_begin - held.line_begin) * pitch +
              (both.byte_begin - held.byte_begin);
    copy.to_pitch = pitch;
    copy.from = static_cast<const char*>(device_rect) +
                static_cast<std::uint64_t>(both.line_begin - rect.line_begin) * device_pitch +
                (both.byte_begin - rect.byte_begin);
    copy.from_pitch = device_pitch;
    copy.width = both.width();
    copy.lines = static_cast<std::uint64_t>(both.lines());
    if (!copies.empty() && Continues(copies.back(), copy)) {
      copies.back().lines += copy.lines;
    } else {
      copies.push_back(copy);
    }
  }
  return copies;
}

}  // namespace gemmd
