#include "kernels/plan_memo.h"

#include <cstring>
#include <utility>

namespace gemmd {
namespace {

// The bytes of every field, without the gaps that a struct has between them.
class Key {
 public:
  template <typename T>
  void Add(const T& value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    std::memcpy(bytes_ + size_, &value, sizeof value);
    size_ += sizeof value;
  }
  void Add(const Scaling& scaling) { Add(scaling.key()); }
  void Add(const MatrixLayout& layout) {
    Add(layout.type);
    Add(layout.rows);
    Add(layout.columns);
    Add(layout.order);
    Add(layout.leading_dimension);
  }
  std::string ToString(absl::string_view device, absl::string_view kernel) const {
    std::string key;
    key.reserve(size_ + device.size() + 1 + kernel.size());
    key.append(bytes_, size_);
    key.append(device.data(), device.size());
    key += '\0';
    key.append(kernel.data(), kernel.size());
    return key;
  }

 private:
  char bytes_[256];
  std::size_t size_ = 0;
};

std::string KeyOf(const Problem& problem, const DeviceTraits& device, absl::string_view kernel_name,
                  std::int64_t problems) {
  Key key;
  for (const std::int64_t size : {problem.m, problem.n, problem.k, problems}) key.Add(size);
  for (const MatrixLayout* layout : {&problem.a, &problem.b, &problem.c, &problem.d}) {
    key.Add(*layout);
  }
  key.Add(problem.transpose_a);
  key.Add(problem.transpose_b);
  key.Add(problem.a_scaling);
  key.Add(problem.b_scaling);
  key.Add(problem.b_packing);
  key.Add(problem.accumulate);
  key.Add(problem.epilogue.alpha);
  key.Add(problem.epilogue.beta);
  key.Add(problem.epilogue.has_bias);
  key.Add(problem.epilogue.activation);
  key.Add(problem.determinism);
  return key.ToString(device.name, kernel_name);
}

}  // namespace

absl::StatusOr<Plan> PlanMemo::Select(const Problem& problem, const DeviceTraits& device,
                                      absl::string_view kernel_name, std::int64_t problems) {
  std::string key = KeyOf(problem, device, kernel_name, problems);
  // Read before the plans are looked at, so that a plan inserted meanwhile makes this answer old.
  const std::uint64_t revision = measured_ == nullptr ? 0 : measured_->revision();
  {
    const MutexLock lock(mutex_);
    if (revision_ == revision) {
      const auto found = plans_.find(key);
      if (found != plans_.end()) return found->second;
    }
  }
  absl::StatusOr<Plan> plan =
      gemmd::Select(registry_, problem, device, kernel_name, measured_, problems);
  if (!plan.ok()) return plan;
  const MutexLock lock(mutex_);
  if (revision_ < revision || plans_.size() >= kMostPlans) plans_.clear();
  if (revision_ <= revision) {
    revision_ = revision;
    plans_.insert_or_assign(std::move(key), *plan);
  }
  return plan;
}

std::size_t PlanMemo::size() const {
  const MutexLock lock(mutex_);
  return plans_.size();
}

}  // namespace gemmd
