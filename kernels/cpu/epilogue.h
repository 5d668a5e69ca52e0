// The arithmetic after the product, in one precision.
#pragma once

#include <cmath>

#include "base/numbers/types.h"

namespace gemmd {

// The activations of gemmd.v1.Activation. NaN stays NaN in each.
template <typename T>
T ActivateAs(Activation activation, T x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return x < T{0} ? T{0} : x;
    case Activation::kGeluTanh: {
      // Hendrycks and Gimpel, "Gaussian Error Linear Units", arXiv:1606.08415.
      constexpr T kSqrtTwoOverPi = T(0.79788456080286535588);
      return T(0.5) * x * (T{1} + std::tanh(kSqrtTwoOverPi * (x + T(0.044715) * x * x * x)));
    }
    case Activation::kSilu:
      return x / (T{1} + std::exp(-x));
  }
  return x;
}

}  // namespace gemmd
