// Runs every vector on this machine's GPU and prints "name hash" lines: how
// recorded_sm90.txt was made. Build and run by hand on a machine with a GPU:
//   bazel build --config=h200 //tests/kernels/ptx:record_vectors
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#include "tests/kernels/ptx/mma_probe.h"
#include "tests/kernels/ptx/mma_vectors.h"
#include "tests/kernels/ptx/recorded.h"
#include "tests/kernels/ptx/tensor_copy_vectors.h"
#include "tests/kernels/ptx/wgmma_vectors.h"

namespace gemmd::testing {
namespace {

void Check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

template <typename T>
class OnDevice {
 public:
  explicit OnDevice(const std::vector<T>& values) : size_(values.size()) {
    Check(cudaMalloc(&data_, size_ * sizeof(T)));
    Check(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~OnDevice() { cudaFree(data_); }
  T* data() { return data_; }
  std::vector<T> Get() const {
    std::vector<T> values(size_);
    Check(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  std::size_t size_;
  T* data_ = nullptr;
};

void RecordMma(int form, MmaOperands operands) {
  OnDevice<std::uint32_t> in(MmaInputs(form, operands).words());
  OnDevice<std::uint32_t> out(std::vector<std::uint32_t>(kMmaWarps * 32 * 4));
  const ptx::MmaProbeParams params = {in.data(), out.data()};
  const auto kernel = form == 0   ? ptx::MmaProbe<ptx::MmaForm::kF16ToF32>
                      : form == 1 ? ptx::MmaProbe<ptx::MmaForm::kBf16ToF32>
                                  : ptx::MmaProbe<ptx::MmaForm::kF16ToF16>;
  kernel<<<kMmaWarps, 32>>>(params);
  Check(cudaDeviceSynchronize());
  const std::vector<std::uint32_t> words = out.Get();
  std::printf("%s %016llx\n", MmaVectorName(form, operands).c_str(),
              static_cast<unsigned long long>(HashBytes(words.data(), words.size() * 4)));
}

void RecordTensorCopy(const TensorCopyCase& test) {
  OnDevice<std::uint8_t> in(TensorBytes(test.element, 1));
  OnDevice<std::uint8_t> out(TensorBytes(test.element, 2));
  OnDevice<std::uint8_t> dump(std::vector<std::uint8_t>(TensorBoxBytes(test)));
  const ptx::TensorCopyProbeParams params =
      TensorCopyParams(test, in.data(), out.data(), dump.data());
  ptx::TensorCopyProbe<<<1, 32, ptx::TensorCopyProbeSharedBytes(params.box_bytes)>>>(params);
  Check(cudaDeviceSynchronize());
  const std::vector<std::uint8_t> box = dump.Get();
  const std::vector<std::uint8_t> tensor = out.Get();
  const std::uint64_t hash =
      HashBytes(tensor.data(), tensor.size(), HashBytes(box.data(), box.size()));
  std::printf("%s %016llx\n", test.name, static_cast<unsigned long long>(hash));
}

struct RecordWgmma {
  template <ptx::WgmmaForm kForm, int kColumns, ptx::WgmmaA kA, ptx::Major kBMajor>
  void operator()() const {
    const auto kernel = ptx::WgmmaProbe<kForm, kColumns, kA, kBMajor>;
    Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               ptx::kWgmmaProbeShared));
    OnDevice<std::uint16_t> shared(WgmmaHalves(kForm, ptx::kWgmmaProbeShared / 2, 1));
    OnDevice<std::uint16_t> fragments(WgmmaHalves(kForm, 128 * 16, 2));
    for (const ptx::Swizzle swizzle : kWgmmaSwizzles) {
      OnDevice<std::uint32_t> out(std::vector<std::uint32_t>(WgmmaOutputWords(kColumns)));
      ptx::WgmmaProbeParams params =
          WgmmaSpecs(kA == ptx::WgmmaA::kMnMajor, kBMajor == ptx::Major::kMn, swizzle);
      params.shared = reinterpret_cast<const ptx::Vector4*>(shared.data());
      params.fragments = reinterpret_cast<const std::uint32_t*>(fragments.data());
      params.out = out.data();
      kernel<<<1, 128, ptx::kWgmmaProbeShared>>>(params);
      Check(cudaDeviceSynchronize());
      const std::vector<std::uint32_t> words = out.Get();
      std::printf("%s %016llx\n", WgmmaVectorName(kForm, kColumns, kA, kBMajor, swizzle).c_str(),
                  static_cast<unsigned long long>(HashBytes(words.data(), words.size() * 4)));
    }
  }
};

void RecordAll() {
  for (int form = 0; form < kMmaForms; ++form) {
    for (const MmaOperands operands : kMmaOperands) RecordMma(form, operands);
  }
  for (const TensorCopyCase& test : kTensorCopies) RecordTensorCopy(test);
  ForEachWgmmaProbe(RecordWgmma());
}

}  // namespace
}  // namespace gemmd::testing

int main() { gemmd::testing::RecordAll(); }
