// Batches of small products on this machine's GPU. Not a test: it needs one.
//   check   every case of the test: the bits of launches one by one
//   time    batches of squares beside cublasGemmStridedBatchedEx, device time by graphs
//   few     batches of few products beside launches one by one, which TakesBatch() is held to
// Without arguments: all of them. LD_LIBRARY_PATH names the folder of libcublas.so.13. Build with
//   bazel build --config=h200 --config=opt //tests/kernels/hopper/small:small_batch_on_gpu
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kernels/gemm.h"
#include "tests/kernels/hopper/half/batch_on_gpu.h"
#include "tests/kernels/hopper/small/small_batch.h"
#include "tests/kernels/mma/gpu_matrix.h"
#include "tests/kernels/mma/graph_time.h"
#include "tests/testing/h200.h"

namespace gemmd::testing {
namespace {

void CheckStatus(const absl::Status& status) {
  if (status.ok()) return;
  std::printf("FAIL %s\n", status.ToString().c_str());
  std::exit(1);
}

bool HasBitsOfLaunchesOneByOne(const SmallCase& c, int problems, Spacing spacing) {
  SmallBatch batch(c, problems, spacing);
  const Kernel* const kernel = FamilyOf(batch.problem);
  if (kernel == nullptr) return true;
  BatchOnGpu gpu(&batch);
  const Config config = kernel->Configure(batch.problem, H200());
  const GpuMatrix workspace(kernel->WorkspaceBytes(batch.problem, config) + 256);
  for (Arguments arguments : gpu.arguments()) {
    arguments.workspace = workspace.data();
    CheckStatus(kernel->Launch(batch.problem, config, arguments, {}));
  }
  CheckCuda(cudaDeviceSynchronize(), "launches one by one");
  const std::vector<unsigned char> expected = gpu.Result();
  gpu.Poison();
  CheckStatus(kernel->LaunchBatch(batch.problem, config, gpu.arguments(), {}));
  CheckCuda(cudaDeviceSynchronize(), "a batch");
  if (gpu.Result() == expected) return true;
  std::printf("FAIL other bits: %s, %d problems, spacing %d\n", ToString(batch.problem).c_str(),
              problems, static_cast<int>(spacing));
  return false;
}

int Check() {
  int runs = 0;
  int failures = 0;
  for (const DataType type : {DataType::kBf16, DataType::kF16, DataType::kF32, DataType::kF64}) {
    for (const SmallCase& c : SmallCases(type)) {
      for (const Spacing spacing : {Spacing::kEqual, Spacing::kScattered, Spacing::kSharedA}) {
        for (const int problems : {2, 7, 300}) {
          ++runs;
          if (!HasBitsOfLaunchesOneByOne(c, problems, spacing)) ++failures;
        }
      }
    }
  }
  std::printf("check: %d batches, %d differ from launches one by one\n", runs, failures);
  return failures;
}

// cuBLAS, opened from where LD_LIBRARY_PATH says.
class Cublas {
 public:
  explicit Cublas(cudaStream_t stream) : library_(dlopen("libcublas.so.13", RTLD_NOW)) {
    if (library_ == nullptr) return;
    Find<decltype(&cublasCreate_v2)>("cublasCreate_v2")(&handle_);
    Find<decltype(&cublasSetStream_v2)>("cublasSetStream_v2")(handle_, stream);
    using Gemm =
        cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                           const void*, const void*, cudaDataType, int, long long, const void*,
                           cudaDataType, int, long long, const void*, void*, cudaDataType, int,
                           long long, int, cublasComputeType_t, cublasGemmAlgo_t);
    gemm_ = Find<Gemm>("cublasGemmStridedBatchedEx");
  }

  bool is_open() const { return library_ != nullptr; }

