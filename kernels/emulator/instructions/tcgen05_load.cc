// Loads: what a warp moves from tensor memory to registers.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/instructions/tcgen05.h"
#include "kernels/emulator/instructions/tcgen05_shared.h"
#include "kernels/emulator/instructions/tensor_memory.h"
#include "kernels/emulator/machine/collectives.h"
#include "kernels/emulator/machine/failure.h"
#include "kernels/emulator/machine/machine.h"

namespace gemmd::emulator {
namespace {

constexpr std::uint32_t kPoison = 0x7fffffffu;  // NaN

// Calls f(register, lane, column) for each cell of this thread; packed, for each half in turn.
template <typename F>
void ForEachCell(const Tcgen05LoadForm& form, F f) {
  const std::uint32_t thread = CurrentThread().lane;
  const TensorAddress at = SplitTensorAddress(form.address);
  for (std::uint32_t i = 0; i < form.count; ++i) {
    std::uint32_t lane = at.lane + thread;
    std::uint32_t column = i;
    if (form.shape == Tcgen05Shape::k16x256b) {
      lane = at.lane + thread / 4 + 8 * (i / 2 % 2);
      column = i / 4 * 8 + 2 * (thread % 4) + i % 2;
    }
    if (!form.is_packed) {
      f(i, lane, at.column + column, 0u);
      continue;
    }
    f(i, lane, at.column + 2 * column, 0u);
    f(i, lane, at.column + 2 * column + 1, 1u);
  }
}

// PTX ISA, "Tensor Memory Access Restrictions": a warp reaches a quarter of the lanes. Its lanes
// agree on the address.
void CheckPlace(const Tcgen05LoadForm& form, const char* what, const CallSite& site) {
  const std::uint32_t first = CurrentThread().index / kWarpSize % 4 * 32;
  const TensorAddress at = SplitTensorAddress(form.address);
  const bool is_half = form.shape == Tcgen05Shape::k16x256b;
  if (at.lane != first && !(is_half && at.lane == first + 16)) {
    Fail(Violation::kBadOperand, site,
         absl::StrCat(what, ": lane ", at.lane, " of tensor memory, where the warp reaches ", first,
                      " to ", first + 31));
  }
  const std::uint32_t columns =
      (is_half ? form.count / 4 * 8 : form.count) * (form.is_packed ? 2 : 1);
  CheckTensorBox({CurrentThread().block, at.lane, is_half ? 16u : 32u, at.column, columns}, what,
                 site);
}

void JoinLanes(const Tcgen05LoadForm& form, const char* what, const CallSite& site) {
  std::uint32_t address = form.address;
  WarpCollective(what, &address, site, [&](void* const* operands) {
    for (std::uint32_t lane = 0; lane < kWarpSize; ++lane) {
      if (*static_cast<const std::uint32_t*>(operands[lane]) == form.address) continue;
      Fail(Violation::kBadOperand, site, absl::StrCat(what, ": addresses differ between lanes"));
    }
  });
}

}  // namespace

void Tcgen05Load(const Tcgen05LoadForm& form, std::uint32_t* registers, const CallSite& site) {
  const char* what = "tcgen05.ld";
  CheckPlace(form, what, site);
  Thread& thread = CurrentThread();
  TensorEngine& engine = thread.tensor.loads;
  const TensorAccess access = {AgentOf(engine), ++engine.issued, TensorCell::Writer::kNobody};
  FlyingTensorLoad load = {registers, std::vector<std::uint32_t>(form.count)};
  ForEachCell(form,
              [&](std::uint32_t i, std::uint32_t lane, std::uint32_t column, std::uint32_t half) {
                CheckTensorRead({thread.block, lane, 1, column, 1}, access, what, site);
                const std::uint32_t word = TensorWord(*thread.block, lane, column);
                load.words[i] |= form.is_packed ? (word & 0xffff) << (16 * half) : word;
              });
  std::fill(registers, registers + form.count, kPoison);
  thread.tensor.flying_loads.push_back(std::move(load));
  JoinLanes(form, what, site);
}

void Tcgen05WaitLoad(const CallSite& site) {
  if (IsSkipped(site)) return;
  WarpCollective("tcgen05.wait::ld", nullptr, site, [](void* const*) {});
  TensorWork& work = CurrentThread().tensor;
  for (const FlyingTensorLoad& load : work.flying_loads) {
    std::copy(load.words.begin(), load.words.end(), load.registers);
  }
  work.flying_loads.clear();
  // They are over for what the thread issues next.
  if (!work.loads.has_agent) return;
  work.loads.done = work.loads.issued;
  work.view.Raise(work.loads.agent, work.loads.done);
}

}  // namespace gemmd::emulator
