#include "kernels/cpu/panel_gemm.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/blas.h"
#include "kernels/cpu/epilogue.h"
#include "kernels/cpu/float_bits.h"

namespace gemmd {
namespace {

// K is cut into pieces of this many for int8; see the header.
constexpr std::int64_t kExactTerms = 1024;

// ------------------------------------------------------------- element types

// Each operand type says what is stored, what BLAS multiplies, what the products are
// summed in, and what the epilogue computes in.
struct F64 {
  using Storage = double;
  using Multiply = double;
  using Accumulate = double;
  using Epilogue = double;
  static constexpr DataType kType = DataType::kF64;
  static constexpr DataType kAccumulateType = DataType::kF64;
  static double Widen(double x) { return x; }
  static double Narrow(double x) { return x; }
};

struct F32 {
  using Storage = float;
  using Multiply = float;
  using Accumulate = float;
  using Epilogue = float;
  static constexpr DataType kType = DataType::kF32;
  static constexpr DataType kAccumulateType = DataType::kF32;
  static float Widen(float x) { return x; }
  static float Narrow(float x) { return x; }
};

struct F16 {
  using Storage = std::uint16_t;
  using Multiply = float;
  using Accumulate = float;
  using Epilogue = float;
  static constexpr DataType kType = DataType::kF16;
  static constexpr DataType kAccumulateType = DataType::kF32;
  static float Widen(std::uint16_t x) { return FromF16(x); }
  static std::uint16_t Narrow(float x) { return ToF16(x); }
};

struct Bf16 {
  using Storage = std::uint16_t;
  using Multiply = float;
  using Accumulate = float;
  using Epilogue = float;
  static constexpr DataType kType = DataType::kBf16;
  static constexpr DataType kAccumulateType = DataType::kF32;
  static float Widen(std::uint16_t x) { return FromBf16(x); }
  static std::uint16_t Narrow(float x) { return ToBf16(x); }
};

struct Int8 {
  using Storage = std::int8_t;
  using Multiply = float;
  using Accumulate = std::int32_t;
  using Epilogue = double;
  static constexpr DataType kType = DataType::kInt8;
  static constexpr DataType kAccumulateType = DataType::kInt32;
  static float Widen(std::int8_t x) { return x; }
};

// The exact integer product as D: no arithmetic after the sum.
struct Int32 {
  using Storage = std::int32_t;
  static std::int32_t Widen(std::int32_t x) { return x; }
  static std::int32_t Narrow(double x) { return static_cast<std::int32_t>(x); }
};

// ------------------------------------------------------------- one launch

std::uint64_t RoundUp(std::uint64_t value, std::uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Where a launch keeps its intermediate values, as offsets into the workspace.
template <typename In>
struct Workspace {
  Workspace(const Problem& problem, int workers)
      : panel_bytes(RoundUp(kPanelRows * problem.k * sizeof(typename In::Multiply), 64)),
        tile_bytes(RoundUp(kPanelRows * kPanelColumns * sizeof(typename In::Multiply), 64)),
        sum_bytes(kSummed ? RoundUp(kPanelRows * kPanelColumns * sizeof(std::int32_t), 64) : 0),
        worker_bytes(panel_bytes + tile_bytes + sum_bytes),
        wide_b(worker_bytes * workers),
        total_bytes(wide_b +
                    (kWidened ? problem.k * problem.n * sizeof(typename In::Multiply) : 0)) {}

  // Whether operands are converted before BLAS sees them, and whether products of
  // pieces of K are summed outside BLAS.
  static constexpr bool kWidened = !std::is_same_v<typename In::Storage, typename In::Multiply>;
  static constexpr bool kSummed = !std::is_same_v<typename In::Accumulate, typename In::Multiply>;

  const std::uint64_t panel_bytes;  // 64 rows of op(A), per worker
  const std::uint64_t tile_bytes;   // one BLAS result, per worker
  const std::uint64_t sum_bytes;    // the int32 sum of them, per worker
  const std::uint64_t worker_bytes;
  const std::uint64_t wide_b;  // B, widened and tightly packed in its own order
  const std::uint64_t total_bytes;
};

template <typename In>
class Launcher {
 public:
  using Storage = typename In::Storage;
  using Multiply = typename In::Multiply;

  Launcher(const Problem& problem, const Arguments& arguments, ParallelExecutor* executor)
      : problem_(problem),
        arguments_(arguments),
        executor_(executor),
        workspace_(problem, executor->workers()) {}

  void Run() {
    WidenB();
    const std::int64_t panels = (problem_.m + kPanelRows - 1) / kPanelRows;
    const std::int64_t tiles = (problem_.n + kPanelColumns - 1) / kPanelColumns;
    // Neighbouring indices share the columns of B, which stay in a core's cache.
    executor_->Run(panels * tiles, [this, panels](int worker, std::int64_t index) {
      RunUnit(worker, index % panels * kPanelRows, index / panels * kPanelColumns);
    });
  }

 private:
  template <typename T>
  T* At(std::uint64_t offset) const {
    return reinterpret_cast<T*>(static_cast<char*>(arguments_.workspace) + offset);
  }

  void WidenB() {
    if constexpr (Workspace<In>::kWidened) {
      executor_->Run(problem_.b.outer(), [this](int, std::int64_t line) {
        const std::int64_t inner = problem_.b.inner();
        const Storage* from =
            static_cast<const Storage*>(arguments_.b) + line * problem_.b.leading_dimension;
        Multiply* to = At<Multiply>(workspace_.wide_b) + line * inner;
        std::transform(from, from + inner, to, In::Widen);
      });
      b_ = At<Multiply>(workspace_.wide_b);
      ldb_ = problem_.b.inner();
    } else {
      b_ = static_cast<const Multiply*>(arguments_.b);
      ldb_ = problem_.b.leading_dimension;
    }
  }

  // 64 rows of op(A) with neighbouring elements of K side by side; rows from
  // `rows` on are zero.
  const Multiply* Panel(int worker, std::int64_t first_row, std::int64_t rows,
                        std::int64_t* leading_dimension) const {
    const auto* a = static_cast<const Storage*>(arguments_.a) + first_row * problem_.a_row_stride();
    if constexpr (!Workspace<In>::kWidened) {
      if (rows == kPanelRows && problem_.a_is_k_major()) {
        *leading_dimension = problem_.a.leading_dimension;
        return a;
      }
    }
    *leading_dimension = problem_.k;
    auto* panel = At<Multiply>(worker * workspace_.worker_bytes);
    const std::int64_t row_stride = problem_.a_row_stride();
    const std::int64_t inner_stride = problem_.a_inner_stride();
    if (inner_stride == 1) {
      for (std::int64_t row = 0; row < rows; ++row) {
        std::transform(a + row * row_stride, a + row * row_stride + problem_.k,
                       panel + row * problem_.k, In::Widen);
      }
    } else {
      for (std::int64_t inner = 0; inner < problem_.k; ++inner) {
        for (std::int64_t row = 0; row < rows; ++row) {
          panel[row * problem_.k + inner] = In::Widen(a[row * row_stride + inner * inner_stride]);
        }
      }
    }
    std::fill(panel + rows * problem_.k, panel + kPanelRows * problem_.k, Multiply{0});
    return panel;
  }

  // Whether what BLAS computes is D as it stands: the same bits as through a tile.
  bool WritesInPlace(std::int64_t rows) const {
    const Epilogue& e = problem_.epilogue;
    return !Workspace<In>::kWidened && rows == kPanelRows && problem_.d.type == In::kType &&
           problem_.d.order == Order::kRowMajor && e.alpha == 1 && e.beta == 0 && !e.has_bias &&
           e.activation == Activation::kNone;
  }

  void RunUnit(int worker, std::int64_t first_row, std::int64_t first_column) const {
    const std::int64_t rows = std::min(kPanelRows, problem_.m - first_row);
    const std::int64_t columns = std::min(kPanelColumns, problem_.n - first_column);
    const bool b_is_k_major = problem_.b_is_k_major();
    const Multiply* b = b_ + first_column * (b_is_k_major ? ldb_ : 1);
    std::int64_t lda;
    const Multiply* a = Panel(worker, first_row, rows, &lda);
    auto* tile = At<Multiply>(worker * workspace_.worker_bytes + workspace_.panel_bytes);
    if constexpr (Workspace<In>::kSummed) {
      auto* sum = At<std::int32_t>(worker * workspace_.worker_bytes + workspace_.panel_bytes +
                                   workspace_.tile_bytes);
      std::fill(sum, sum + kPanelRows * columns, 0);
      for (std::int64_t k = 0; k < problem_.k; k += kExactTerms) {
        BlasGemm(b_is_k_major, kPanelRows, columns, std::min(kExactTerms, problem_.k - k), a + k,
                 lda, b + k * (b_is_k_major ? 1 : ldb_), ldb_, tile, columns);
        for (std::int64_t i = 0; i < kPanelRows * columns; ++i) {
          sum[i] += static_cast<std::int32_t>(tile[i]);
        }
      }
      StoreAs(sum, first_row, rows, first_column, columns);
    } else {
      if (WritesInPlace(rows)) {
        auto* d = static_cast<Multiply*>(arguments_.d) + first_row * problem_.d.row_stride() +
                  first_column;
        BlasGemm(b_is_k_major, kPanelRows, columns, problem_.k, a, lda, b, ldb_, d,
                 problem_.d.leading_dimension);
        return;
      }
      BlasGemm(b_is_k_major, kPanelRows, columns, problem_.k, a, lda, b, ldb_, tile, columns);
      StoreAs(tile, first_row, rows, first_column, columns);
    }
  }

  template <typename T>
  void StoreAs(const T* sums, std::int64_t first_row, std::int64_t rows, std::int64_t first_column,
               std::int64_t columns) const {
    switch (problem_.d.type) {
      case DataType::kF64:
        return Store<F64>(sums, first_row, rows, first_column, columns);
      case DataType::kF32:
        return Store<F32>(sums, first_row, rows, first_column, columns);
      case DataType::kF16:
        return Store<F16>(sums, first_row, rows, first_column, columns);
      case DataType::kBf16:
        return Store<Bf16>(sums, first_row, rows, first_column, columns);
      case DataType::kInt32:
        return Store<Int32>(sums, first_row, rows, first_column, columns);
      default:
        return;  // Rejection() lets no other type in
    }
  }

  template <typename Out, typename T>
  void Store(const T* sums, std::int64_t first_row, std::int64_t rows, std::int64_t first_column,
             std::int64_t columns) const {
    using E = typename In::Epilogue;
    const Epilogue& e = problem_.epilogue;
    const auto alpha = static_cast<E>(e.alpha);
    const auto beta = static_cast<E>(e.beta);
    const std::int64_t row_stride = problem_.d.row_stride();
    const std::int64_t column_stride = problem_.d.column_stride();
    auto* d = static_cast<typename Out::Storage*>(arguments_.d) + first_row * row_stride +
              first_column * column_stride;
    const auto* bias = static_cast<const typename Out::Storage*>(arguments_.bias);
    const auto* c = static_cast<const typename Out::Storage*>(arguments_.c);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        E value = alpha * static_cast<E>(sums[row * columns + column]);
        if (beta != 0) {
          value += beta * static_cast<E>(
                              Out::Widen(c[(first_row + row) * problem_.c.row_stride() +
                                           (first_column + column) * problem_.c.column_stride()]));
        }
        if (e.has_bias) value += static_cast<E>(Out::Widen(bias[first_column + column]));
        d[row * row_stride + column * column_stride] =
            Out::Narrow(static_cast<Rounded<Out>>(ActivateAs(e.activation, value)));
      }
    }
  }

