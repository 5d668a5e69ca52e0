// Rectangles of planes and the pieces of host memory they lie in. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/gemm.h"
#include "server/device/cuda/backend/backend.h"
#include "server/device/cuda/planes/panels.h"
#include "server/device/host_buffer.h"

namespace gemmd {

// Bytes [byte_begin, byte_end) of each line of [line_begin, line_end).
struct PlaneRect {
  std::int64_t line_begin = 0;
  std::int64_t line_end = 0;
  std::uint64_t byte_begin = 0;
  std::uint64_t byte_end = 0;

  std::int64_t lines() const { return line_end - line_begin; }
  std::uint64_t width() const { return byte_end - byte_begin; }
};

PlaneRect WholePlane(const MatrixLayout& layout);
// The part of the plane that is in both.
PlaneRect Intersect(const PlaneRect& x, const PlaneRect& y);

// The rectangles of op(A), op(B) and D (or C): the part that a panel needs of the plane as the
// client laid it out. A panel of a padded problem may reach beyond the plane; the rectangle does
// not. For elements of less than a byte the rectangle is all of CopiedLayout(): there is one panel.
PlaneRect RectOfA(const Problem& sent, const Panel& panel);
PlaneRect RectOfB(const Problem& sent, const Panel& panel);
PlaneRect RectOfD(const MatrixLayout& d, const Panel& panel);

// The elements of the plane in these bytes: up to a line's end, whole lines, and a line's begin.
std::vector<PlaneRect> RectsOfBytes(const MatrixLayout& layout, std::uint64_t begin,
                                    std::uint64_t end);

// Cuts the rectangle into parts that fit a slab, at a pitch no larger than `pitch`: whole lines of
// it, or pieces of one line each.
std::vector<PlaneRect> CutForSlabs(const PlaneRect& rect, std::uint64_t pitch,
                                   std::uint64_t slab_bytes);

// The copy of a part, from a plane with lines `pitch` apart into a slab, where they lie tightly.
CudaRect CopyToSlab(const PlaneRect& part, const void* plane, std::uint64_t pitch, char* slab);
// Brings the part from the slab to its place in the plane.
void ScatterPart(const PlaneRect& part, const char* slab, void* plane, std::uint64_t pitch);

// A piece of a plane that is cut into slabs: it holds whole lines, or part of one line.
struct PlanePiece {
  PlaneRect rect;  // whole lines include their padding
  std::uint64_t size_bytes = 0;
};
std::vector<PlanePiece> CutPlane(const MatrixLayout& layout, std::uint64_t slab_bytes);

// Bytes from the start of a plane with lines `pitch` bytes apart to the rectangle's first one.
inline std::uint64_t StartOf(const PlaneRect& rect, std::uint64_t pitch) {
  return static_cast<std::uint64_t>(rect.line_begin) * pitch + rect.byte_begin;
}

// Copies that bring a rectangle of a plane into host memory, from the device's memory at
// `device_rect`, where its lines are `device_pitch` bytes apart.
// REQUIRES: the pieces hold the whole plane, each of them whole lines or part of one.
std::vector<CudaRect> CopiesToPieces(const MatrixLayout& layout, const HostBuffer& pieces,
                                     const PlaneRect& rect, const void* device_rect,
                                     std::uint64_t device_pitch);

}  // namespace gemmd
