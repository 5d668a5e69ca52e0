#include "kernels/emulator/memory/shared_memory.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/machine/collectives.h"
#include "kernels/emulator/machine/failure.h"
#include "kernels/emulator/machine/machine.h"
#include "kernels/emulator/memory/bank_conflicts.h"
#include "kernels/emulator/memory/global_memory.h"
#include "kernels/emulator/memory/happens_before.h"

namespace gemmd::emulator {
namespace {

constexpr std::uint32_t kRowBytes = 16;
constexpr std::uint32_t kRows = 8;

struct MatrixOperand {
  std::uint32_t* registers;
  std::uint32_t address;
};

// Element (row, column) of an 8x8 matrix in lane l, half h of its register is
// (l / 4, 2 * (l % 4) + h), or with .trans the other way round. PTX ISA, "Warp-level
// matrix load instruction: ldmatrix", the figure of fragment layouts.
template <typename F>
void ForEachElement(bool transpose, F f) {
  for (std::uint32_t lane = 0; lane < kWarpSize; ++lane) {
    for (std::uint32_t half = 0; half < 2; ++half) {
      const std::uint32_t major = lane / 4;
      const std::uint32_t minor = 2 * (lane % 4) + half;
      f(lane, half, transpose ? minor : major, transpose ? major : minor);
    }
  }
}

const MatrixOperand& Operand(void* const* operands, std::uint32_t lane) {
  return *static_cast<const MatrixOperand*>(operands[lane]);
}

void NoteRows(const char* name, void* const* operands, std::uint32_t matrices,
              const CallSite& site) {
  for (std::uint32_t matrix = 0; matrix < matrices; ++matrix) {
    std::uint32_t rows[kRows];
    for (std::uint32_t row = 0; row < kRows; ++row) {
      rows[row] = Operand(operands, matrix * kRows + row).address;
    }
    NoteMatrixAccess(name, rows, site);
  }
}

void Land(ThreadCopy& copy, Cluster& cluster) {
  if (copy.landed) return;
  copy.landed = true;
  std::uint8_t* to = LandedBytes(cluster, copy.destination);
  std::memset(to, 0, copy.size);
  if (copy.bytes > 0) std::memcpy(to, copy.source, copy.bytes);
}

}  // namespace

std::uint32_t SharedBase() { return (CurrentThread().block->rank << kRankShift) | kSharedBase; }

void LoadShared(void* value, std::uint32_t address, std::uint32_t bytes, const CallSite& site) {
  const std::uint8_t* from = OwnSharedBytes(address, bytes, bytes, "ld.shared", site);
  CheckRead(address, bytes, "ld.shared", site);
  NoteSharedAccess("ld.shared", address, bytes, site);
  std::memcpy(value, from, bytes);
}

void StoreShared(std::uint32_t address, const void* value, std::uint32_t bytes,
                 const CallSite& site) {
  std::uint8_t* to = OwnSharedBytes(address, bytes, bytes, "st.shared", site);
  CheckWrite(address, bytes, "st.shared", site);
  NoteSharedAccess("st.shared", address, bytes, site);
  std::memcpy(to, value, bytes);
}

void LoadSharedRemote(void* value, std::uint32_t address, std::uint32_t bytes,
                      const CallSite& site) {
  const char* what = "ld.shared::cluster";
  const std::uint8_t* from = ClusterSharedBytes(address, bytes, bytes, what, site);
  CheckRead(address, bytes, what, site);
  std::memcpy(value, from, bytes);
}

void StoreSharedRemote(std::uint32_t address, const void* value, std::uint32_t bytes,
                       const CallSite& site) {
  const char* what = "st.shared::cluster";
  std::uint8_t* to = ClusterSharedBytes(address, bytes, bytes, what, site);
  CheckWrite(address, bytes, what, site);
  std::memcpy(to, value, bytes);
}

void LoadMatrix(std::uint32_t (&registers)[4], std::uint32_t address, bool transpose,
                const CallSite& site) {
  const char* name = "ldmatrix";
  constexpr std::uint32_t kMatrices = 4;
  MatrixOperand operand{registers, address};
  OwnSharedBytes(address, kRowBytes, kRowBytes, name, site);
  CheckRead(address, kRowBytes, name, site);
  WarpCollective(name, &operand, site, [&](void* const* operands) {
    NoteRows(name, operands, kMatrices, site);
    Cluster& cluster = *CurrentThread().block->cluster;
    for (std::uint32_t matrix = 0; matrix < kMatrices; ++matrix) {
      std::uint16_t element[kRows][kRows];
      for (std::uint32_t row = 0; row < kRows; ++row) {
        std::memcpy(element[row],
                    LandedBytes(cluster, Operand(operands, matrix * kRows + row).address),
                    kRowBytes);
      }
      ForEachElement(transpose, [&](std::uint32_t lane, std::uint32_t half, std::uint32_t row,
                                    std::uint32_t column) {
        std::uint32_t& to = Operand(operands, lane).registers[matrix];
        if (half == 0) to = 0;
        to |= std::uint32_t{element[row][column]} << (16 * half);
      });
    }
  });
}

void StoreMatrix(std::uint32_t address, const std::uint32_t* registers, std::uint32_t matrices,
                 const CallSite& site) {
  const char* name = "stmatrix";
  std::uint32_t copy[4];
  std::memcpy(copy, registers, matrices * sizeof copy[0]);
  MatrixOperand operand{copy, address};
  if (CurrentThread().lane < matrices * kRows) {
    OwnSharedBytes(address, kRowBytes, kRowBytes, name, site);
    CheckWrite(address, kRowBytes, name, site);
  }
  WarpCollective(name, &operand, site, [&](void* const* operands) {
    NoteRows(name, operands, matrices, site);
    Cluster& cluster = *CurrentThread().block->cluster;
    for (std::uint32_t matrix = 0; matrix < matrices; ++matrix) {
      std::uint16_t element[kRows][kRows];
      ForEachElement(false, [&](std::uint32_t lane, std::uint32_t half, std::uint32_t row,
                                std::uint32_t column) {
        element[row][column] =
            static_cast<std::uint16_t>(Operand(operands, lane).registers[matrix] >> (16 * half));
      });
      for (std::uint32_t row = 0; row < kRows; ++row) {
        std::memcpy(LandedBytes(cluster, Operand(operands, matrix * kRows + row).address),
                    element[row], kRowBytes);
      }
    }
  });
}

void CopyAsync(std::uint32_t destination, const void* source, std::uint32_t size,
               std::uint32_t bytes, const CallSite& site) {
  const char* name = "cp.async";
  if (bytes > size) {
    Fail(Violation::kBadOperand, site, absl::StrCat(name, " of ", bytes, " of ", size, " bytes"));
  }
  OwnSharedBytes(destination, size, size, name, site);
  if (reinterpret_cast<std::uint64_t>(source) % size != 0) {
    Fail(Violation::kMisaligned, site,
         absl::StrCat(name, ": the source is not aligned to ", size, " bytes"));
  }
  if (bytes > 0) CheckGlobal(source, bytes, 1, false, name, site);
  BeginCopy(destination, size, site);
  NoteSharedAccess(name, destination, size, site);
  Thread& thread = CurrentThread();
  thread.open_copies.push_back({destination, source, size, bytes, site, false});
  Grid& grid = CurrentGrid();
  const bool is_early = grid.options.landing == Landing::kEager ||
                        (grid.options.landing == Landing::kRandom && grid.random() % 8 == 0);
  if (is_early) Land(thread.open_copies.back(), *thread.block->cluster);
}

void CopyAsyncCommit(const CallSite& site) {
  if (IsSkipped(site)) return;
  Thread& thread = CurrentThread();
  thread.copy_groups.push_back(std::move(thread.open_copies));
  thread.open_copies.clear();
}

void CopyAsyncWait(std::uint32_t groups, const CallSite& site) {
  if (IsSkipped(site)) return;
  Thread& thread = CurrentThread();
  while (thread.copy_groups.size() > groups) {
    for (ThreadCopy& copy : thread.copy_groups.front()) {
      Land(copy, *thread.block->cluster);
      FinishCopy(copy.destination, copy.size, copy.site);
    }
    thread.copy_groups.pop_front();
  }
}

}  // namespace gemmd::emulator