  // What Out::Narrow takes.
  template <typename Out>
  using Rounded =
      std::conditional_t<std::is_same_v<Out, F64> || std::is_same_v<Out, Int32>, double, float>;

  const Problem& problem_;
  const Arguments& arguments_;
  ParallelExecutor* const executor_;
  const Workspace<In> workspace_;
  const Multiply* b_ = nullptr;
  std::int64_t ldb_ = 0;
};

// ------------------------------------------------------------- the registry entry

template <typename In>
class PanelKernel final : public Kernel {
 public:
  explicit PanelKernel(std::string description)
      : Kernel({absl::StrCat("cpu/panel_", Name(In::kType)), "cpu", std::move(description),
                Determinism::kBatchInvariant}) {}

  std::string UnavailableReason(const DeviceTraits& device) const override {
    return device.kind == DeviceKind::kCpu ? "" : "runs on a CPU device";
  }

  std::string Rejection(const Problem& problem) const override {
    if (problem.a.type != In::kType || problem.b.type != In::kType) {
      return absl::StrCat("takes ", Name(In::kType), " operands");
    }
    if (problem.accumulate != In::kAccumulateType) {
      return absl::StrCat("accumulates in ", Name(In::kAccumulateType));
    }
    const bool is_wider_output = problem.d.type == DataType::kF32 && In::kType != DataType::kF64;
    const bool is_own_output =
        std::is_same_v<In, Int8> ? problem.d.type == DataType::kInt32 : problem.d.type == In::kType;
    if (!is_own_output && !is_wider_output) {
      return absl::StrCat("does not write ", Name(problem.d.type));
    }
    if constexpr (std::is_same_v<In, Int8>) {
      const Epilogue& e = problem.epilogue;
      if (problem.k > kMaxInt8K) {
        return absl::StrCat("K is ", problem.k, ", and int32 holds every sum only up to ",
                            kMaxInt8K);
      }
      if (problem.d.type == DataType::kInt32 &&
          (e.alpha != 1 || e.beta != 0 || e.has_bias || e.activation != Activation::kNone)) {
        return "int32 output is the exact product: no alpha, beta, bias or activation (ask for "
               "f32)";
      }
    }
    return "";
  }

