// The published figures that the model's stand beside: the article on an MXFP8 GEMM (a B200 at
// 1000 W, CUDA 13.0, e4m3 data with an e8m0 scale for each 32 of K, f32 out), in TFLOP/s. Nothing
// of it was run by this project, and no part of the model reads this file.
#pragma once

#include <array>

namespace gemmd::model {

inline constexpr int kShapes = 4;
// M = N = K.
inline constexpr std::array<int, kShapes> kSides = {2048, 4096, 8192, 16384};

inline constexpr int kPublishedSteps = 12;
inline constexpr std::array<std::array<double, kShapes>, kPublishedSteps> kPublishedTeraflops = {{
    {478.49, 877.78, 1171.53, 1235.61},
    {797.73, 1443.69, 1900.74, 1933.43},
    {798.92, 1543.29, 1955.59, 1990.72},
    {837.55, 1789.57, 2126.22, 2104.80},
    {802.50, 1789.57, 2134.28, 2143.80},
    {883.01, 2199.16, 2370.29, 2181.83},
    {881.56, 2159.36, 2502.71, 2412.20},
    {885.93, 2201.42, 2537.46, 2432.80},
    {979.69, 2206.51, 2526.08, 2447.84},
    {884.47, 2202.55, 2550.27, 2478.36},
    {986.90, 2200.29, 2599.07, 2487.72},
    {981.48, 2202.55, 2550.27, 2425.23},
}};
// cuBLAS through torch._scaled_mm, in the same run.
inline constexpr std::array<double, kShapes> kPublishedCublas = {996.05, 2538.40, 2691.93, 2571.48};

// NVIDIA's profiler at 8192 cubed, before step 6 and with it.
struct PublishedTraffic {
  double l2_hit_percent;
  double memory_terabytes_per_second;
};
inline constexpr PublishedTraffic kPublishedLinear = {72.00, 1.59};
inline constexpr PublishedTraffic kPublishedHilbert = {85.67, 0.90327};

}  // namespace gemmd::model
