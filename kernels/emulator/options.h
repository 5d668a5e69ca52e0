// The options of an emulated launch, and its report. Plain values.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gemmd::emulator {

// When an asynchronous operation (cp.async, TMA, wgmma) takes effect.
enum class Landing : std::uint8_t {
  kEager,   // as soon as it is issued
  kLazy,    // when something waits for it and nothing else can run
  kRandom,  // at a point that the seed chooses
};

// The synchronising calls of launches: waits, fences, barriers, arrivals and commits, by where they
// stand in the source. One of them may be left out, as if its statement were deleted: how tests
// know that each is needed. Whoever launches owns it.
struct CallWatch {
  using Site = std::pair<std::string_view, int>;  // path, as the compiler saw it, and line

  std::set<Site> met;
  // A call is left out if its file's path ends with skipped_file and its line is one of these. An
  // empty skipped_file leaves out none.
  std::string skipped_file;
  int first_line = 0;
  int last_line = 0;
};

struct Options {
  std::uint64_t seed = 1;
  Landing landing = Landing::kRandom;
  // The happens-before checkers over shared memory (happens_before.h) and over global memory
  // (global_order.h).
  bool check_order = true;
  // Buffers longer than this are not checked for races in global memory, whose shadow takes
  // 28 bytes a byte; Statistics::unchecked_buffers names them.
  std::uint64_t global_order_limit = 64 << 20;
  bool count_bank_conflicts = false;
  // Clusters that run at the same time; the rest start as these end. A kernel whose
  // clusters wait for each other needs its whole grid resident.
  int resident_clusters = 4;
  // Warp turns after which a launch counts as making no progress.
  std::uint64_t turn_limit = 200'000'000;
  CallWatch* watch = nullptr;  // nobody watches
};

// A range of global memory that the kernel may touch.
struct Buffer {
  const void* data = nullptr;
  std::uint64_t bytes = 0;
  std::string name;
  bool read_only = false;
  // No grid ahead of this one in its stream writes it: with overlaps_preceding, it may be
  // touched before griddepcontrol.wait.
  bool settled = false;
};

struct Dimensions {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
};

struct LaunchRequest {
  std::string kernel;  // name, for reports
  Dimensions grid;     // blocks; x is a multiple of cluster_size
  std::uint32_t threads = 32;
  std::uint32_t cluster_size = 1;  // blocks, along x
  std::uint32_t shared_bytes = 0;
  // Launched with programmatic stream serialization (grid_dependency.h).
  bool overlaps_preceding = false;
  std::vector<Buffer> buffers;
};

// The kind of rule that a kernel broke.
enum class Violation : std::uint8_t {
  kNone,
  kBadLaunch,
  kOutOfBounds,
  kMisaligned,
  kReadOnly,
  kUnwritten,         // shared memory read before anything wrote it
  kNotLanded,         // bytes of a copy that was not waited for
  kRace,              // accesses without an order between them
  kMissingFence,      // ordered, but not across proxies
  kMbarrierProtocol,  // used before init, too many arrivals, a skipped phase, ...
  kBarrierMismatch,
  kDivergedCollective,
  kBadOperand,
  kUnfinished,  // a block or thread ends with work in flight
  kDeadlock,
  kNoProgress,
};

const char* Name(Violation violation);

// Shared-memory accesses of one source line, as warps made them.
struct BankUse {
  std::uint64_t accesses = 0;          // passes without any conflict
  std::uint64_t extra_wavefronts = 0;  // passes that conflicts added
  int worst_ways = 0;                  // most accesses of one pass that share a bank
};

struct Statistics {
  std::uint64_t turns = 0;
  std::uint64_t warp_collectives = 0;
  std::vector<std::string> unchecked_buffers;  // by global_order_limit
  std::map<std::string, BankUse> banks;        // by "file:line instruction"; see Options

  // Over all lines.
  int worst_bank_ways() const;
  std::uint64_t extra_wavefronts() const;
};

struct Report {
  Violation violation = Violation::kNone;
  // "race: ... [kernel sm80/a05, block (0, 1), thread 37, gemm.h:123]"
  std::string message;
  Statistics statistics;

  bool ok() const { return violation == Violation::kNone; }
};

}  // namespace gemmd::emulator
