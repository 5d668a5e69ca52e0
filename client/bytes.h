// Memory that matrices live in, and that requests and results travel from and to.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace gemmd::client {

// Immutable bytes that live as long as anyone holds them: copies share them. Any object may be what
// keeps them alive, so that memory of a caller's own goes out without a copy.
class Bytes {
 public:
  Bytes() = default;
  // Takes the string over; its bytes stay where they are unless it is short.
  explicit Bytes(std::string text) {
    auto holder = std::make_shared<const std::string>(std::move(text));
    view_ = *holder;
    owner_ = std::move(holder);
  }
  // REQUIRES: `view` stays as it is while `owner` lives.
  Bytes(std::shared_ptr<const void> owner, absl::string_view view)
      : owner_(std::move(owner)), view_(view) {}

  // Those of a mapped file, which are read again where their pages have been given back (file.h).
  static Bytes OfMappedFile(std::shared_ptr<const void> owner, absl::string_view view) {
    Bytes bytes(std::move(owner), view);
    bytes.is_mapped_file_ = true;
    return bytes;
  }
  // Returns a part, which keeps the whole alive. REQUIRES: `view` lies within it.
  Bytes Part(absl::string_view view) const {
    Bytes part = *this;
    part.view_ = view;
    return part;
  }

  absl::string_view view() const { return view_; }
  bool is_mapped_file() const { return is_mapped_file_; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  std::shared_ptr<const void> owner_;
  absl::string_view view_;
  bool is_mapped_file_ = false;
};

// Memory to be filled, once, and then kept as Bytes. Not initialised: what is filled from a
// network should not be written twice.
class Buffer {
 public:
  // Throws std::bad_alloc. Large ones begin at a huge page's boundary and ask for such pages,
  // because otherwise filling them waits for a page fault every 4 KiB.
  static Buffer Allocate(std::uint64_t bytes);
  // Memory of a caller's own, which the pointer keeps.
  static Buffer Of(std::shared_ptr<char> memory, std::uint64_t bytes) {
    return {std::move(memory), bytes};
  }

  char* data() const { return memory_.get(); }
  std::uint64_t size() const { return size_; }

  // The first `bytes` of it. REQUIRES: they have been written, and bytes <= size().
  Bytes Freeze(std::uint64_t bytes) && {
    const absl::string_view view(memory_.get(), bytes);
    return {std::move(memory_), view};
  }

 private:
  Buffer(std::shared_ptr<char> memory, std::uint64_t size)
      : memory_(std::move(memory)), size_(size) {}

  std::shared_ptr<char> memory_;
  std::uint64_t size_;
};

}  // namespace gemmd::client
