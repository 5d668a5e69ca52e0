// wgmma gives the bits that an H200 gave: K-major and MN-major operands with every swizzle,
// A in registers.
#include "tests/kernels/ptx/wgmma_vectors.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "kernels/emulator/launch.h"
#include "tests/kernels/ptx/recorded.h"

namespace gemmd::testing {
namespace {

struct CompareWithRecorded {
  const std::map<std::string, std::uint64_t>& recorded;

  template <ptx::WgmmaForm kForm, int kColumns, ptx::WgmmaA kA, ptx::Major kBMajor>
  void operator()() const {
    const std::vector<std::uint16_t> shared = WgmmaHalves(kForm, ptx::kWgmmaProbeShared / 2, 1);
    const std::vector<std::uint16_t> fragments = WgmmaHalves(kForm, 128 * 16, 2);
    for (const ptx::Swizzle swizzle : kWgmmaSwizzles) {
      const std::string name = WgmmaVectorName(kForm, kColumns, kA, kBMajor, swizzle);
      std::vector<std::uint32_t> out(WgmmaOutputWords(kColumns));
      ptx::WgmmaProbeParams params =
          WgmmaSpecs(kA == ptx::WgmmaA::kMnMajor, kBMajor == ptx::Major::kMn, swizzle);
      params.shared = reinterpret_cast<const ptx::Vector4*>(shared.data());
      params.fragments = reinterpret_cast<const std::uint32_t*>(fragments.data());
      params.out = out.data();
      emulator::LaunchRequest request;
      request.kernel = "wgmma_probe";
      request.threads = 128;
      request.shared_bytes = ptx::kWgmmaProbeShared;
      request.buffers = {{shared.data(), shared.size() * 2, "shared", true},
                         {fragments.data(), fragments.size() * 2, "fragments", true},
                         {out.data(), out.size() * 4, "out", false}};
      const emulator::Report report = emulator::Launch(
          request, {}, [&] { ptx::WgmmaProbe<kForm, kColumns, kA, kBMajor>(params); });
      EXPECT_TRUE(report.ok()) << name << ": " << report.message;
      const auto found = recorded.find(name);
      ASSERT_NE(found, recorded.end()) << name;
      EXPECT_EQ(HashBytes(out.data(), out.size() * 4), found->second) << name;
    }
  }
};

TEST(Wgmma, GivesTheBitsOfAnH200) {
  const auto recorded = ReadRecorded("tests/kernels/ptx/recorded_sm90.txt");
  ForEachWgmmaProbe(CompareWithRecorded{recorded});
}

}  // namespace
}  // namespace gemmd::testing
