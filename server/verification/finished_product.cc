#include "server/verification/finished_product.h"

#include <cstring>

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

// Brings a resident back into `memory`.
absl::Status Fetch(const FinishedProduct& product, const ResidentOperand& operand,
                   const MatrixLayout& layout, HostBuffer* memory, const void** data) {
  absl::StatusOr<HostBuffer> buffer = Allocate(layout.size_bytes());
  if (!buffer.ok()) return buffer.status();
  *memory = *std::move(buffer);
  *data = memory->front().data;
  return product.device->Fetch(operand, memory->front().data);
}

}  // namespace

std::uint64_t FinishedProduct::size_bytes() const {
  std::uint64_t bytes = problem.a.size_bytes() + problem.b.size_bytes() + problem.d.size_bytes();
  if (problem.epilogue.beta != 0) bytes += problem.c.size_bytes();
  return bytes;
}

double FinishedProduct::elements() const {
  const auto of = [](std::int64_t rows, std::int64_t columns) {
    return static_cast<double>(rows) * static_cast<double>(columns);
  };
  return of(problem.m, problem.k) + of(problem.k, problem.n) + of(problem.m, problem.n);
}

bool IsReadable(const HostBuffers& buffers) {
  return buffers.a_access == Access::kHost && buffers.b_access == Access::kHost &&
         buffers.c_access == Access::kHost && buffers.d_access == Access::kHost;
}

absl::StatusOr<double> ResidualOf(const FinishedProduct& product, int vectors, std::uint64_t seed,
                                  ParallelExecutor* executor) {
  const Problem& problem = product.problem;
  const HostBuffers& buffers = product.buffers;
  Arguments arguments{buffers.a, buffers.b, buffers.c,        buffers.bias,
                      nullptr,   nullptr,   buffers.a_scales, buffers.b_scales};
  HostBuffer a;
  HostBuffer b;
  if (product.resident_a != nullptr) {
    absl::Status s = Fetch(product, *product.resident_a, problem.a, &a, &arguments.a);
    if (!s.ok()) return s;
  }
  if (product.resident_b != nullptr) {
    absl::Status s = Fetch(product, *product.resident_b, problem.b, &b, &arguments.b);
    if (!s.ok()) return s;
  }
  HostBuffer d = buffers.d;
  if (d.size() != 1) {
    absl::StatusOr<HostBuffer> whole = Allocate(problem.d.size_bytes());
    if (!whole.ok()) return whole.status();
    char* to = whole->front().data;
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
  options.reduced_accuracy = product.kernel->traits().only_by_name;
  options.executor = executor;
  return VerificationResidual(problem, arguments, options);
}

}  // namespace gemmd
