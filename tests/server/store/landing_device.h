// A device with memory of its own, in which operands stay.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "server/device/device.h"

namespace gemmd::testing {

// Lands an operand by copying it, K-major ones apart from others.
class LandingDevice : public Device {
 public:
  explicit LandingDevice(std::uint64_t memory_bytes) : memory_(memory_bytes) {}

  const DeviceTraits& traits() const override { return traits_; }
  MemoryBudget& memory() override { return memory_; }
  int max_in_flight() const override { return 1; }
  void Submit(DeviceLaunch, Callback) override {}
  bool uses_host_memory() const override { return false; }
  Problem Landed(const Problem& problem) const override {
    Problem landed = problem;
    landed.b.order = problem.transpose_b ? Order::kRowMajor : Order::kColumnMajor;
    landed.b.leading_dimension = landed.b.inner();
    return landed;
  }
  absl::StatusOr<HostPiece> AllocateResident(std::uint64_t bytes) override {
    return AllocateHostBuffer(bytes).front();
  }
  absl::StatusOr<std::shared_ptr<ResidentResult>> AllocateKept(const MatrixLayout& d) override {
    return Make(d, std::string(d.size_bytes(), '?'));
  }
  absl::StatusOr<std::shared_ptr<const ResidentOperand>> Store(const Problem& problem,
                                                               WorkPlane plane,
                                                               const void* data) override {
    ++stores;
    return Make(ResidentPlaneOf(Landed(problem), plane),
                std::string(static_cast<const char*>(data), PlaneOf(problem, plane).size_bytes()));
  }
  absl::StatusOr<std::unique_ptr<ArrivingOperand>> BeginStore(const Problem& problem,
                                                              WorkPlane plane) override {
    absl::StatusOr<std::shared_ptr<Resident>> made =
        Make(ResidentPlaneOf(Landed(problem), plane),
             std::string(PlaneOf(problem, plane).size_bytes(), '?'));
    if (!made.ok()) return made.status();
    ++arrivals;
    return std::make_unique<Arriving>(this, *std::move(made));
  }
  absl::StatusOr<std::shared_ptr<const ResidentOperand>> StoreAgain(const ResidentOperand& operand,
                                                                    const Problem& problem,
                                                                    WorkPlane plane) override {
    ++copies;
    return Make(ResidentPlaneOf(Landed(problem), plane),
                static_cast<const Resident&>(operand).bytes);
  }
  absl::Status Fetch(const ResidentOperand& operand, void* to) override {
    if (!fetch_status.ok()) return fetch_status;
    ++fetches;
    const std::string& bytes = static_cast<const Resident&>(operand).bytes;
    std::memcpy(to, bytes.data(), bytes.size());
    return absl::OkStatus();
  }

  std::atomic<int> stores = 0;
  std::atomic<int> copies = 0;
  std::atomic<int> fetches = 0;
  absl::Status fetch_status;
  std::atomic<int> arrivals = 0;    // that have begun
  std::atomic<int> early_ends = 0;  // of them, with bytes missing
  std::atomic<std::uint64_t> brought_bytes = 0;
  std::atomic<std::uint64_t> bring_until = ~std::uint64_t{0};  // more brought_bytes fail
  std::function<void()> on_brought = [] {};

 private:
  struct Resident final : ResidentResult {
    const void* data() const override { return bytes.data(); }
    void* memory() const override { return const_cast<char*>(bytes.data()); }
    const MatrixLayout& layout() const override { return landed; }
    std::uint64_t size_bytes() const override { return bytes.size(); }
    MatrixLayout landed;
    std::string bytes;
    MemoryReservation reservation;
  };
  class Arriving final : public ArrivingOperand {
   public:
    Arriving(LandingDevice* device, std::shared_ptr<Resident> resident)
        : device_(device), resident_(std::move(resident)) {}
    absl::Status Bring(const void* plane, std::uint64_t begin, std::uint64_t end) override {
      if (device_->brought_bytes + (end - begin) > device_->bring_until) {
        return absl::InternalError("a fault");
      }
      std::memcpy(resident_->bytes.data() + begin, static_cast<const char*>(plane) + begin,
                  end - begin);
      bytes_ += end - begin;
      device_->brought_bytes += end - begin;
      device_->on_brought();
      return absl::OkStatus();
    }
    absl::StatusOr<std::shared_ptr<const ResidentOperand>> Finish() override {
      if (bytes_ != resident_->bytes.size()) {
        ++device_->early_ends;
        return absl::InternalError("bytes are missing");
      }
      return std::shared_ptr<const ResidentOperand>(std::move(resident_));
    }

   private:
    LandingDevice* const device_;
    std::shared_ptr<Resident> resident_;
    std::uint64_t bytes_ = 0;
  };
  absl::StatusOr<std::shared_ptr<Resident>> Make(const MatrixLayout& landed, std::string bytes) {
    absl::StatusOr<MemoryReservation> reservation = memory_.ReserveResident(bytes.size());
    if (!reservation.ok()) return reservation.status();
    auto resident = std::make_shared<Resident>();
    resident->landed = landed;
    resident->bytes = std::move(bytes);
    resident->reservation = *std::move(reservation);
    return resident;
  }
  DeviceTraits traits_;
  MemoryBudget memory_;
};

}  // namespace gemmd::testing
