// A part of a plane that stays on a device, as a work uses it.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "server/device/launch.h"

namespace gemmd {

// Keeps the plane. Takes no memory of its own.
class ResidentPart final : public ResidentOperand {
 public:
  // In bytes.
  struct Place {
    std::uint64_t offset = 0;  // of the part, in the device's memory
    std::uint64_t step = 0;    // see step_bytes()
    std::uint64_t begin = 0;   // see begin_in_whole()
  };

  ResidentPart(std::shared_ptr<const ResidentOperand> plane, const Place& place)
      : plane_(std::move(plane)), place_(place) {}

  const void* data() const override {
    return static_cast<const char*>(plane_->data()) + place_.offset;
  }
  const MatrixLayout& layout() const override { return plane_->layout(); }
  std::uint64_t size_bytes() const override { return 0; }
  std::uint64_t step_bytes() const override { return place_.step; }
  const ResidentOperand& whole() const override { return plane_->whole(); }
  std::uint64_t begin_in_whole() const override { return plane_->begin_in_whole() + place_.begin; }

 private:
  const std::shared_ptr<const ResidentOperand> plane_;  // perhaps a part itself
  const Place place_;
};

// Rows of a D that stays.
class ResidentResultPart final : public ResidentResult {
 public:
  // The rows begin `offset` bytes into it.
  ResidentResultPart(std::shared_ptr<ResidentResult> plane, std::uint64_t offset)
      : plane_(std::move(plane)), offset_(offset) {}

  void* memory() const override { return static_cast<char*>(plane_->memory()) + offset_; }
  const void* data() const override { return memory(); }
  const MatrixLayout& layout() const override { return plane_->layout(); }
  std::uint64_t size_bytes() const override { return 0; }
  const ResidentOperand& whole() const override { return plane_->whole(); }

 private:
  const std::shared_ptr<ResidentResult> plane_;  // perhaps a part itself
  const std::uint64_t offset_;
};

}  // namespace gemmd
