// Times launches by a CUDA graph, so that no time is the CPU's.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "tests/kernels/mma/gpu_matrix.h"

namespace gemmd::testing {

struct GraphTiming {
  int calls = 1;          // in a graph
  double fill_us = 3000;  // of a sample's replays, about
  int most_replays = 300;
};

// Microseconds of one call: the median of 9 samples. `call` only queues on the stream.
inline double GraphUs(cudaStream_t stream, const std::function<void()>& call,
                      const GraphTiming& timing = {}) {
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CheckCuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < timing.calls; ++i) call();
  CheckCuda(cudaStreamEndCapture(stream, &graph), "capture");
  CheckCuda(cudaGraphInstantiate(&executable, graph, 0), "graph");
  cudaEvent_t begin;
  cudaEvent_t end;
  CheckCuda(cudaEventCreate(&begin), "event");
  CheckCuda(cudaEventCreate(&end), "event");
  const auto time = [&](int replays) {
    CheckCuda(cudaEventRecord(begin, stream), "record");
    for (int i = 0; i < replays; ++i) CheckCuda(cudaGraphLaunch(executable, stream), "replay");
    CheckCuda(cudaEventRecord(end, stream), "record");
    CheckCuda(cudaEventSynchronize(end), "wait");
    float ms = 0;
    CheckCuda(cudaEventElapsedTime(&ms, begin, end), "elapsed");
    return 1e3 * static_cast<double>(ms) / (replays * timing.calls);
  };
  const double graph_us = std::max(1.0, time(3) * timing.calls);
  const int replays =
      std::clamp(static_cast<int>(timing.fill_us / graph_us), 2, timing.most_replays);
  std::vector<double> samples;
  for (int i = 0; i < 9; ++i) samples.push_back(time(replays));
  std::sort(samples.begin(), samples.end());
  CheckCuda(cudaEventDestroy(begin), "event");
  CheckCuda(cudaEventDestroy(end), "event");
  CheckCuda(cudaGraphExecDestroy(executable), "graph");
  CheckCuda(cudaGraphDestroy(graph), "graph");
  return samples[4];
}

}  // namespace gemmd::testing
