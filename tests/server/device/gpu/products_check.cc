#include <string>
#include <utility>

#include "tests/server/device/gpu/checks.h"
#include "tests/server/device/gpu/served_gpu.h"

namespace gemmd::testing {
namespace {

std::string Compute(ServedGpu* gpu, const Problem& problem, std::uint32_t seed) {
  Operands operands(problem, Distribution::kNormal, seed);
  const DeviceWork work = MakeWork(gpu, problem, &operands);
  Ends ends;
  gpu->device->Submit(work, ends.Expect());
  ends.WaitFor(0);
  if (!ends.status().ok()) return ends.status().ToString();
  CopyOut(work.buffers.d, &operands.d);
  return CompareWithReference(problem, operands);
}

}  // namespace

void CheckProducts(GpuReport* report) {
  const SteadyClock clock;
  ServedGpu gpu = ServeGpu(0, &clock);
  const std::pair<DataType, DataType> types[] = {
      {DataType::kF64, DataType::kF64},   {DataType::kF32, DataType::kF32},
      {DataType::kF16, DataType::kF16},   {DataType::kF16, DataType::kF32},
      {DataType::kBf16, DataType::kBf16}, {DataType::kBf16, DataType::kF32},
      {DataType::kInt8, DataType::kInt32}};
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