  // D = A * B of row-major squares, as D' = B' * A' of column-major ones.
  void Multiply(DataType type, int size, bool transpose_b, int problems, const void* a,
                const void* b, void* d) const {
    const cudaDataType its = type == DataType::kBf16  ? CUDA_R_16BF
                             : type == DataType::kF32 ? CUDA_R_32F
                                                      : CUDA_R_64F;
    const bool is_f64 = type == DataType::kF64;
    const float one = 1;
    const float zero = 0;
    const double one_f64 = 1;
    const double zero_f64 = 0;
    const long long step = static_cast<long long>(size) * size;
    const cublasStatus_t status =
        gemm_(handle_, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, CUBLAS_OP_N, size, size, size,
              is_f64 ? static_cast<const void*>(&one_f64) : &one, b, its, size, step, a, its, size,
              step, is_f64 ? static_cast<const void*>(&zero_f64) : &zero, d, its, size, step,
              problems, is_f64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    if (status != CUBLAS_STATUS_SUCCESS) std::printf("FAIL cuBLAS: %d\n", status);
  }

 private:
  template <class Function>
  Function Find(const char* name) const {
    return reinterpret_cast<Function>(dlsym(library_, name));
  }

  void* library_;
  cublasHandle_t handle_ = nullptr;
  cublasStatus_t (*gemm_)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                          const void*, const void*, cudaDataType, int, long long, const void*,
                          cudaDataType, int, long long, const void*, void*, cudaDataType, int,
                          long long, int, cublasComputeType_t, cublasGemmAlgo_t) = nullptr;
};

double MedianUs(cudaStream_t stream, const std::function<void()>& call) {
  call();
  return GraphUs(stream, call, {5, 2000, 40});
}

// Random numbers everywhere, the same block again and again.
void FillRandom(DataType type, std::mt19937_64* random, const GpuMatrix& matrix) {
  constexpr std::size_t kElements = 1 << 20;
  const auto size = static_cast<std::size_t>(SizeBits(type)) / 8;
  std::normal_distribution<double> normal;
  std::vector<unsigned char> block(kElements * size);
  for (std::size_t i = 0; i < kElements; ++i) {
    SmallBatch::Put(type, normal(*random), &block[i * size]);
  }
  for (std::uint64_t at = 0; at < matrix.bytes(); at += block.size()) {
    CheckCuda(cudaMemcpy(static_cast<char*>(matrix.data()) + at, block.data(),
                         std::min<std::uint64_t>(block.size(), matrix.bytes() - at),
                         cudaMemcpyHostToDevice),
              "copy");
  }
}

// Squares with their planes on the GPU, one behind the other.
class Squares {
 public:
  Squares(DataType type, int size, int problems, bool transpose_b, std::mt19937_64* random)
      : problem_(MakeProblem(size, size, size, type, type, false, transpose_b)),
        plan_(PlanOf(problem_, problems)),
        a_(problem_.d.size_bytes() * static_cast<std::uint64_t>(problems)),
        b_(a_.bytes()),
        d_(a_.bytes()),
        workspace_(plan_.kernel->WorkspaceBytes(problem_, plan_.config) + 256),
        batch_(static_cast<std::size_t>(problems)) {
    FillRandom(type, random, a_);
    FillRandom(type, random, b_);
    for (std::size_t i = 0; i < batch_.size(); ++i) {
      const std::uint64_t at = i * problem_.d.size_bytes();
      batch_[i].a = static_cast<char*>(a_.data()) + at;
      batch_[i].b = static_cast<char*>(b_.data()) + at;
      batch_[i].d = static_cast<char*>(d_.data()) + at;
      batch_[i].workspace = workspace_.data();
    }
  }

  const Plan& plan() const { return plan_; }
  const GpuMatrix& a() const { return a_; }
  const GpuMatrix& b() const { return b_; }
  const GpuMatrix& d() const { return d_; }

  void Launch(cudaStream_t stream) const {
    CheckStatus(plan_.kernel->LaunchBatch(problem_, plan_.config, batch_, TargetOf(stream)));
  }
  void LaunchOneByOne(cudaStream_t stream) const {
    for (const Arguments& arguments : batch_) {
      CheckStatus(plan_.kernel->Launch(problem_, plan_.config, arguments, TargetOf(stream)));
    }
  }

 private:
  static Plan PlanOf(const Problem& problem, int problems) {
    const absl::StatusOr<Plan> plan =
        Select(BuiltinRegistry(), problem, H200(), {}, nullptr, problems);
    CheckStatus(plan.status());
    return *plan;
  }
  static LaunchTarget TargetOf(cudaStream_t stream) {
    LaunchTarget target;
    target.stream = stream;
    return target;
  }

