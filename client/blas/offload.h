// One call of a routine: its products go to the server or are computed here, and it is recorded.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "client/blas/gemm.h"
#include "client/blas/level3.h"
#include "client/blas/process.h"
#include "client/blas/real_product.h"
#include "client/blas/report.h"

namespace gemmd::blas {

template <typename T>
inline constexpr int kKind = (kIsComplex<T> ? 2 : 0) + (sizeof(Real<T>) == sizeof(double) ? 1 : 0);

// Measures this machine: operations a nanosecond of a product of 384 cubed, the best of some in
// twenty milliseconds, because the first ones start threads. 0 where there is no memory for it.
template <typename T, typename Local>
double MeasureGflops(const Local& local) {
  constexpr std::int64_t kSide = 384;
  constexpr std::size_t kElements = kSide * kSide;
  constexpr std::chrono::milliseconds kEnough(20);
  const Memory memory(std::malloc(3 * kElements * sizeof(T)));
  if (memory == nullptr) return 0;
  T* const a = static_cast<T*>(memory.get());
  std::fill_n(a, 3 * kElements, T(1));
  double best = 0;
  const auto begin = Server::Clock::now();
  for (auto now = begin; now - begin < kEnough;) {
    local.Multiply(Gemm<T>{Op::kNone, Op::kNone, kSide, kSide, kSide, T(1), a, kSide, a + kElements,
                           kSide, T(0), a + 2 * kElements, kSide});
    const auto end = Server::Clock::now();
    const std::chrono::duration<double, std::nano> took = end - now;
    best = std::max(best, Flops<T>(kSide, kSide, kSide) / std::max(took.count(), 1.0));
    now = end;
  }
  return best;
}

// A call, from its begin to its end, when it is recorded.
class Call {
 public:
  // `flops`: its operations, for the time that it would have taken here.
  Call(const char* routine, double m, double n, double k, double flops, int kind) : kind_(kind) {
    record_.routine = routine;
    record_.m = m;
    record_.n = n;
    record_.k = k;
    record_.flops = flops;
    is_in_call = true;
    if (Process::Get().records()) begin_ = Server::Clock::now();
  }
  ~Call() {
    is_in_call = false;
    Process& process = Process::Get();
    if (!process.records()) return;
    record_.seconds = std::chrono::duration<double>(Server::Clock::now() - begin_).count();
    record_.seconds_here = process.SecondsHere(record_.flops, kind_);
    process.Record(record_);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void There(std::int64_t bytes, std::int64_t products) {
    record_.why = Why::kServer;
    record_.products += products;
    record_.bytes += bytes;
  }
  void Here(Why why) {
    if (record_.products == 0) record_.why = why;
  }

 private:
  const int kind_;
  CallRecord record_;
  Server::Clock::time_point begin_{};
};

// The bytes of a product's operands and result.
inline std::int64_t BytesOf(const RealProduct& product) {
  const std::int64_t a_count = product.a_batch_stride == 0 ? 1 : product.count;
  const std::int64_t b_count = product.b_batch_stride == 0 ? 1 : product.count;
  const std::int64_t elements = a_count * product.m * product.k + b_count * product.k * product.n +
                                product.count * product.m * product.n;
  return elements * (product.is_double ? 8 : 4);
}

// Multiplies there, or by `here` where that does not pay or fails. C is written once the whole
// product is here. `Product` is a Gemm or a GemmBatch.
template <typename Product, typename Local, typename ComputeHere>
void MultiplyThereOrHere(const Product& gemm, const Local& local, Call& call, ComputeHere here) {
  using T = typename Product::Element;
  if (!IsProduct(gemm)) {
    call.Here(Why::kNoProduct);
    return here();
  }
  Process& process = Process::Get();
  const double flops = FlopsOf(gemm);
  Why why = process.Decide(Described(gemm), flops, kKind<T>,
                           [&local] { return MeasureGflops<T>(local); });
  if (why != Why::kServer) {
    call.Here(why);
    return here();
  }
  const auto begin = Server::Clock::now();
  const Prepared prepared = Prepare(gemm);
  if (prepared.is_short_of_memory) {
    call.Here(Why::kNoMemory);
    return here();
  }
  const Answer answer = process.Multiply(prepared.product, flops, kKind<T>);
  if (answer.why() != Why::kServer) {
    call.Here(answer.why());
    return here();  // and then wait until nobody reads the operands
  }
  Merge(static_cast<const T*>(answer.d()), gemm);
  process.Took(prepared.product, flops, Server::Clock::now() - begin);
  call.There(BytesOf(prepared.product), prepared.product.count);
}

// The parts of a routine that goes by halves (level3.h): squares may go there, the rest is local.
template <typename T, typename Local>
class Parts {
 public:
  Parts(const Local& local, Call& call) : local_(local), call_(call) {}

  bool Splits(std::int64_t m, std::int64_t n, std::int64_t k, int depth) {
    Process& process = Process::Get();
    // Without an estimate a routine is cut into eight, of which an eighth is computed here.
    if (process.is_always() && depth == 3) return false;
    Gemm<T> square;
    square.m = m;
    square.n = n;
    square.k = k;
    square.lda = square.ldc = m;
    square.ldb = k;
    const double flops =
        Flops<T>(static_cast<double>(m), static_cast<double>(n), static_cast<double>(k));
    const Why why = process.Decide(Described(square), flops, kKind<T>,
                                   [this] { return MeasureGflops<T>(local_); });
    if (why != Why::kServer) call_.Here(why);
    return why == Why::kServer;
  }

  void Multiply(const Gemm<T>& gemm) {
    MultiplyThereOrHere(gemm, local_, call_, [&] { local_.Multiply(gemm); });
  }

  template <typename Routine>
  void Whole(const Routine& routine) {
    local_.Whole(routine);
  }
  void WholeProduct(const Triangular<T>& triangular) { local_.WholeProduct(triangular); }
  void WholeSolution(const Triangular<T>& triangular) { local_.WholeSolution(triangular); }

 private:
  const Local& local_;
  Call& call_;
};

}  // namespace gemmd::blas
