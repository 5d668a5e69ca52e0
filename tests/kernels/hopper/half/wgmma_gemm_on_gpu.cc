// The Hopper GEMM on this machine's GPU. Not a test: it needs one.
//   check   every entry, type, layout and epilogue on small shapes: bits as the emulator's
//   ragged  lines of every pitch: bits as the emulator's
//   bits    rows have the same bits for every M and entry
//   orders  every order of tiles, by place too: the same bits
//   order   launches that overlap the one before them see what came before, over two streams too
//   turn    launches of settled operands write D in their order
// Without arguments: all, one after another. Build with
//   bazel build --config=h200 --config=opt //tests/kernels/hopper/half:wgmma_gemm_on_gpu
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tests/kernels/hopper/half/hopper_run.h"
#include "tests/kernels/mma/gpu_matrix.h"
#include "tests/testing/h200.h"

namespace gemmd::testing {
namespace {

// Planes of a run on the GPU. D begins with the poison that the host's plane has.
class OnGpu {
 public:
  explicit OnGpu(HopperRun* run) : run_(*run) {
    arguments_.a = Put(run->a_plane.data(), run->problem.a.size_bytes());
    arguments_.b = Put(run->b_plane.data(), run->problem.b.size_bytes());
    arguments_.c = Put(run->c_plane.data(), run->problem.c.size_bytes());
    arguments_.bias = Put(run->bias.data(), run->bias.size());
    arguments_.d = Put(run->d_plane.data(), run->problem.d.size_bytes());
  }

  // Empty, or why not. D is then in the run's plane.
  std::string Launch(const char* name) {
    const Kernel* const kernel = BuiltinRegistry().Find(name);
    const Config config = kernel->Configure(run_.problem, H200());
    const std::uint64_t workspace_bytes = kernel->WorkspaceBytes(run_.problem, config);
    if (workspace_bytes != 0) {
      const std::vector<unsigned char> poison(workspace_bytes, 0x7f);
      arguments_.workspace = Put(poison.data(), workspace_bytes);
    }
    const absl::Status status = kernel->Launch(run_.problem, config, arguments_, LaunchTarget());
    if (!status.ok()) return status.ToString();
    const cudaError_t error = cudaDeviceSynchronize();
    if (error != cudaSuccess) return cudaGetErrorString(error);
    CheckCuda(cudaMemcpy(run_.d_plane.data(), arguments_.d, run_.problem.d.size_bytes(),
                         cudaMemcpyDeviceToHost),
              "cudaMemcpy");
    return "";
  }

 private:
  void* Put(const void* from, std::uint64_t bytes) {
    planes_.push_back(std::make_unique<GpuMatrix>(bytes));
    planes_.back()->Put(from);
    return planes_.back()->data();
  }

