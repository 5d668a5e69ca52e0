#include <string>
#include <utility>

#include "tests/server/device/gpu/checks.h"
#include "tests/server/device/gpu/served_gpu.h"

namespace gemmd::testing {
namespace {

// cuBLASLt's addition to the bound: its fused epilogues, the sums of its fp8 kernels, the operands
// of its tf32 ones (kernels/cublaslt/cublaslt_registry.h).
double Slack(const Problem& problem) {
  const bool has_epilogue =
      problem.epilogue.has_bias || problem.epilogue.activation != Activation::kNone;
  double slack = problem.epilogue.activation == Activation::kGeluTanh ? 0x1p-17 : 0;
  if (has_epilogue && problem.d.type == DataType::kF16) slack += 0x1p-11;
  if (has_epilogue && problem.d.type == DataType::kBf16) slack += 0x1p-8;
  if (problem.a.type == DataType::kFp8E4M3) slack += 0x1p-11;
  if (problem.a.type == DataType::kTf32) slack += 0x1p-9;
  return slack;
}

std::string Compute(ServedGpu* gpu, const Problem& problem, std::uint32_t seed) {
  Operands operands(problem, Distribution::kNormal, seed);
  const DeviceWork work = MakeWork(gpu, problem, &operands);
  Ends ends;
  gpu->device->Submit(work, ends.Expect());
  ends.WaitFor(0);
  if (!ends.status().ok()) return ends.status().ToString();
  CopyOut(work.buffers.d, &operands.d);
  return CompareWithReference(problem, operands, Slack(problem));
}

}  // namespace

void CheckProducts(GpuReport* report) {
  const SteadyClock clock;
  ServedGpu gpu = ServeGpu(0, &clock);
  const std::pair<DataType, DataType> types[] = {
      {DataType::kF64, DataType::kF64},   {DataType::kF32, DataType::kF32},
      {DataType::kF16, DataType::kF16},   {DataType::kF16, DataType::kF32},
      {DataType::kBf16, DataType::kBf16}, {DataType::kBf16, DataType::kF32},
      {DataType::kTf32, DataType::kF32},  {DataType::kInt8, DataType::kInt32},
      {DataType::kInt8, DataType::kF32},  {DataType::kFp8E4M3, DataType::kBf16}};
  for (const auto& [type, output_type] : types) {
    std::string fault;
    int count = 0;
    for (const Problem& problem : SmallProblems(type, output_type)) {
      fault = Compute(&gpu, problem, static_cast<std::uint32_t>(++count));
      if (!fault.empty()) break;
    }
    report->Add(absl::StrCat(count, " small problems ", Name(type), " -> ", Name(output_type)),
                fault);
    // Operands of 8 MiB and more.
    Problem large = MakeProblem(5000, 60, 1100, type, output_type, true);
    report->Add("in panels of M: " + ToString(large), Compute(&gpu, large, 1));
    large = MakeProblem(60, 5100, 1100, type, output_type, false, true);
    report->Add("in panels of N: " + ToString(large), Compute(&gpu, large, 2));
  }
}

}  // namespace gemmd::testing
