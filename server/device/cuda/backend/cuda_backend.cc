// The backend over the CUDA runtime. Each call says what it calls; see the CUDA Runtime API
// reference for their contracts.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/device/cuda/backend/backend.h"
#include "server/device/cuda/backend/errors.h"
#include "server/device/cuda/backend/reserved_memory.h"

namespace gemmd {
namespace {

absl::Status ToStatus(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();  // the next call's error must be its own
  return CudaStatus(static_cast<int>(error), cudaGetErrorName(error), cudaGetErrorString(error),
                    call);
}

class RuntimeBackend final : public CudaBackend {
 public:
  explicit RuntimeBackend(CudaProperties properties) : properties_(std::move(properties)) {}

  // Memory, streams and events go with the process: there is one backend a device, and
  // results that leave slowly may outlive its device layer.
  ~RuntimeBackend() override = default;

  const CudaProperties& properties() const override { return properties_; }

  absl::Status ReservePool(std::uint64_t bytes) override {
    if (absl::Status s = Bind(); !s.ok()) return s;
    void* all = nullptr;
    if (absl::Status s = ToStatus(cudaMalloc(&all, bytes), "cudaMalloc"); !s.ok()) return s;
    memory_ = std::make_unique<ReservedMemory>(this, all, bytes);
    return absl::OkStatus();
  }

  absl::StatusOr<void*> Allocate(std::uint64_t bytes, CudaStream stream, BlockLife life) override {
    return memory_->Allocate(bytes, stream, life);
  }

  absl::Status Free(void* memory, CudaStream stream) override {
    return memory_->Free(memory, stream);
  }

  absl::StatusOr<void*> AllocatePinned(std::uint64_t bytes) override {
    if (absl::Status s = Bind(); !s.ok()) return s;
    void* memory = nullptr;
    absl::Status status =
        ToStatus(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable), "cudaHostAlloc");
    if (!status.ok()) return status;
    return memory;
  }

  void FreePinned(void* memory) override { cudaFreeHost(memory); }

  absl::Status RegisterPinned(void* memory, std::uint64_t bytes) override {
    if (absl::Status s = Bind(); !s.ok()) return s;
    return ToStatus(cudaHostRegister(memory, bytes, cudaHostRegisterPortable), "cudaHostRegister");
  }

  void UnregisterPinned(void* memory) override { cudaHostUnregister(memory); }

  absl::StatusOr<CudaSpan> OpenIpcMemory(absl::string_view handle) override {
    if (absl::Status s = Bind(); !s.ok()) return s;
    cudaIpcMemHandle_t opaque;
    if (handle.size() != sizeof(opaque)) {
      return absl::InternalError(absl::StrCat("a handle of ", handle.size(), " bytes"));
    }
    std::memcpy(&opaque, handle.data(), sizeof(opaque));
    CudaSpan span;
    absl::Status status =
        ToStatus(cudaIpcOpenMemHandle(&span.data, opaque, cudaIpcMemLazyEnablePeerAccess),
                 "cudaIpcOpenMemHandle");
    if (!status.ok()) return status;
    absl::StatusOr<CudaSpan> whole = AllocationOf(span.data);
    if (!whole.ok()) CloseIpcMemory(span.data);
    return whole;
  }

  void CloseIpcMemory(void* memory) override { cudaIpcCloseMemHandle(memory); }

  absl::StatusOr<CudaStream> CreateStream(StreamPriority priority) override {
    if (absl::Status s = Bind(); !s.ok()) return s;
    int least = 0;
    int greatest = 0;
    absl::Status status = ToStatus(cudaDeviceGetStreamPriorityRange(&least, &greatest),
                                   "cudaDeviceGetStreamPriorityRange");
    cudaStream_t stream = nullptr;
    status.Update(
        ToStatus(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                              priority == StreamPriority::kHigh ? greatest : least),
                 "cudaStreamCreateWithPriority"));
    if (!status.ok()) return status;
    return stream;
  }

  absl::StatusOr<CudaEvent> CreateEvent() override {
    if (absl::Status s = Bind(); !s.ok()) return s;
    cudaEvent_t event = nullptr;
    absl::Status status = ToStatus(cudaEventCreate(&event), "cudaEventCreate");
    if (!status.ok()) return status;
    return event;
  }

  absl::Status Record(CudaEvent event, CudaStream stream) override {
    if (absl::Status s = Bind(); !s.ok()) return s;
    return ToStatus(cudaEventRecord(event, stream), "cudaEventRecord");
  }

  absl::Status Wait(CudaStream stream, CudaEvent event) override {
    if (absl::Status s = Bind(); !s.ok()) return s;
    return ToStatus(cudaStreamWaitEvent(stream, event, cudaEventWaitDefault),
                    "cudaStreamWaitEvent");
  }

  absl::StatusOr<bool> IsDone(CudaEvent event) override {
    if (absl::Status s = Bind(); !s.ok()) return s;
    const cudaError_t error = cudaEventQuery(event);
    if (error == cudaErrorNotReady) return false;
    if (absl::Status s = ToStatus(error, "cudaEventQuery"); !s.ok()) return s;
    return true;
  }

  absl::StatusOr<std::int64_t> ElapsedNs(CudaEvent from, CudaEvent to) override {
    if (absl::Status s = Bind(); !s.ok()) return s;
    float milliseconds = 0;
    absl::Status status =
        ToStatus(cudaEventElapsedTime(&milliseconds, from, to), "cudaEventElapsedTime");
    if (!status.ok()) return status;
    return static_cast<std::int64_t>(static_cast<double>(milliseconds) * 1e6);
  }

