// Vectors of single instructions: records them on a GPU, replays them in the emulator.
//   conformance record FILE             every set, as hashes (recording.h); goes on behind a set
//                                       that fails, as `record FILE SET-INDEX FAILURES`
//   conformance rehearse CARD FILE      the same in the emulator, of few blocks a set; CARD is
//                                       sm_90, sm_100 or sm_120
//   conformance replay FILE [first]     every block of every set against FILE, or the first eight;
//                                       names the sets that differ in FILE.differ
//   conformance dump SET BLOCK FILE     every result of one block, as 32-bit words
//   conformance dumps FOLDER SET...     the same of the first eight blocks, as FOLDER/SET.BLOCK
//   conformance compare SET BLOCK FILE  names the first result that differs from such a dump
// conformance_on_gpu, conformance_on_sm100 and conformance_on_sm120 are this program on CUDA,
// conformance_emulated in the emulator.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "tests/kernels/conformance/recording.h"

namespace gemmd::conformance {
namespace {

#ifdef GEMMD_CONFORMANCE_ON_GPU
std::vector<VectorSet> Sets(absl::optional<Card> /*card*/) { return CudaVectorSets(); }
std::unique_ptr<TargetMemory> Memory() { return CudaMemory(); }
constexpr bool kIsEmulated = false;
#else
// Those of one card, or of all; a set that several have is the same one.
std::vector<VectorSet> Sets(absl::optional<Card> card) {
  if (card.has_value()) return EmulatedVectorSets(*card);
  std::vector<VectorSet> sets;
  for (const Card each : kCards) {
    for (VectorSet& set : EmulatedVectorSets(each)) sets.push_back(std::move(set));
  }
  return sets;
}
std::unique_ptr<TargetMemory> Memory() { return EmulatedMemory(); }
constexpr bool kIsEmulated = true;
#endif

std::string Today() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  char text[32];
  std::tm utc;
  std::strftime(text, sizeof text, "%Y-%m-%d", gmtime_r(&now, &utc));
  return text;
}

int Complain(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  return 1;
}

// Records the sets from `first` on. A kernel that faults leaves its process without a GPU, so the
// sets behind a failed one are recorded by a new one in this one's place.
int Record(const std::string& path, std::uint32_t first, int failed) {
  const std::vector<VectorSet> sets = Sets(absl::nullopt);
  std::ofstream file(path, first == 0 ? std::ios::trunc : std::ios::app);
  if (first == 0) file << "# " << Memory()->machine() << "; " << Today() << "\n";
  for (std::uint32_t i = first; i < sets.size(); ++i) {
    const VectorSet& set = sets[i];
    const std::unique_ptr<TargetMemory> memory = Memory();
    const auto start = std::chrono::steady_clock::now();
    const absl::StatusOr<SetHashes> hashes = RecordSet(set, memory.get());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::printf("%-40s %7.3f s %s\n", set.name.c_str(), took.count(),
                hashes.ok() ? "" : std::string(hashes.status().message()).c_str());
    std::fflush(stdout);
    if (hashes.ok()) {
      file << ToText(set.name, *hashes) << std::flush;
      continue;
    }
    file.close();
    const std::string next = absl::StrCat(i + 1);
    const std::string failures = absl::StrCat(failed + 1);
    execl("/proc/self/exe", "conformance", "record", path.c_str(), next.c_str(), failures.c_str(),
          nullptr);
    return Complain("cannot start again");
  }
  std::printf("%d sets failed\n", failed);
  return failed == 0 && file ? 0 : 1;
}

// Runs as many blocks of each set as there are groups. The file is as a card would have written it
// but for that.
int Rehearse(const std::string& name, const std::string& path) {
  const absl::optional<Card> card = CardOf(name);
  if (!card.has_value()) return Complain("CARD must be sm_90, sm_100 or sm_120");
  std::ofstream file(path, std::ios::trunc);
  file << "# " << Memory()->machine() << ", " << name << ", " << kGroups << " blocks a set; "
       << Today() << "\n";
  for (VectorSet set : Sets(card)) {
    set.blocks = kGroups;
    const absl::StatusOr<SetHashes> hashes = RecordSet(set, Memory().get());
    if (!hashes.ok()) {
      return Complain(absl::StrCat(set.name, ": ", hashes.status().message()));
    }
    file << ToText(set.name, *hashes) << std::flush;
    std::printf("%s\n", set.name.c_str());
    std::fflush(stdout);
  }
  std::printf("0 sets failed\n");
  return file ? 0 : Complain(absl::StrCat("cannot write ", path));
}

int Replay(const std::string& path, Extent extent) {
  std::ifstream file(path);
  if (!file) return Complain(absl::StrCat("cannot read ", path));
  std::stringstream text;
  text << file.rdbuf();
  const absl::StatusOr<Recording> recording = ParseRecording(text.str());
  if (!recording.ok()) return Complain(std::string(recording.status().message()));
  std::printf("recorded on %s\n", recording->head.c_str());
  const absl::optional<Card> card = CardOf(recording->head);
  if (!card.has_value()) return Complain("its first line names none of sm_90, sm_100 and sm_120");
  std::ofstream names(path + ".differ", std::ios::trunc);
  int different = 0;
  for (const VectorSet& set : Sets(card)) {
    const std::string difference = ReplaySet(set, *recording, extent, Memory().get());
    if (!difference.empty()) names << set.name << "\n";
    different += !difference.empty();
    std::printf("%s\n", difference.empty() ? absl::StrCat(set.name, ": equal").c_str()
                                           : difference.c_str());
    std::fflush(stdout);
  }
  std::printf("%d sets differ\n", different);
  return different == 0 && names.flush() ? 0 : 1;
}

int DumpOrCompare(bool compares, const std::string& name, const std::string& number,
                  const std::string& path) {
  std::uint32_t block;
  if (!absl::SimpleAtoi(number, &block)) return Complain("BLOCK must be a number");
  for (const VectorSet& set : Sets(absl::nullopt)) {
    if (set.name != name) continue;
    if (block >= set.blocks) return Complain(absl::StrCat("BLOCK must be below ", set.blocks));
    const absl::StatusOr<std::vector<std::uint32_t>> words = RunInFull(set, block, Memory().get());
    if (!words.ok()) return Complain(std::string(words.status().message()));
    if (!compares) {
      std::ofstream file(path, std::ios::binary);
      file.write(reinterpret_cast<const char*>(words->data()),
                 static_cast<std::streamsize>(words->size() * 4));
      return file.flush() ? 0 : Complain(absl::StrCat("cannot write ", path));
    }
    std::ifstream file(path, std::ios::binary);
    std::stringstream bytes;
    bytes << file.rdbuf();
    std::vector<std::uint32_t> recorded(bytes.str().size() / 4);
    std::memcpy(recorded.data(), bytes.str().data(), recorded.size() * 4);
    const std::string difference = FirstDifference(set, block, recorded, *words);
    std::printf("%s\n", difference.empty() ? "equal" : difference.c_str());
    return difference.empty() ? 0 : 1;
  }
  return Complain(absl::StrCat("no set is called ", name));
}

int DumpFirstBlocks(const std::string& folder, const std::vector<std::string>& names) {
  int failed = 0;
  for (const std::string& name : names) {
    for (std::uint32_t block = 0; block < kFirstBlocks; ++block) {
      failed += DumpOrCompare(false, name, absl::StrCat(block),
                              absl::StrCat(folder, "/", name, ".", block));
    }
  }
  return failed == 0 ? 0 : 1;
}

int Main(const std::vector<std::string>& arguments) {
  const std::string mode = arguments.empty() ? "" : arguments[0];
  if (mode == "record" && arguments.size() == 2) return Record(arguments[1], 0, 0);
  std::uint32_t first;
  int failed;
  if (mode == "record" && arguments.size() == 4 && absl::SimpleAtoi(arguments[2], &first) &&
      absl::SimpleAtoi(arguments[3], &failed)) {
    return Record(arguments[1], first, failed);
  }
  if (mode == "rehearse" && arguments.size() == 3 && kIsEmulated) {
    return Rehearse(arguments[1], arguments[2]);
  }
  if (mode == "replay" && arguments.size() == 2) return Replay(arguments[1], Extent::kAll);
  if (mode == "replay" && arguments.size() == 3 && arguments[2] == "first") {
    return Replay(arguments[1], Extent::kFirstBlocks);
  }
  if (mode == "dumps" && arguments.size() > 2) {
    return DumpFirstBlocks(arguments[1], {arguments.begin() + 2, arguments.end()});
  }
  if ((mode == "dump" || mode == "compare") && arguments.size() == 4) {
    return DumpOrCompare(mode == "compare", arguments[1], arguments[2], arguments[3]);
  }
  std::fprintf(stderr,
               "usage: record FILE | rehearse CARD FILE | replay FILE [first] | "
               "dump|compare SET BLOCK FILE | dumps FOLDER SET...\n");
  return 2;
}

}  // namespace
}  // namespace gemmd::conformance

int main(int argc, char** argv) { return gemmd::conformance::Main({argv + 1, argv + argc}); }
