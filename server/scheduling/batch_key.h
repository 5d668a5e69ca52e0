// The key of a batch: jobs with equal keys may share a launch. A value.
#pragma once

#include <cstdint>
#include <tuple>

#include "server/device/launch.h"

namespace gemmd {

class BatchKey {
 public:
  // The key of a work that FormOf() gave that form, which is not kAlone.
  BatchKey(BatchForm form, const DeviceWork& work);

  BatchForm form() const { return form_; }

  friend bool operator<(const BatchKey& x, const BatchKey& y) { return x.Tied() < y.Tied(); }

 private:
  // For kGroup, where every product keeps its own plan, all but the class is zero.
  using Fields = std::tuple<Determinism, std::uint64_t, const Kernel*, DataType, DataType, DataType,
                            std::int64_t, std::int64_t, bool, bool, Scaling, Scaling, Activation,
                            double, const void*, const void*>;
  std::tuple<BatchForm, const Fields&> Tied() const { return {form_, fields_}; }

  BatchForm form_;
  Fields fields_{};
};

}  // namespace gemmd