  Config Configure(const Problem&, const DeviceTraits& device) const override {
    Config config;
    config.tile_m = kPanelRows;
    config.tile_n = kPanelColumns;
    config.threads = device.compute_units;
    return config;
  }

  double PredictedUs(const Problem& problem, const Config& config,
                     const DeviceTraits& device) const override {
    const std::int64_t panels = (problem.m + kPanelRows - 1) / kPanelRows;
    const std::int64_t tiles = (problem.n + kPanelColumns - 1) / kPanelColumns;
    const auto columns = static_cast<double>(std::min(problem.n, kPanelColumns));
    const double units = static_cast<double>(panels) * static_cast<double>(tiles);
    const double rounds = std::max(1.0, units / config.threads);
    const double unit_flops = 2.0 * kPanelRows * columns * static_cast<double>(problem.k);
    const double unit_gflops =
        device.f32_gflops / device.compute_units * (In::kType == DataType::kF64 ? 0.5 : 1.0);
    const double bytes = static_cast<double>(problem.a.size_bytes() + problem.b.size_bytes() +
                                             problem.d.size_bytes());
    return std::max(rounds * unit_flops / unit_gflops, bytes / device.memory_gbps) / 1e3;
  }

  std::uint64_t WorkspaceBytes(const Problem& problem, const Config& config) const override {
    return Workspace<In>(problem, config.threads).total_bytes;
  }

