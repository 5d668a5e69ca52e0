// The way of a call, of either interface, that is too large to be passed on at once.
// `here` computes the call as it came, by the function that it would have gone to.
#pragma once

#include <cstdint>

#include "client/blas/fortran.h"
#include "client/blas/level3.h"
#include "client/blas/offload.h"

namespace gemmd::blas {

inline double Size(std::int64_t side) { return static_cast<double>(side); }

template <typename T, typename Int, typename ComputeHere>
void Enter(const char* routine, const Gemm<T>& gemm, const typename Fortran<T, Int>::Names& names,
           ComputeHere here) {
  const double m = Size(gemm.m);
  const double n = Size(gemm.n);
  const double k = Size(gemm.k);
  Call call(routine, m, n, k, Flops<T>(m, n, k), kKind<T>);
  if (names.gemm.Find() == nullptr) {
    call.Here(Why::kNoFortran);
    return here();
  }
  MultiplyThereOrHere(gemm, FortranHere<T, Int>(names), call, here);
}

template <typename T, typename Int, typename ComputeHere>
void Enter(const char* routine, const GemmBatch<T>& batch,
           const typename Fortran<T, Int>::Names& names, ComputeHere here) {
  const Gemm<T>& first = batch.first;
  Call call(routine, Size(first.m), Size(first.n), Size(first.k), FlopsOf(batch), kKind<T>);
  if (names.gemm.Find() == nullptr) {
    call.Here(Why::kNoFortran);
    return here();
  }
  MultiplyThereOrHere(batch, FortranHere<T, Int>(names), call, here);
}

// `halve(parts)` computes it by halves.
template <typename T, typename Int, typename Routine, typename Halve, typename ComputeHere>
void EnterByHalves(Call& call, const Routine& routine, const typename Fortran<T, Int>::Names& names,
                   Halve halve, ComputeHere here) {
  if (!IsProduct(routine)) {
    call.Here(Why::kNoProduct);
    return here();
  }
  if (names.gemm.Find() == nullptr) {
    call.Here(Why::kNoFortran);
    return here();
  }
  const FortranHere<T, Int> local(names);
  Parts<T, FortranHere<T, Int>> parts(local, call);
  halve(parts);
}

template <typename T, typename Int, typename ComputeHere>
void Enter(const char* routine, const Rank<T>& rank, const typename Fortran<T, Int>::Names& names,
           ComputeHere here) {
  const double n = Size(rank.n);
  const double k = Size(rank.k);
  Call call(routine, n, n, k, Flops<T>(n, n, k) / 2, kKind<T>);
  EnterByHalves<T, Int>(
      call, rank, names, [&](auto& parts) { ByHalves(rank, parts); }, here);
}

template <typename T, typename Int, typename ComputeHere>
void Enter(const char* routine, const Rank2<T>& rank, const typename Fortran<T, Int>::Names& names,
           ComputeHere here) {
  const double n = Size(rank.n);
  const double k = Size(rank.k);
  Call call(routine, n, n, k, Flops<T>(n, n, k), kKind<T>);
  EnterByHalves<T, Int>(
      call, rank, names, [&](auto& parts) { ByHalves(rank, parts); }, here);
}

template <typename T, typename Int, typename ComputeHere>
void Enter(const char* routine, const Symmetric<T>& symmetric,
           const typename Fortran<T, Int>::Names& names, ComputeHere here) {
  const double m = Size(symmetric.m);
  const double n = Size(symmetric.n);
  const double order = Size(Order(symmetric));
  Call call(routine, m, n, order, Flops<T>(m, n, order), kKind<T>);
  EnterByHalves<T, Int>(
      call, symmetric, names, [&](auto& parts) { ByHalves(symmetric, parts); }, here);
}

template <typename T, typename Int, typename ComputeHere>
void Enter(const char* routine, const Triangular<T>& triangular, bool solves,
           const typename Fortran<T, Int>::Names& names, ComputeHere here) {
  const double m = Size(triangular.m);
  const double n = Size(triangular.n);
  const double order = Size(Order(triangular));
  Call call(routine, m, n, order, Flops<T>(m, n, order) / 2, kKind<T>);
  EnterByHalves<T, Int>(
      call, triangular, names,
      [&](auto& parts) {
        if (solves) {
          SolveByHalves(triangular, parts);
        } else {
          MultiplyByHalves(triangular, parts);
        }
      },
      here);
}

}  // namespace gemmd::blas
