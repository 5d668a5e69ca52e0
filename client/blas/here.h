// The BLAS of this machine that a call would have gone to without this library.
#pragma once

#include <atomic>

namespace gemmd::blas {

// Finds the function of that name in another library of this process: where the loader would have,
// in the objects that all see, then in those that were opened for one user alone, as Python's
// modules are. Null where there is none. The library that has it stays loaded.
void* FindHere(const char* name);

// Ends the process: a call has nobody to compute it.
[[noreturn]] void NobodyComputes(const char* name);

// A function of this machine's BLAS, found at its first call. Constant-initialised, because
// constructors of other libraries may call before those of this one have run.
template <typename Function>
class Here {
 public:
  constexpr Here(const char* name) noexcept : name_(name) {}  // implicit, for tables of names

  // Null where no library has it.
  Function* Find() const {
    if (Function* const found = found_.load(std::memory_order_acquire); found != nullptr) {
      return found;
    }
    auto* const found = reinterpret_cast<Function*>(FindHere(name_));
    found_.store(found, std::memory_order_release);
    return found;
  }

  Function* Get() const {
    Function* const found = Find();
    if (found == nullptr) NobodyComputes(name_);
    return found;
  }

 private:
  const char* const name_;
  mutable std::atomic<Function*> found_ = nullptr;
};

}  // namespace gemmd::blas