  std::string NumericsId(const Problem& problem) const override {
    // Integers are exact: every kernel that says so has equal bits.
    if (std::is_same_v<In, Int8> && problem.d.type == DataType::kInt32) return "exact-int32";
    return absl::StrCat(traits().name, ":n", problem.n, ":k", problem.k, ":",
                        problem.b_is_k_major() ? "b_k_major" : "b_n_major", ":", BlasVersion());
  }

  absl::Status Launch(const Problem& problem, const Config&, const Arguments& arguments,
                      const LaunchTarget& target) const override {
    if (target.executor == nullptr) return absl::InternalError("a CPU kernel needs an executor");
    Launcher<In>(problem, arguments, target.executor).Run();
    return absl::OkStatus();
  }
};

}  // namespace

void AppendCpuKernels(std::vector<std::unique_ptr<const Kernel>>* kernels) {
  kernels->push_back(std::make_unique<PanelKernel<F64>>("OpenBLAS dgemm in 64x512 units"));
  kernels->push_back(std::make_unique<PanelKernel<F32>>("OpenBLAS sgemm in 64x512 units"));
  kernels->push_back(std::make_unique<PanelKernel<F16>>("widened to f32, then as panel_f32"));
  kernels->push_back(std::make_unique<PanelKernel<Bf16>>("widened to f32, then as panel_f32"));
  kernels->push_back(
      std::make_unique<PanelKernel<Int8>>("exact: f32 pieces of 1024 terms, summed in int32"));
}

}  // namespace gemmd
