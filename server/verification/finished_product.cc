#include "server/verification/finished_product.h"

#include <algorithm>
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
                                  const MatrixLayout& layout, std::vector<HostBuffer>* memory) {
  if (operand == nullptr) return nullptr;
  absl::StatusOr<HostBuffer> buffer = Allocate(layout.size_bytes());
  if (!buffer.ok()) return buffer.status();
  memory->push_back(*std::move(buffer));
  char* const data = memory->back().front().data;
  if (absl::Status s = device->Fetch(*operand, data); !s.ok()) return s;
  return data;
}

}  // namespace

double FinishedProduct::elements() const {
  const auto of = [](std::int64_t rows, std::int64_t columns) {
    return static_cast<double>(rows) * static_cast<double>(columns);
  };
  return of(problem.m, problem.k) + of(problem.k, problem.n) + of(problem.m, problem.n);
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
        Fetch(product.device, product.resident[plane].get(), PlaneOf(problem, plane), &memory);
    if (!data.ok()) return data.status();
    if (*data != nullptr) planes[plane] = *data;
  }
  Arguments arguments = ArgumentsOf(planes);
  HostBuffer d = product.buffers.d;
  if (d.size() != 1) {
    absl::StatusOr<HostBuffer> whole = Allocate(problem.d.size_bytes());
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
  arguments.d = d.front().data;
  VerificationOptions options;
  options.vectors = vectors;
  options.seed = seed;
  options.accuracy = AccuracyOf(*product.kernel);
  options.executor = executor;
  return VerificationResidual(problem, arguments, options);
}

}  // namespace gemmd
