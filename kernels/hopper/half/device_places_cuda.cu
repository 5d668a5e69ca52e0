#include <cuda_runtime.h>

#include <map>
#include <mutex>

#include "kernels/hopper/half/device_places.h"
#include "kernels/hopper/half/placement_probe.h"
#include "kernels/ptx/launch.h"

namespace gemmd::hopper::half {
inline namespace GEMMD_BACKEND {
namespace {

// More than half of a multiprocessor's, so that it holds one block.
constexpr std::uint32_t kProbeSharedBytes = 120 * 1024;

// A stream and memory of the probe's own, and legal while another stream is being captured.
class Probe {
 public:
  Probe() {
    cudaThreadExchangeStreamCaptureMode(&capture_mode_);
    Note(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    if (status_.ok()) Note(cudaMalloc(&memory_, kMostPlaces * 2 * sizeof(std::uint32_t)));
  }
  ~Probe() {
    cudaFree(memory_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
    cudaThreadExchangeStreamCaptureMode(&capture_mode_);
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  // The multiprocessors of the blocks of each cluster of the largest grid that fits.
  std::vector<std::vector<std::uint32_t>> Run(std::uint32_t cluster_size) {
    const std::uint32_t clusters = ptx::Multiprocessors() / cluster_size;
    std::vector<std::uint32_t> found(std::size_t{clusters} * cluster_size);
    std::vector<std::vector<std::uint32_t>> all;
    if (!status_.ok() || found.size() > 2 * kMostPlaces) return all;
    ptx::LaunchShape shape;
    shape.kernel = "placement probe";
    shape.blocks_x = clusters * cluster_size;
    shape.cluster_size = cluster_size;
    shape.shared_bytes = kProbeSharedBytes;
    LaunchTarget target;
    target.stream = stream_;
    PlacementProbeParams params;
    params.multiprocessors = static_cast<std::uint32_t*>(memory_);
    status_.Update(ptx::Launch(PlacementProbe, shape, params, {}, target));
    if (status_.ok()) {
      Note(cudaMemcpyAsync(found.data(), memory_, found.size() * sizeof found[0],
                           cudaMemcpyDeviceToHost, stream_));
    }
    if (status_.ok()) Note(cudaStreamSynchronize(stream_));
    if (!status_.ok()) return all;
    for (auto at = found.begin(); at != found.end(); at += cluster_size) {
      all.emplace_back(at, at + cluster_size);
    }
    return all;
  }

  const absl::Status& status() const { return status_; }

 private:
  void Note(cudaError_t error) {
    if (error == cudaSuccess) return;
    status_.Update(
        absl::InternalError(absl::StrCat("placement probe: ", cudaGetErrorString(error))));
  }

  cudaStreamCaptureMode capture_mode_ = cudaStreamCaptureModeRelaxed;
  cudaStream_t stream_ = nullptr;
  void* memory_ = nullptr;
  absl::Status status_;
};

absl::StatusOr<DevicePlaces> ProbePlaces() {
  Probe probe;
  std::vector<std::uint32_t> first;
  std::vector<std::vector<std::uint32_t>> joined;
  for (const std::uint32_t size : {2u, 8u, 6u, 4u}) {
    for (std::vector<std::uint32_t>& cluster : probe.Run(size)) {
      if (size == 2) first.push_back(cluster.front());
      joined.push_back(std::move(cluster));
    }
  }
  if (!probe.status().ok()) return probe.status();
  const auto clusters = static_cast<std::uint32_t>(first.size());
  if (clusters > kMostPlaces) return DevicePlaces{0, PlainPlaces()};
  return DevicePlaces{clusters, PlacesByNeighbours(joined, first)};
}

}  // namespace

absl::StatusOr<DevicePlaces> PlacesOfPairs() {
  static std::mutex mutex;
  static auto* const known = new std::map<int, DevicePlaces>;  // guarded by mutex
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) {
    return absl::InternalError(cudaGetErrorString(error));
  }
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = known->find(device);
  if (found != known->end()) return found->second;
  absl::StatusOr<DevicePlaces> places = ProbePlaces();
  if (places.ok()) known->emplace(device, *places);
  return places;
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::half
