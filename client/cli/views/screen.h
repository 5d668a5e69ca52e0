// A terminal that is written anew again and again, and keys that are read meanwhile.
#pragma once

#include <termios.h>

#include <cstddef>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace gemmd::cli {

// On a terminal: keys come without a newline and are not shown, until it is destroyed or SIGINT or
// SIGTERM comes, which Wait() tells. Elsewhere texts are written one below the other.
class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Returns whether somebody looks at it.
  bool is_terminal() const { return is_terminal_; }
  // The terminal's size; 0: not known.
  std::size_t columns() const;
  std::size_t rows() const;

  // In the place of what was there.
  void Show(const std::string& text) const;

  struct Event {
    bool is_over = false;  // a signal came
    char key = 0;          // 0: none, the time has passed
  };
  Event Wait(absl::Duration time) const;

 private:
  bool is_terminal_ = false;
  std::optional<termios> before_;  // of standard input, to be restored
};

}  // namespace gemmd::cli
