// CudaDevice on this machine's GPUs. Not a test: it needs a GPU. Build with
//   bazel build --config=h200 --config=opt //tests/server/device/gpu:cuda_device_on_gpu
// and run with one or more of the words below; `accounting=N` takes the number of jobs,
// `quantized=N` that of products a format, or `quantized=N,FORMAT` of that format alone.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/server/device/gpu/checks.h"

int Usage(const std::string& word) {
  std::fprintf(stderr,
               "'%s' is none of: products, quantized=N, quantized_times, accounting=N, receipts, "
               "stream, latency, "
               "batches, rows, two_gpus, loss\n",
               word.c_str());
  return 2;
}

int main(int argc, char** argv) {
  using namespace gemmd::testing;
  if (argc < 2) return Usage("");  // having checked nothing is no success
  GpuReport report;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string accounting = "accounting=";
    const std::string quantized = "quantized=";
    if (word == "products") {
      CheckProducts(&report);
    } else if (word.rfind(accounting, 0) == 0) {
      CheckAccounting(std::atoi(word.c_str() + accounting.size()), &report);
    } else if (word.rfind(quantized, 0) == 0) {
      const std::size_t comma = word.find(',');
      CheckQuantized(std::atoi(word.c_str() + quantized.size()),
                     comma == std::string::npos ? "" : word.substr(comma + 1), &report);
    } else if (word == "quantized_times") {
      MeasureQuantized(&report);
    } else if (word == "receipts") {
      CheckReceipts(&report);
    } else if (word == "stream") {
      MeasureStream(&report);
      MeasureGatheredStream(&report);
    } else if (word == "latency") {
      MeasureLatency(&report);
    } else if (word == "batches") {
      CheckBatches(&report);
    } else if (word == "rows") {
      MeasureRows(&report);
    } else if (word == "two_gpus") {
      MeasureTwoGpus(&report);
    } else if (word == "loss") {
      CheckLoss(&report);
    } else {
      return Usage(word);
    }
  }
  return report.Close();
}