  HopperRun& run_;
  std::vector<std::unique_ptr<GpuMatrix>> planes_;
  Arguments arguments_;
};

void Fail(const char* name, const HopperRun& run, const std::string& why, int* failures) {
  ++*failures;
  if (*failures > 40) return;
  std::printf("FAIL %s %s: %s\n", name, ToString(run.problem).c_str(), why.c_str());
  std::fflush(stdout);
}

float Activated(Activation activation, float value) {
  if (activation == Activation::kRelu) return value < 0 ? 0 : value;
  if (activation == Activation::kSilu) return value / (1 + std::exp(-value));
  if (activation == Activation::kGeluTanh) {
    return 0.5F * value *
           (1 + std::tanh(0.79788456080286535588F * (value + 0.044715F * value * value * value)));
  }
  return value;
}

// D after an epilogue against the epilogue of the entry's own sums. Without an activation, or
// with relu, bit for bit; else within the last bits that the GPU's tanh and exp may differ in.
void CheckEpilogues(const char* name, DataType type, int* runs, int* failures) {
  for (const Order order : {Order::kRowMajor, Order::kColumnMajor}) {
    HopperCase c = {217, 331, 200, type, false, order == Order::kRowMajor};
    c.d_order = order;
    c.writes_f32 = true;
    HopperRun sums(c);
    if (!BuiltinRegistry().Find(name)->Rejection(sums.problem).empty()) continue;
    std::string why = OnGpu(&sums).Launch(name);
    if (!why.empty()) Fail(name, sums, why, failures);
    for (int which = 0; which < 8; ++which) {
      c.writes_f32 = which % 2 == 1;
      c.epilogue = {0.5, -1.5, true, static_cast<Activation>(which / 2)};
      HopperRun run(c);
      ++*runs;
      why = OnGpu(&run).Launch(name);
      double worst = 0;
      for (std::int64_t row = 0; row < c.m; ++row) {
        for (std::int64_t column = 0; column < c.n; ++column) {
          float value = 0.5F * sums.d_plane.Get<float>(row, column);
          value += -1.5F * (static_cast<float>((row * 3 + column) % 11) / 4 - 1);
          value += static_cast<float>(column % 7) - 3;
          value = Activated(c.epilogue.activation, value);
          const float got = c.writes_f32
                                ? run.d_plane.Get<float>(row, column)
                                : emulator::Widen(FormatOf(FormOf(type)),
                                                  run.d_plane.Get<std::uint16_t>(row, column));
          const double unit = c.writes_f32 ? 0x1p-20 : type == DataType::kBf16 ? 0x1p-8 : 0x1p-11;
          const double error =
              std::fabs(got - value) / (unit * (std::fabs(value) + (c.writes_f32 ? 1 : 1e-3)));
          worst = std::isnan(error) ? INFINITY : std::max(worst, error);
        }
      }
      if (why.empty() && !(worst <= 1.01)) why = "epilogue off by " + std::to_string(worst);
      if (why.empty() && !run.d_plane.IsPaddingUntouched()) why = "wrote into the padding of D";
      if (!why.empty()) Fail(name, run, why, failures);
    }
  }
}

int Check() {
  constexpr std::int64_t kShapes[][3] = {{1, 1, 1},      {77, 131, 333},  {300, 264, 72},
                                         {520, 40, 200}, {16, 1000, 128}, {129, 515, 1031}};
  int runs = 0;
  int failures = 0;
  std::map<std::tuple<int, int>, std::vector<std::uint16_t>> expected;
  for (const DataType type : {DataType::kBf16, DataType::kF16}) {
    for (int shape = 0; shape < 6; ++shape) {
      for (int which = 0; which < 16; ++which) {
        HopperCase c = {kShapes[shape][0], kShapes[shape][1], kShapes[shape][2], type,
                        (which & 1) != 0,  (which & 2) == 0,  (which & 8) != 0};
        c.d_order = (which & 4) != 0 ? Order::kColumnMajor : Order::kRowMajor;
        std::unique_ptr<HopperRun> run;
        for (const char* name : kHopperEntries) {
          if (!BuiltinRegistry().Find(name)->Rejection(MakeHopperProblem(c)).empty()) continue;
          run = std::make_unique<HopperRun>(c);
          std::vector<std::uint16_t>& bits = expected[{static_cast<int>(type), shape}];
          if (bits.empty()) bits = ExactProduct(FormOf(type), run->a, run->b, false);
          ++runs;
          std::string why = OnGpu(run.get()).Launch(name);
          const std::int64_t wrong = run->CountDifferentFrom(bits);
          if (why.empty() && wrong != 0) why = std::to_string(wrong) + " elements differ";
          if (why.empty() && !run->d_plane.IsPaddingUntouched()) why = "wrote into D's padding";
          if (!why.empty()) Fail(name, *run, why, &failures);
        }
      }
    }
    for (const char* name : kHopperEntries) CheckEpilogues(name, type, &runs, &failures);
  }
  std::printf("check: %d runs of %zu entries, %d failures\n", runs,
              sizeof(kHopperEntries) / sizeof(kHopperEntries[0]), failures);
  return failures;
}

// Lines of every pitch.
int Ragged() {
  constexpr std::int64_t kShapes[][3] = {{1, 1, 1},      {5, 3, 70},      {77, 131, 333},
                                         {300, 264, 71}, {257, 129, 513}, {130, 260, 901}};
  int runs = 0;
  int failures = 0;
  for (const DataType type : {DataType::kBf16, DataType::kF16}) {
    for (const auto& shape : kShapes) {
      for (int gap = -1; gap < 8; ++gap) {
        HopperCase c = {shape[0], shape[1], shape[2], type, false, true};
        c.gap = gap;
        for (const char* name : {"sm90/ragged256x128", "sm90/ragged64x64"}) {
          HopperRun run(c);
          ++runs;
          std::string why = OnGpu(&run).Launch(name);
          if (why.empty() && run.CountWrong() != 0) why = "wrong bits";
          if (why.empty() && !run.d_plane.IsPaddingUntouched()) why = "wrote into D's padding";
          if (!why.empty()) Fail(name, run, why + ", gap " + std::to_string(gap), &failures);
        }
      }
    }
  }
  std::printf("ragged: %d runs, %d failures\n", runs, failures);
  return failures;
}

// ------------------------------------------------------------ large operands

struct Large {
  Large(std::int64_t m, std::int64_t n, std::int64_t k, DataType type)
      : problem(MakeHopperProblem({m, n, k, type, false, true})),
        a(problem.a.size_bytes()),
        b(problem.b.size_bytes()),
        d(problem.d.size_bytes()) {
    Fill(&a, 11, type);
    Fill(&b, 12, type);
    arguments.a = a.data();
    arguments.b = b.data();
    arguments.d = d.data();
  }

