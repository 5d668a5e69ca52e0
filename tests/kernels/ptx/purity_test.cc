// Kernel source obeys its rules: assembly stands in kernels/ptx/ alone, and kernels use
// the wrappers for everything the emulator must see.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace gemmd {
namespace {

// The sources that this test was built with, one path a line.
std::vector<std::string> Sources() {
  std::ifstream list("tests/kernels/ptx/sources.txt");
  EXPECT_TRUE(list.good());
  return {std::istream_iterator<std::string>(list), std::istream_iterator<std::string>()};
}

// Returns the source without comments and the text of string literals.
std::string Code(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  static const std::regex kSkipped(R"(//[^\n]*|/\*[^]*?\*/|"(?:[^"\\\n]|\\.)*")");
  return std::regex_replace(text.str(), kSkipped, " ");
}

bool IsUnder(const std::string& path, const char* folder) { return path.rfind(folder, 0) == 0; }

void ExpectNone(const std::string& path, const std::string& code, const char* pattern,
                const char* why) {
  std::smatch match;
  const std::string padded = " " + code + " ";
  EXPECT_FALSE(std::regex_search(padded, match, std::regex(pattern)))
      << path << ": " << match.str() << ": " << why;
}

// A whole word, in any spelling.
constexpr char kAssembly[] = R"([^\w](asm|__asm|__asm__|__asm_volatile__)[^\w])";
constexpr char kVendorSpellings[] =
    R"([^\w](threadIdx|blockIdx|blockDim|gridDim|warpSize|__sync\w*|__shared__|)"
    R"(__half2?|__nv_\w+|half2|nv_bfloat16\w*|__ld\w+|__st\w+|__shfl\w*|__cvta\w*|)"
    R"(__CUDA_ARCH__|__CUDACC__|cooperative_groups|nvcuda|wmma)[^\w])";

TEST(Purity, AssemblyStandsInPtxAlone) {
  int wrappers = 0;
  for (const std::string& path : Sources()) {
    const std::string code = Code(path);
    if (IsUnder(path, "kernels/ptx/")) {
      wrappers += std::regex_search(code, std::regex(kAssembly));
      continue;
    }
    ExpectNone(path, code, kAssembly, "assembly belongs into kernels/ptx");
  }
  EXPECT_GE(wrappers, 10) << "the pattern finds no assembly where there is some";
}

TEST(Purity, KernelsUseWrappersForWhatTheEmulatorMustSee) {
  int kernels = 0;
  for (const std::string& path : Sources()) {
    if (IsUnder(path, "kernels/ptx/") || IsUnder(path, "kernels/emulator/")) continue;
    if (path == "tests/kernels/ptx/purity_test.cc") continue;
    const std::string code = Code(path);
    kernels += code.find("GEMMD_KERNEL") != std::string::npos;
    ExpectNone(path, code, kVendorSpellings, "use a wrapper of kernels/ptx");
  }
  EXPECT_GE(kernels, 4);
}

TEST(Purity, EveryWrapperHeaderNamesItsSection) {
  for (const std::string& path : Sources()) {
    if (!IsUnder(path, "kernels/ptx/")) continue;
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    if (!std::regex_search(Code(path), std::regex(kAssembly))) continue;
    EXPECT_NE(text.str().find("PTX ISA, \""), std::string::npos) << path;
  }
}

}  // namespace
}  // namespace gemmd
