#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "tests/server/device/gpu/batches.h"
#include "tests/server/device/gpu/checks.h"

namespace gemmd::testing {
namespace {

std::string Bytes(const HostBuffer& buffer) {
  std::string bytes;
  for (const HostPiece& piece : buffer) bytes.append(piece.data, piece.size_bytes);
  return bytes;
}

// The launch's end; `d` of each work holds its result.
void Finish(ServedGpu* gpu, DeviceLaunch launch) {
  Ends ends;
  gpu->device->Submit(std::move(launch), ends.Expect());
  ends.WaitFor(0);
  Require(ends.status(), "launch");
}

// Each work alone, then the launches that `batch` makes of them: the same bytes.
template <typename MakeBatch>
std::string Compare(ServedGpu* gpu, std::vector<DeviceWork> works, std::mt19937* random,
                    const MakeBatch& batch) {
  std::vector<std::string> alone;
  for (const DeviceWork& work : works) {
    Finish(gpu, work);
    alone.push_back(Bytes(work.buffers.d));
  }
  for (int repeat = 0; repeat < 3; ++repeat) {
    std::vector<std::size_t> order(works.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), *random);
    std::vector<DeviceWork> shuffled;
    for (const std::size_t i : order) {
      for (const HostPiece& piece : works[i].buffers.d)
        std::memset(piece.data, 0xA5, piece.size_bytes);
      shuffled.push_back(works[i]);
    }
    batch(std::move(shuffled));
    for (std::size_t i = 0; i < works.size(); ++i) {
      if (Bytes(works[i].buffers.d) != alone[i]) {
        return absl::StrCat(ToString(works[i].problem), " differs, ",
                            works[i].plan.kernel->traits().name);
      }
    }
  }
  return "";
}

std::string CheckRowsOf(ServedGpu* gpu, DataType type, std::mt19937* random) {
  for (int round = 0; round < 12; ++round) {
    const std::int64_t n = 8 * (1 + static_cast<std::int64_t>((*random)() % 200));
    const std::int64_t k = 8 * (1 + static_cast<std::int64_t>((*random)() % 300));
    Problem shape = MakeProblem(1, n, k, type, type, false, round % 2 == 0);
    const Operands weights(shape, Distribution::kNormal, (*random)());
    const auto b = StoreB(gpu, shape, weights);
    std::vector<HostPiece> kept;
    std::vector<DeviceWork> works;
    for (int i = 0; i < 1 + round * 3; ++i) {
      const auto m = static_cast<std::int64_t>(i % 2 == 0 ? 1 : 1 + (*random)() % 9);
      const Problem problem = MakeProblem(m, n, k, type, type, false, shape.transpose_b);
      const Operands rows(problem, Distribution::kNormal, (*random)());
      works.push_back(RowsWork(gpu, problem, rows.a.data(), b, &kept));
    }
    const std::string fault =
        Compare(gpu, std::move(works), random,
                [gpu](std::vector<DeviceWork> batch) { Finish(gpu, Join(gpu, std::move(batch))); });
    if (!fault.empty()) return fault;
  }
  return "";
}

std::string CheckGroups(ServedGpu* gpu, std::mt19937* random) {
  std::vector<std::unique_ptr<Operands>> kept;
  std::vector<DeviceWork> works;
  for (int i = 0; i < 24; ++i) {
    const auto size = [random] { return 8 * (1 + static_cast<std::int64_t>((*random)() % 12)); };
    const DataType type = i % 2 == 0 ? DataType::kBf16 : DataType::kF16;
    Problem problem =
        MakeProblem(size() - i % 3, size(), size(), type, type, i % 5 == 0, i % 4 == 0);
    problem.epilogue.has_bias = i % 3 == 0;
    problem.epilogue.beta = i % 7 == 0 ? 0.5 : 0;
    kept.push_back(std::make_unique<Operands>(problem, Distribution::kNormal, (*random)()));
    works.push_back(MakeWork(gpu, problem, kept.back().get()));
  }
  return Compare(gpu, std::move(works), random, [gpu](std::vector<DeviceWork> batch) {
    Finish(gpu, DeviceLaunch::Group(std::move(batch)));
  });
}

std::string CheckSlices(ServedGpu* gpu, std::mt19937* random) {
  for (const auto& [m, n] : {std::pair<int, int>{24000, 2056}, {2000, 24600}}) {
    const Problem problem = MakeProblem(m, n, 1000, DataType::kBf16, DataType::kBf16);
    Operands operands(problem, Distribution::kNormal, (*random)());
    const DeviceWork work = MakeWork(gpu, problem, &operands);
    const std::string fault =
        Compare(gpu, {work}, random, [gpu](const std::vector<DeviceWork>& works) {
          const auto sliced = gpu->device->Cut(works.front(), works.front().plan.predicted_us / 3);
          if (sliced == nullptr) Require(absl::InternalError("no slices"), "Cut");
          for (int i = 0; i < sliced->slices(); ++i) Finish(gpu, DeviceLaunch::Slice(sliced, i));
        });
    if (!fault.empty()) return fault;
  }
  return "";
}

}  // namespace

void CheckBatches(GpuReport* report) {
  const SteadyClock clock;
  ServedGpu gpu = ServeGpu(0, &clock);
  std::mt19937 random(1);
  report->Add("rows in batches: bits of bf16", CheckRowsOf(&gpu, DataType::kBf16, &random));
  report->Add("rows in batches: bits of f16", CheckRowsOf(&gpu, DataType::kF16, &random));
  report->Add("groups of mixed shapes: bits", CheckGroups(&gpu, &random));
  report->Add("slices: bits", CheckSlices(&gpu, &random));
  const MemoryUsage usage = gpu.device->memory().usage();
  report->Add("bytes of the device held afterwards",
              usage.free_bytes() == usage.limit_bytes ? "" : "not zero");
}

}  // namespace gemmd::testing
