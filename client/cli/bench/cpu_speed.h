// The speed of this machine's own products.
#pragma once

#include <string>

namespace gemmd::cli {

struct CpuShape {
  int m = 512;
  int n = 512;
  int k = 512;
};

struct CpuSpeed {
  double gflops = 0;
  std::string library;  // what computed: "libopenblas.so.0", or "a plain loop, one thread"
};

// Measures f32, or f64, products of that shape: the best of those that fit in a tenth of a second
// or so, or of two that take longer. Uses the machine's own BLAS where there is one, as its
// programs would. It is opened at run time, so that this program needs none.
CpuSpeed MeasureCpu(bool is_f64, const CpuShape& shape = {});

}  // namespace gemmd::cli
