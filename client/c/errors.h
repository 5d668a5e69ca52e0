// Statuses as the errors of gemmd.h, and functions that no exception leaves.
#pragma once

#include <cstdint>
#include <exception>
#include <new>
#include <string>

#include "absl/status/status.h"
#include "client/include/gemmd/gemmd.h"

struct gemmd_error {
  gemmd_code code = GEMMD_OK;
  std::string message;
  std::string field;
  std::int64_t limit = -1;
  std::int64_t retry_after_ms = -1;
  std::string details;  // gemmd.v1.StatusDetails
};

namespace gemmd::client::c {

// Returns the status's code, and puts the rest into `*error` unless `error` is null. Never throws:
// where memory is short `*error` is null.
gemmd_code Report(const absl::Status& status, gemmd_error** error) noexcept;

// Runs `function`, which returns a status, and reports it or what it throws.
template <typename Function>
gemmd_code Guarded(gemmd_error** error, Function&& function) noexcept {
  if (error != nullptr) *error = nullptr;
  try {
    return Report(function(), error);
  } catch (const std::bad_alloc&) {
    return Report(absl::ResourceExhaustedError("this process has no memory for it"), error);
  } catch (const std::exception& exception) {
    return Report(absl::InternalError(exception.what()), error);
  } catch (...) {
    return Report(absl::InternalError("an exception without a description"), error);
  }
}

}  // namespace gemmd::client::c