  absl::Status Copy(CopyDirection direction, const CudaRect& rect, CudaStream stream) override {
    if (absl::Status s = Bind(); !s.ok()) return s;
    const cudaMemcpyKind kind = direction == CopyDirection::kToDevice ? cudaMemcpyHostToDevice
                                : direction == CopyDirection::kFromDevice
                                    ? cudaMemcpyDeviceToHost
                                    : cudaMemcpyDeviceToDevice;
    const bool is_span =
        rect.lines == 1 || (rect.to_pitch == rect.width && rect.from_pitch == rect.width);
    if (is_span) {
      return ToStatus(cudaMemcpyAsync(rect.to, rect.from, rect.width * rect.lines, kind, stream),
                      "cudaMemcpyAsync");
    }
    return ToStatus(cudaMemcpy2DAsync(rect.to, rect.to_pitch, rect.from, rect.from_pitch,
                                      rect.width, rect.lines, kind, stream),
                    "cudaMemcpy2DAsync");
  }

  absl::Status CopySpans(absl::Span<const CopySpan> spans, CudaStream stream) override {
    if (absl::Status s = Bind(); !s.ok()) return s;
    LaunchTarget target;
    target.stream = stream;
    return LaunchCopySpans(spans, target);
  }

  absl::Status Zero(void* memory, std::uint64_t bytes, CudaStream stream) override {
    if (absl::Status s = Bind(); !s.ok()) return s;
    return ToStatus(cudaMemsetAsync(memory, 0, bytes, stream), "cudaMemsetAsync");
  }

  absl::Status Launch(LaunchFunction launch, CudaStream stream) override {
    if (absl::Status s = Bind(); !s.ok()) return s;
    LaunchTarget target;
    target.stream = stream;
    return launch(target);
  }

 private:
  // The runtime API does not tell an allocation's size; the driver's does, and it is there
  // wherever the runtime works.
  static absl::StatusOr<CudaSpan> AllocationOf(void* memory) {
    using Function = int (*)(unsigned long long*, std::size_t*, unsigned long long);
    constexpr unsigned int kSince = 3020;  // the version that has 64-bit sizes
    void* symbol = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    absl::Status status =
        ToStatus(cudaGetDriverEntryPointByVersion("cuMemGetAddressRange", &symbol, kSince,
                                                  cudaEnableDefault, &result),
                 "cudaGetDriverEntryPointByVersion");
    if (!status.ok()) return status;
    unsigned long long base = 0;
    std::size_t bytes = 0;
    const auto address = reinterpret_cast<unsigned long long>(memory);
    const int error = symbol == nullptr
                          ? static_cast<int>(cudaErrorSymbolNotFound)
                          : reinterpret_cast<Function>(symbol)(&base, &bytes, address);
    if (error != 0) {
      return absl::InternalError(absl::StrCat("cuMemGetAddressRange: error ", error));
    }
    if (base > address || bytes < address - base) {
      return absl::InternalError("cuMemGetAddressRange: the address is not in its allocation");
    }
    return CudaSpan{memory, bytes - (address - base)};
  }

  // The device is a property of the calling thread.
  absl::Status Bind() const {
    return ToStatus(cudaSetDevice(properties_.ordinal), "cudaSetDevice");
  }

  const CudaProperties properties_;
  std::unique_ptr<ReservedMemory> memory_;
};

absl::StatusOr<CudaProperties> PropertiesOf(int ordinal) {
  cudaDeviceProp prop;
  absl::Status status = ToStatus(cudaSetDevice(ordinal), "cudaSetDevice");
  status.Update(ToStatus(cudaGetDeviceProperties(&prop, ordinal), "cudaGetDeviceProperties"));
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  status.Update(ToStatus(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo"));
  CudaProperties properties;
  const auto attribute = [&](cudaDeviceAttr which, int* value) {
    status.Update(
        ToStatus(cudaDeviceGetAttribute(value, which, ordinal), "cudaDeviceGetAttribute"));
  };
  attribute(cudaDevAttrClockRate, &properties.clock_khz);
  attribute(cudaDevAttrMemoryClockRate, &properties.memory_clock_khz);
  attribute(cudaDevAttrGlobalMemoryBusWidth, &properties.memory_bus_width_bits);
  if (!status.ok()) return status;
  properties.ordinal = ordinal;
  properties.name = prop.name;
  constexpr int kBusIdBytes = 32;
  char bus_id[kBusIdBytes] = {};
  if (cudaDeviceGetPCIBusId(bus_id, kBusIdBytes, ordinal) == cudaSuccess) {
    properties.pci_bus_id = bus_id;
  }
  properties.major = prop.major;
  properties.minor = prop.minor;
  properties.multi_processor_count = prop.multiProcessorCount;
  properties.total_memory_bytes = total_bytes;
  properties.free_memory_bytes = free_bytes;
  return properties;
}

}  // namespace

absl::StatusOr<std::vector<std::shared_ptr<CudaBackend>>> OpenCudaDevices() {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess || count == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("this machine has no CUDA device: ",
                     error == cudaSuccess ? "none is visible" : cudaGetErrorString(error)));
  }
  std::vector<std::shared_ptr<CudaBackend>> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    absl::StatusOr<CudaProperties> properties = PropertiesOf(ordinal);
    if (!properties.ok()) return properties.status();
    devices.push_back(std::make_shared<RuntimeBackend>(*std::move(properties)));
  }
  return devices;
}

}  // namespace gemmd
