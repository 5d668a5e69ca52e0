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

// Measures f32, or f64, products of that shape: the best of some, which takes a tenth of a
// second or so, or two products that take longer. With the machine's own BLAS, as its programs
// would use, where there is one: it is opened at run time, so that this program needs none.
CpuSpeed MeasureCpu(bool is_f64, const CpuShape& shape = {});

}  // namespace gemmd::cli