  static void Fill(GpuMatrix* to, std::uint32_t seed, DataType type) {
    // Normally distributed, repeated with a period that no leading dimension divides.
    HalfMatrix table(1, 99991);
    table.FillRandom(FormatOf(FormOf(type)), seed);
    std::vector<std::uint16_t> all(to->bytes() / 2);
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = table.At(0, static_cast<std::int64_t>(i % 99991));
    }
    to->Put(all.data());
  }

  std::string Launch(const char* name, std::int64_t rows, CUstream_st* stream = nullptr) {
    Problem part = problem;
    part.m = part.a.rows = part.c.rows = part.d.rows = rows;
    return Launch(name, part, BuiltinRegistry().Find(name)->Configure(part, H200()), stream);
  }
  std::string Launch(const char* name, const Problem& part, const Config& config,
                     CUstream_st* stream = nullptr) {
    LaunchTarget target;
    target.stream = stream;
    const absl::Status status =
        BuiltinRegistry().Find(name)->Launch(part, config, arguments, target);
    return status.ok() ? "" : status.ToString();
  }

  std::vector<unsigned char> Result() const {
    std::vector<unsigned char> bytes(d.bytes());
    d.Get(bytes.data());
    return bytes;
  }

  Problem problem;
  GpuMatrix a;
  GpuMatrix b;
  GpuMatrix d;
  Arguments arguments;
};

int Bits() {
  int runs = 0;
  int failures = 0;
  for (const DataType type : {DataType::kBf16, DataType::kF16}) {
    for (const auto& [n, k] : {std::pair<int, int>{1000, 4111}, {8192, 8192}}) {
      Large large(512, n, k, type);
      std::string why = large.Launch(kHopperEntries[0], 512);
      CheckCuda(cudaDeviceSynchronize(), "bits");
      const std::vector<unsigned char> whole = large.Result();
      const std::size_t line = static_cast<std::size_t>(large.problem.d.leading_dimension) * 2;
      for (const char* name : kHopperEntries) {
        for (const std::int64_t m : {1, 2, 7, 8, 9, 16, 31, 63, 64, 65, 77, 128, 129, 300, 512}) {
          CheckCuda(cudaMemset(large.d.data(), 0xff, large.d.bytes()), "cudaMemset");
          why = large.Launch(name, m);
          CheckCuda(cudaDeviceSynchronize(), name);
          const std::vector<unsigned char> part = large.Result();
          std::int64_t different = 0;
          for (std::size_t row = 0; row < static_cast<std::size_t>(m); ++row) {
            different += std::memcmp(&part[row * line], &whole[row * line],
                                     static_cast<std::size_t>(n) * 2) != 0;
          }
          ++runs;
          if (different == 0 && why.empty()) continue;
          ++failures;
          std::printf("FAIL bits %s M %ld N %d K %d: %ld rows differ %s\n", name,
                      static_cast<long>(m), n, k, static_cast<long>(different), why.c_str());
        }
      }
    }
  }
  std::printf(
      "bits: %d runs (every entry, M of 1 to 512) against one product of 512 rows, %d differ\n",
      runs, failures);
  return failures;
}

// Every config that measuring tries, and some that it does not, against the first one's bits.
int Orders() {
  int runs = 0;
  int failures = 0;
  for (const auto& [m, n, k] : {std::tuple<int, int, int>{4096, 24576, 192},
                                {8192, 8192, 128},
                                {3000, 5000, 192},
                                {600, 9000, 64}}) {
    Large large(m, n, k, DataType::kBf16);
    std::vector<unsigned char> whole;
    for (const char* name : kHopperEntries) {
      std::vector<Config> configs =
          BuiltinRegistry().Find(name)->Alternatives(large.problem, H200());
      configs.push_back(configs[0]);
      configs.back().by_place = 1;
      for (const Config& config : configs) {
        CheckCuda(cudaMemset(large.d.data(), 0xff, large.d.bytes()), "cudaMemset");
        std::string why = large.Launch(name, large.problem, config);
        CheckCuda(cudaDeviceSynchronize(), name);
        const std::vector<unsigned char> bits = large.Result();
        if (whole.empty()) whole = bits;
        ++runs;
        if (why.empty() && bits == whole) continue;
        ++failures;
        std::printf("FAIL orders %s %dx%dx%d %s: %s\n", name, m, n, k, ToString(config).c_str(),
                    why.empty() ? "other bits" : why.c_str());
      }
    }
  }
  std::printf("orders: %d runs, %d differ\n", runs, failures);
  return failures;
}

// Chains of products in one stream, each the operand of the next: a launch that began early
// must still see the whole result of the one before. Then the same with a copy in another
// stream between them, ordered by events.
int InOrder() {
  constexpr std::int64_t kSize = 2048;
  constexpr int kLinks = 16;  // even; elements grow 45 times a link
  int failures = 0;
  int runs = 0;
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) {
    CheckCuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  cudaEvent_t done[2];
  for (cudaEvent_t& event : done) CheckCuda(cudaEventCreate(&event), "cudaEventCreate");
  for (const char* name : kHopperEntries) {
    Large large(kSize, kSize, kSize, DataType::kBf16);
    GpuMatrix operands[2] = {GpuMatrix(large.a.bytes()), GpuMatrix(large.a.bytes())};
    std::vector<unsigned char> results[5];
    // One at a time; overlapping; over two streams; overlapping, and B is loaded ahead; over two
    // streams, and nothing but D waits.
    for (int mode = 0; mode < 5; ++mode) {
      const bool is_over_two = mode == 2 || mode == 4;
      CheckCuda(
          cudaMemcpy(operands[0].data(), large.a.data(), large.a.bytes(), cudaMemcpyDeviceToDevice),
          "cudaMemcpy");
      CheckCuda(cudaDeviceSynchronize(), "copy");
      large.arguments.a_is_settled = mode == 4;
      large.arguments.b_is_settled = mode >= 3;
      for (int link = 0; link < kLinks; ++link) {
        large.arguments.a = operands[is_over_two ? 0 : link % 2].data();
        large.arguments.d = operands[is_over_two ? 1 : (link + 1) % 2].data();
        const std::string why = large.Launch(name, kSize, streams[0]);
        if (!why.empty()) std::printf("FAIL %s\n", why.c_str());
        if (mode == 0) CheckCuda(cudaStreamSynchronize(streams[0]), name);
        if (!is_over_two) continue;
        CheckCuda(cudaEventRecord(done[0], streams[0]), "record");
        CheckCuda(cudaStreamWaitEvent(streams[1], done[0], 0), "wait");
        CheckCuda(cudaMemcpyAsync(operands[0].data(), operands[1].data(), large.a.bytes(),
                                  cudaMemcpyDeviceToDevice, streams[1]),
                  "copy");
        CheckCuda(cudaEventRecord(done[1], streams[1]), "record");
        // Something of its own in between, so that the launch before is a kernel.
        CheckCuda(cudaStreamWaitEvent(streams[0], done[1], 0), "wait");
      }
      CheckCuda(cudaDeviceSynchronize(), name);
      results[mode].resize(large.a.bytes());
      operands[is_over_two ? 1 : kLinks % 2].Get(results[mode].data());
    }
    for (int mode = 1; mode < 5; ++mode) {
      ++runs;
      if (results[mode] == results[0]) continue;
      ++failures;
      std::printf("FAIL order %s: %s gives other bits\n", name,
                  mode == 2   ? "over two streams"
                  : mode == 1 ? "overlapping"
                  : mode == 3 ? "B ahead"
                              : "over two streams, all ahead");
    }
  }
  std::printf("order: %d chains of %d products, %d differ from one at a time\n", runs, kLinks,
              failures);
  return failures;
}

// Products of settled operands into one D, a long one ahead of a short one: the short one is done
// with its sums first, and D must still be its own.
int InTurn() {
  constexpr int kRepeats = 50;
  int failures = 0;
  int runs = 0;
  cudaStream_t stream;
  CheckCuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  for (const auto& [m, n] : {std::pair<int, int>{64, 1024}, {512, 512}, {1024, 4096}}) {
    Large slow(m, n, 16384, DataType::kBf16);
    Large quick(m, n, 64, DataType::kBf16);
    for (const char* name : kHopperEntries) {
      std::string why = quick.Launch(name, m, stream);
      CheckCuda(cudaStreamSynchronize(stream), name);
      const std::vector<unsigned char> expected = quick.Result();
      for (int repeat = 0; repeat < kRepeats && why.empty(); ++repeat) {
        Arguments arguments = slow.arguments;
        slow.arguments.d = quick.arguments.d;
        for (Large* each : {&slow, &quick}) {
          each->arguments.a_is_settled = each->arguments.b_is_settled = true;
          if (why.empty()) why = each->Launch(name, m, stream);
        }
        slow.arguments = arguments;
        ++runs;
        CheckCuda(cudaStreamSynchronize(stream), name);
        if (why.empty() && quick.Result() != expected) why = "D is of the launch ahead";
      }
      if (why.empty()) continue;
      ++failures;
      std::printf("FAIL turn %s M %d N %d: %s\n", name, m, n, why.c_str());
    }
  }
  std::printf("turn: %d pairs of launches, %d entries wrong\n", runs, failures);
  return failures;
}

}  // namespace
}  // namespace gemmd::testing

int main(int argc, char** argv) {
  const std::string only = argc > 1 ? argv[1] : "";
  int failures = 0;
  if (only.empty() || only == "check") failures += gemmd::testing::Check();
  std::fflush(stdout);
  if (only.empty() || only == "ragged") failures += gemmd::testing::Ragged();
  std::fflush(stdout);
  if (only.empty() || only == "bits") failures += gemmd::testing::Bits();
  std::fflush(stdout);
  if (only.empty() || only == "orders") failures += gemmd::testing::Orders();
  std::fflush(stdout);
  if (only.empty() || only == "order") failures += gemmd::testing::InOrder();
  std::fflush(stdout);
  if (only.empty() || only == "turn") failures += gemmd::testing::InTurn();
  return failures == 0 ? 0 : 1;
}
