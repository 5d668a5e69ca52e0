// The reader of machine code, on a text like nvdisasm's.
#include "tests/kernels/machine_code.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gemmd::testing {
namespace {

constexpr const char* kText = R"(
//--------------------- .text.first --------------------------
	.section	.text.first,"ax",@progbits
first:
.text.first:
        /*0000*/                   LDC R1, c[0x0][0x37c] ;
.L_x_1:
        /*0010*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R2 ;
        /*0018*/                   ELECT P1, URZ, PT ;
        /*0020*/                   UTCCP.T.S.4x32dp128bit.2CTA tmem[UR4], gdesc[UR6] ;
        /*0030*/              @P1  BRA.U.ANY `(.L_x_1) ;
        /*0040*/                   UTCQMMA.2CTA gdesc[UR6], gdesc[UR8], tmem[UR4] ;
        /*0050*/                   UTCBAR.2CTA.MULTICAST [UR4], URZ, UR6 ;
        /*0060*/                   UTCBAR.2CTA.MULTICAST [UR5], URZ, UR6 ;
	.section	.text.second,"ax",@progbits
        /*0000*/                   EXIT ;
	.section	.nv.info.second,"",@"SHT_CUDA_INFO"
)";

TEST(MachineCode, IsReadKernelByKernel) {
  const std::vector<KernelCode> kernels = KernelsOf(kText);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].entry, "first");
  ASSERT_EQ(kernels[0].instructions.size(), 8u);
  EXPECT_EQ(kernels[0].instructions[0], "LDC R1, c[0x0][0x37c] ");
  EXPECT_EQ(kernels[1].entry, "second");
  EXPECT_EQ(kernels[1].instructions, (std::vector<std::string>{"EXIT "}));
}

TEST(MachineCode, LoopsAndStagesAreCounted) {
  const std::vector<KernelCode> kernels = KernelsOf(kText);
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(LaneLoops(kernels[0]), 1);
  EXPECT_EQ(CountStage(kernels[0]).from_wait, 6);
  EXPECT_EQ(CountStage(kernels[0]).from_copy, 4);
  EXPECT_EQ(LaneLoops(kernels[1]), 0);
  EXPECT_EQ(CountStage(kernels[1]).from_wait, 0);
}

}  // namespace
}  // namespace gemmd::testing
