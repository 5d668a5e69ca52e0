// Groups of rows by the Hopper GEMM on this machine's GPU. Not a test: it needs one.
//   check                      every entry that takes groups: the bits of each group alone
//   time [EXPERTS [TOKENS]]    one launch by each entry, and a launch for each group by its plan
// Without arguments: both. Build with
//   bazel build --config=h200 --config=opt //tests/kernels/hopper/half:wgmma_groups_on_gpu
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/kernels/hopper/half/hopper_groups.h"
#include "tests/kernels/mma/gpu_matrix.h"
#include "tests/kernels/mma/graph_time.h"
#include "tests/testing/h200.h"

namespace gemmd::testing {
namespace {

void Succeed(const absl::Status& status) {
  if (!status.ok()) std::printf("FAIL %s\n", status.ToString().c_str());
}

// The arenas of groups, copied to the GPU.
struct GroupsOnGpu {
  explicit GroupsOnGpu(HopperGroups* groups)
      : a(groups->a.size()),
        b(groups->b.size()),
        c(groups->c_plane.size()),
        bias(groups->bias.size()),
        d(groups->d.size()) {
    a.Put(groups->a.data());
    b.Put(groups->b.data());
    c.Put(groups->c_plane.data());
    bias.Put(groups->bias.data());
  }
  Arguments arguments() const {
    Arguments all;
    all.a = a.data();
    all.b = b.data();
    all.c = c.data();
    all.bias = bias.data();
    all.d = d.data();
    return all;
  }
  GpuMatrix a, b, c, bias, d;
};

int Check() {
  std::mt19937 random(5);
  int runs = 0;
  int failures = 0;
  for (int round = 0; round < 60; ++round) {
    const auto draw = [&](int most) { return static_cast<std::int64_t>(random() % most) + 1; };
    HopperCase c = {draw(1500), draw(700), draw(900), DataType::kBf16, false, round % 2 == 0};
    if (round % 3 == 0) c.type = DataType::kF16;
    if (round % 4 == 0) c.epilogue = {0.5, -1.5, true, Activation::kRelu};
    c.writes_f32 = round % 5 == 0;
    const int count = static_cast<int>(round % 7 == 0 ? draw(1500) : draw(64));
    HopperGroups groups(c, DrawEnds(c.m, count, &random));
    GroupsOnGpu gpu(&groups);
    const auto result = [&] {
      CheckCuda(cudaDeviceSynchronize(), "launch");
      std::vector<unsigned char> bytes(gpu.d.bytes());
      gpu.d.Get(bytes.data());
      gpu.d.Put(groups.d.data());
      return bytes;
    };
    gpu.d.Put(groups.d.data());
    for (std::size_t i = 0; i < groups.row_ends.size(); ++i) {
      const Problem alone = groups.ProblemOf(i);
      if (alone.m == 0) continue;
      const absl::StatusOr<Plan> plan = Select(BuiltinRegistry(), alone, H200());
      Succeed(plan->kernel->Launch(alone, plan->config, groups.ArgumentsOf(i, gpu.arguments()),
                                   LaunchTarget()));
    }
    const std::vector<unsigned char> expected = result();
    for (const char* name : GroupEntries()) {
      const Kernel& kernel = *BuiltinRegistry().Find(name);
      if (!kernel.TakesGroups(groups.problem, groups.groups().b_step)) continue;
      if (!kernel.Rejection(groups.problem).empty()) continue;
      Arguments arguments = gpu.arguments();
      arguments.a_is_settled = arguments.b_is_settled = round % 2 == 1;
      const absl::Status status =
          kernel.LaunchGroups(groups.problem, kernel.Configure(groups.problem, H200()),
                              groups.groups(), arguments, LaunchTarget());
      ++runs;
      if (result() == expected && status.ok()) continue;
      ++failures;
      std::printf("FAIL groups %s %s, %d groups: %s\n", name, ToString(groups.problem).c_str(),
                  count, status.ok() ? "other bits" : status.ToString().c_str());
    }
  }
  std::printf("groups check: %d runs, %d differ from groups alone\n", runs, failures);
  return failures;
}

// Fills memory with normal bf16 values, a table of them again and again.
void FillNormal(const GpuMatrix& to, std::mt19937* random) {
  constexpr std::size_t kEntries = 4999999;
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> table(kEntries);
  for (std::uint16_t& each : table) {
    each = emulator::Narrow(emulator::HalfFormat::kBf16, normal(*random));
  }
  for (std::uint64_t at = 0; at < to.bytes(); at += 2 * kEntries) {
    CheckCuda(
        cudaMemcpy(static_cast<char*>(to.data()) + at, table.data(),
                   std::min<std::uint64_t>(2 * kEntries, to.bytes() - at), cudaMemcpyHostToDevice),
        "fill");
  }
}

// Where experts' tokens end: as many for each, or by Zipf's law.
std::vector<std::int64_t> EndsOf(std::int64_t tokens, int experts, bool is_skewed) {
  std::vector<double> weights;
  for (int i = 0; i < experts; ++i) weights.push_back(is_skewed ? 1.0 / (i + 1) : 1.0);
  double sum = 0;
  for (const double weight : weights) sum += weight;
  std::vector<std::int64_t> ends;
  double part = 0;
  for (const double weight : weights) {
    part += weight / sum;
    ends.push_back(static_cast<std::int64_t>(std::llround(part * static_cast<double>(tokens))));
  }
  ends.back() = tokens;
  return ends;
}

void Time(const std::vector<int>& counts, const std::vector<std::int64_t>& all_tokens) {
  constexpr std::int64_t kN = 14336;
  constexpr std::int64_t kK = 4096;
  std::mt19937 random(7);
  cudaStream_t stream;
  CheckCuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  LaunchTarget target;
  target.stream = stream;
  std::printf("experts tokens spread: us of each entry; of launches by their plans; the choice\n");
  for (const int experts : counts) {
    const std::int64_t step = 2 * kN * kK;
    GpuMatrix b(static_cast<std::uint64_t>(step) * static_cast<std::uint64_t>(experts));
    FillNormal(b, &random);
    for (const std::int64_t tokens : all_tokens) {
      GpuMatrix a(static_cast<std::uint64_t>(2 * tokens * kK));
      GpuMatrix d(static_cast<std::uint64_t>(2 * tokens * kN));
      FillNormal(a, &random);
      for (const bool is_skewed : {false, true}) {
        const std::vector<std::int64_t> ends = EndsOf(tokens, experts, is_skewed);
        const RowGroups groups = {ends, step, 0};
        const Problem problem =
            MakeProblem(tokens, kN, kK, DataType::kBf16, DataType::kBf16, false, true);
        Arguments arguments;
        arguments.a = a.data();
        arguments.b = b.data();
        arguments.d = d.data();
        arguments.a_is_settled = arguments.b_is_settled = true;
        std::printf("%d %ld %s:", experts, static_cast<long>(tokens),
                    is_skewed ? "skewed" : "even");
        for (const char* name : GroupEntries()) {
          const Kernel& kernel = *BuiltinRegistry().Find(name);
          const Config config = kernel.Configure(problem, H200());
          const double us = GraphUs(stream, [&] {
            Succeed(kernel.LaunchGroups(problem, config, groups, arguments, target));
          });
          std::printf(" %s %.1f", name + 5, us);
        }
        std::string numerics_id;
        const double own = GraphUs(stream, [&] {
          std::int64_t begin = 0;
          for (std::size_t i = 0; i < ends.size(); ++i) {
            Problem alone = problem;
            alone.m = alone.a.rows = alone.c.rows = alone.d.rows = ends[i] - begin;
            Arguments at = arguments;
            at.a = static_cast<const char*>(arguments.a) + 2 * begin * kK;
            at.b = static_cast<const char*>(arguments.b) + static_cast<std::int64_t>(i) * step;
            at.d = static_cast<char*>(arguments.d) + 2 * begin * kN;
            begin = ends[i];
            if (alone.m == 0) continue;
            const absl::StatusOr<Plan> plan = Select(BuiltinRegistry(), alone, H200());
            numerics_id = plan->numerics_id;
            Succeed(plan->kernel->Launch(alone, plan->config, at, target));
          }
        });
        const std::optional<Plan> chosen =
            SelectForGroups(BuiltinRegistry(), problem, groups, H200(), "", numerics_id);
        std::printf(" | own %.1f | %s %s predicted %.1f\n", own,
                    chosen.has_value() ? chosen->kernel->traits().name.c_str() : "none",
                    chosen.has_value() ? ToString(chosen->config).c_str() : "",
                    chosen.has_value() ? chosen->predicted_us : 0.0);
        std::fflush(stdout);
      }
    }
  }
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace gemmd::testing

int main(int argc, char** argv) {
  const std::string only = argc > 1 ? argv[1] : "";
  int failures = 0;
  if (only.empty() || only == "check") failures += gemmd::testing::Check();
  std::fflush(stdout);
  if (only.empty() || only == "time") {
    std::vector<int> experts = {8, 64};
    std::vector<std::int64_t> tokens = {8, 64, 512, 2048, 8192};
    if (argc > 2) experts = {std::atoi(argv[2])};
    if (argc > 3) tokens = {std::atol(argv[3])};
    gemmd::testing::Time(experts, tokens);
  }
  return failures == 0 ? 0 : 1;
}
