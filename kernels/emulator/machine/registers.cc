#include "kernels/emulator/machine/registers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/machine/collectives.h"
#include "kernels/emulator/machine/failure.h"
#include "kernels/emulator/machine/machine.h"

namespace gemmd::emulator {
namespace {

constexpr std::uint32_t kRegistersOfMultiprocessor = 65536;
constexpr std::uint32_t kFewest = 24;
constexpr std::uint32_t kMost = 256;
constexpr std::uint32_t kUnit = 8;

// Returns the count that setmaxnreg starts from: the kernels that use it are compiled for one block
// a multiprocessor.
std::uint32_t AtLaunch(const LaunchRequest& request) {
  return std::min(kMost, kRegistersOfMultiprocessor / request.threads / kUnit * kUnit);
}

void CheckOperand(std::uint32_t count, const CallSite& site) {
  const LaunchRequest& request = *CurrentGrid().request;
  if (count < kFewest || count > kMost || count % kUnit != 0) {
    Fail(Violation::kBadOperand, site,
         absl::StrCat("setmaxnreg ", count, ": not a multiple of 8 in 24..256"));
  }
  if (request.threads % kWarpgroupSize != 0) {
    Fail(Violation::kBadOperand, site,
         absl::StrCat("setmaxnreg in a block of ", request.threads,
                      " threads, which are no whole warpgroups"));
  }
}

// Every thread must know that every other has executed the last setmaxnreg.
void CheckSynchronised(const Warpgroup& group, const CallSite& site) {
  if (group.set_at.empty() || !CurrentGrid().options.check_order) return;
  for (std::uint32_t i = 0; i < kWarpgroupSize; ++i) {
    const Knowledge& knows = WarpgroupThread(i).knows;
    for (std::uint32_t j = 0; j < kWarpgroupSize; ++j) {
      if (knows.generic[WarpgroupThread(j).agent] >= group.set_at[j]) continue;
      Fail(Violation::kRace, site,
           "setmaxnreg: the warps of the warpgroup did not synchronise since the last one");
    }
  }
}

void Note(Warpgroup& group) {
  group.set_at.resize(kWarpgroupSize);
  for (std::uint32_t i = 0; i < kWarpgroupSize; ++i) {
    Thread& thread = WarpgroupThread(i);
    BeginStep(thread);
    group.set_at[i] = thread.step();
  }
}

// Does either setmaxnreg: checks the count, then calls `execute`, which may change the warpgroup's.
template <typename F>
void Set(std::uint32_t count, const char* what, bool decreases, const CallSite& site, F execute) {
  CheckOperand(count, site);
  WarpgroupCollective(what, nullptr, site, [&](Warpgroup& group) {
    CheckSynchronised(group, site);
    if (group.registers == 0) group.registers = AtLaunch(*CurrentGrid().request);
    if (decreases ? count > group.registers : count < group.registers) {
      Fail(Violation::kBadOperand, site,
           absl::StrCat(what, " to ", count, " registers where the warpgroup has ",
                        group.registers));
    }
    Note(group);
    execute(group);
  });
}

}  // namespace

void DecreaseRegisters(std::uint32_t count, const CallSite& site) {
  Set(count, "setmaxnreg.dec", true, site, [count](Warpgroup& group) {
    Block& block = *CurrentThread().block;
    block.free_registers += (group.registers - count) * kWarpgroupSize;
    group.registers = count;
    for (Thread* thread : std::exchange(block.waiting_for_registers, {})) Wake(*thread);
  });
}

void IncreaseRegisters(std::uint32_t count, const CallSite& site) {
  Set(count, "setmaxnreg.inc", false, site, [](Warpgroup&) {});
  Warpgroup& group = CurrentWarpgroup();
  Block& block = *CurrentThread().block;
  while (group.registers < count) {
    const std::uint32_t missing = (count - group.registers) * kWarpgroupSize;
    if (block.free_registers < missing) {
      block.waiting_for_registers.push_back(&CurrentThread());
      BlockCurrent({"setmaxnreg.inc to get registers a thread", site, false, 0, count});
      continue;
    }
    block.free_registers -= missing;
    group.registers = count;
  }
}

}  // namespace gemmd::emulator