  const Problem problem_;
  const Plan plan_;
  const GpuMatrix a_;
  const GpuMatrix b_;
  const GpuMatrix d_;
  const GpuMatrix workspace_;
  std::vector<Arguments> batch_;
};

void TimeRow(const Cublas& cublas, cudaStream_t stream, DataType type, int size, int problems,
             bool transpose_b, std::mt19937_64* random) {
  const Squares squares(type, size, problems, transpose_b, random);
  double us[2] = {};
  const auto ours = [&] { squares.Launch(stream); };
  const auto theirs = [&] {
    cublas.Multiply(type, size, transpose_b, problems, squares.a().data(), squares.b().data(),
                    squares.d().data());
  };
  const bool is_first = (*random)() % 2 == 0;
  if (is_first) us[0] = MedianUs(stream, ours);
  us[1] = MedianUs(stream, theirs);
  if (!is_first) us[0] = MedianUs(stream, ours);
  std::printf("%-4s %5d of %3d cubed, B %s  %8.2f  cuBLAS %8.2f  %.2f  expected %8.2f  %s\n",
              Name(type).data(), problems, size, transpose_b ? "N x K" : "K x N", us[0], us[1],
              us[1] / us[0], squares.plan().predicted_us,
              squares.plan().kernel->traits().name.c_str());
  std::fflush(stdout);
}

void TimeFew() {
  cudaStream_t stream;
  CheckCuda(cudaStreamCreate(&stream), "stream");
  std::mt19937_64 random(5);
  std::printf("us a batch, of launches one by one, and their ratio\n");
  for (const DataType type : {DataType::kBf16, DataType::kF32, DataType::kF64}) {
    for (const int size : {16, 64, 128, 256, 512}) {
      for (const int problems : {2, 4, 16}) {
        const Squares squares(type, size, problems, false, &random);
        const double us = MedianUs(stream, [&] { squares.Launch(stream); });
        const double one_by_one = MedianUs(stream, [&] { squares.LaunchOneByOne(stream); });
        std::printf("%-4s %5d of %3d cubed  %8.2f  one by one %8.2f  %.2f\n", Name(type).data(),
                    problems, size, us, one_by_one, one_by_one / us);
      }
    }
  }
}

void Time() {
  cudaStream_t stream;
  CheckCuda(cudaStreamCreate(&stream), "stream");
  const Cublas cublas(stream);
  if (!cublas.is_open()) {
    std::printf("no libcublas.so.13: %s\n", dlerror());
    return;
  }
  std::mt19937_64 random(3);
  std::printf("us a batch, cuBLAS', and their ratio\n");
  struct Row {
    DataType type;
    int size;
    int problems;
    bool transpose_b;
  };
  std::vector<Row> rows;
  for (const DataType type : {DataType::kBf16, DataType::kF32, DataType::kF64}) {
    for (const auto& [size, problems] : std::vector<std::array<int, 2>>{{16, 16384},
                                                                        {32, 8192},
                                                                        {64, 4096},
                                                                        {128, 1024},
                                                                        {256, 256},
                                                                        {512, 64},
                                                                        {16, 64},
                                                                        {64, 64}}) {
      for (const bool transpose_b : {false, true}) {
        rows.push_back({type, size, problems, transpose_b});
      }
    }
  }
  std::shuffle(rows.begin(), rows.end(), random);
  for (const Row& row : rows) {
    TimeRow(cublas, stream, row.type, row.size, row.problems, row.transpose_b, &random);
  }
}

}  // namespace
}  // namespace gemmd::testing

int main(int argc, char** argv) {
  const std::string only = argc > 1 ? argv[1] : "";
  int failures = 0;
  if (only.empty() || only == "check") failures += gemmd::testing::Check();
  std::fflush(stdout);
  if (only.empty() || only == "time") gemmd::testing::Time();
  if (only.empty() || only == "few") gemmd::testing::TimeFew();
  return failures == 0 ? 0 : 1;
}
