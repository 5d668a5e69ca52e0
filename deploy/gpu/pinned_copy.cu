// Measures the copies of one 4096^3 bf16 product with nothing around them: A and B to the GPU (64
// MiB), D back (32 MiB), from memory that CUDA allocated and from POSIX shared memory that it
// page-locked. Prints one JSON object:
//   nvcc -O2 -o pinned_copy pinned_copy.cu && ./pinned_copy
#include <cuda_runtime.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr size_t kIn = size_t{64} << 20;
constexpr size_t kOut = size_t{32} << 20;
constexpr int kWarmUp = 5;
constexpr int kRepeats = 100;

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

struct Streams {
  cudaStream_t in;
  cudaStream_t out;
  cudaEvent_t begin;
  cudaEvent_t out_done;
  cudaEvent_t end;
};

// Milliseconds of `repeats` copies of either direction that is asked for, both at once.
double Time(const Streams& s, char* device, char* host, bool in, bool out) {
  const auto copies = [&](int count) {
    for (int i = 0; i < count; ++i) {
      if (in) Check(cudaMemcpyAsync(device, host, kIn, cudaMemcpyHostToDevice, s.in), "copy in");
      if (out) {
        Check(cudaMemcpyAsync(host + kIn, device + kIn, kOut, cudaMemcpyDeviceToHost, s.out),
              "copy out");
      }
    }
  };
  copies(kWarmUp);
  Check(cudaDeviceSynchronize(), "warm-up");
  Check(cudaEventRecord(s.begin, s.in), "record");
  Check(cudaStreamWaitEvent(s.out, s.begin), "wait");
  copies(kRepeats);
  Check(cudaEventRecord(s.out_done, s.out), "record");
  Check(cudaStreamWaitEvent(s.in, s.out_done), "wait");
  Check(cudaEventRecord(s.end, s.in), "record");
  Check(cudaDeviceSynchronize(), "copies");
  float ms = 0;
  Check(cudaEventElapsedTime(&ms, s.begin, s.end), "time");
  return ms / kRepeats;
}

void Report(const char* name, const Streams& s, char* device, char* host) {
  const double in_ms = Time(s, device, host, true, false);
  const double out_ms = Time(s, device, host, false, true);
  const double both_ms = Time(s, device, host, true, true);
  std::printf("\"%s\": {\"in_gb_per_s\": %.2f, \"out_gb_per_s\": %.2f, \"pair_ms\": %.4f}", name,
              kIn / in_ms / 1e6, kOut / out_ms / 1e6, both_ms);
}

}  // namespace

int main() {
  Streams s;
  Check(cudaStreamCreateWithFlags(&s.in, cudaStreamNonBlocking), "stream");
  Check(cudaStreamCreateWithFlags(&s.out, cudaStreamNonBlocking), "stream");
  for (cudaEvent_t* event : {&s.begin, &s.out_done, &s.end}) Check(cudaEventCreate(event), "event");
  char* device = nullptr;
  Check(cudaMalloc(&device, kIn + kOut), "device memory");

  char* allocated = nullptr;
  Check(cudaHostAlloc(&allocated, kIn + kOut, cudaHostAllocDefault), "host memory");
  std::memset(allocated, 1, kIn + kOut);

  char name[64];
  std::snprintf(name, sizeof name, "/gemmd-pinned-copy-%d", getpid());
  const int file = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
  if (file < 0 || ftruncate(file, kIn + kOut) != 0) {
    std::perror("shared memory");
    return 1;
  }
  shm_unlink(name);
  auto* const shared =
      static_cast<char*>(mmap(nullptr, kIn + kOut, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  if (shared == MAP_FAILED) {
    std::perror("mapping");
    return 1;
  }
  std::memset(shared, 1, kIn + kOut);
  Check(cudaHostRegister(shared, kIn + kOut, cudaHostRegisterDefault), "page-locking");

  std::printf("{");
  Report("allocated", s, device, allocated);
  std::printf(", ");
  Report("registered", s, device, shared);
  std::printf("}\n");
  return 0;
}
