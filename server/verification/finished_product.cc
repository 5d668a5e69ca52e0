#include "server/verification/finished_product.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gemmd {
namespace {

absl::StatusOr<HostBuffer> Allocate(std::uint64_t bytes) {
  HostBuffer buffer = AllocateHostBuffer(bytes);
  if (!buffer.empty()) return buffer;
  return absl::ResourceExhaustedError(
      absl::StrCat("the host has no ", bytes, " bytes to verify a product with"));
}

// Brings a resident back into `memory`. Null: there is none.
absl::StatusOr<const void*> Fetch(Device* device, const ResidentOperand* operand,
                                  std::vector<HostBuffer>* memory) {
  if (operand == nullptr) return nullptr;
  const ResidentOperand& whole = operand->whole();
  absl::StatusOr<HostBuffer> buffer = Allocate(whole.given_bytes());
  if (!buffer.ok()) return buffer.status();
  memory->push_back(*std::move(buffer));
  char* const data = memory->back().front().data;
  if (absl::Status s = device->Fetch(whole, data); !s.ok()) return s;
  return data + operand->begin_in_whole();
}

}  // namespace

double FinishedProduct::elements() const {
  const auto of = [](std::int64_t rows, std::int64_t columns) {
    return static_cast<double>(rows) * static_cast<double>(columns);
  };
  const double rows = of(RowsOf(problem, stack), problem.k + problem.n);
  return rows + static_cast<double>(stack.count) * of(problem.k, problem.n);
}

bool IsReadable(const HostBuffers& buffers) {
  return buffers.d_access == Access::kHost &&
         std::all_of(kWorkPlanes.begin(), kWorkPlanes.end(), [&buffers](WorkPlane plane) {
           return buffers.access[plane] == Access::kHost;
         });
}

absl::StatusOr<double> ResidualOf(const FinishedProduct& product, int vectors, std::uint64_t seed,
                                  ParallelExecutor* executor) {
  const Problem& problem = product.problem;
  std::vector<HostBuffer> memory;
  Planes<const void*> planes = product.buffers;
  for (const WorkPlane plane : kWorkPlanes) {
    const absl::StatusOr<const void*> data =
        Fetch(product.device, product.resident[plane].get(), &memory);
    if (!data.ok()) return data.status();
    if (*data != nullptr) planes[plane] = *data;
  }
  HostBuffer d = product.buffers.d;
  if (d.size() != 1) {
    absl::StatusOr<HostBuffer> whole = Allocate(ResultOf(problem, product.stack).size_bytes());
    if (!whole.ok()) return whole.status();
    char* to = whole->front().data;
    if (product.resident.d != nullptr) {
      if (absl::Status s = product.device->Fetch(*product.resident.d, to); !s.ok()) return s;
    }
    for (const HostPiece& piece : d) {
      std::memcpy(to, piece.data, piece.size_bytes);
      to += piece.size_bytes;
    }
    d = *std::move(whole);
  }
  VerificationOptions options;
  options.vectors = vectors;
  options.seed = seed;
  options.accuracy = AccuracyOf(*product.kernel);
  options.executor = executor;
  const auto at = [](const void* data, std::uint64_t offset) {
    return data == nullptr ? nullptr : static_cast<const char*>(data) + offset;
  };
  double residual = 0;
  for (std::int64_t i = 0; i < product.stack.count; ++i) {
    const ProductPlace place = PlaceOf(problem, product.stack, i);
    if (place.problem.m == 0) continue;
    Planes<const void*> own;
    for (const WorkPlane plane : kWorkPlanes) {
      if (HasPlane(problem, plane)) own[plane] = at(planes[plane], place.offsets[plane]);
    }
    Arguments arguments = ArgumentsOf(own);
    arguments.d = d.front().data + place.offsets.d;
    // A NaN stays: it is no residual that passes.
    const double each = VerificationResidual(place.problem, arguments, options);
    if (!(each <= residual)) residual = each;
    if (std::isnan(residual)) break;
  }
  return residual;
}

}  // namespace gemmd
