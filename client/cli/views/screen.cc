#include "client/cli/views/screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <iostream>

#include "absl/time/clock.h"

namespace gemmd::cli {
namespace {

volatile std::sig_atomic_t is_over = 0;

winsize SizeOf() {
  winsize size{};
  ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
  return size;
}

}  // namespace

Screen::Screen() : is_terminal_(isatty(STDOUT_FILENO) == 1) {
  struct sigaction action {};
  action.sa_handler = [](int /*signal*/) { is_over = 1; };
  // Without SA_RESTART, so that waiting ends.
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  termios now{};
  if (!is_terminal_ || isatty(STDIN_FILENO) != 1 || tcgetattr(STDIN_FILENO, &now) != 0) return;
  before_ = now;
  now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  tcsetattr(STDIN_FILENO, TCSANOW, &now);
}

Screen::~Screen() {
  if (is_terminal_) std::cout << "\n";
  if (before_.has_value()) tcsetattr(STDIN_FILENO, TCSANOW, &*before_);
}

std::size_t Screen::columns() const { return is_terminal_ ? SizeOf().ws_col : 0; }
std::size_t Screen::rows() const { return is_terminal_ ? SizeOf().ws_row : 0; }

void Screen::Show(const std::string& text) const {
  // Home, the text, and what is left of the screen cleared: no flicker (ECMA-48, 8.3.21
  // and 8.3.39).
  constexpr char kHome[] = "\x1b[H";
  constexpr char kClearLine[] = "\x1b[K";
  constexpr char kClearBelow[] = "\x1b[J";
  if (!is_terminal_) {
    std::cout << text << std::flush;
    return;
  }
  std::cout << kHome;
  for (const char each : text) {
    if (each == '\n') std::cout << kClearLine;
    std::cout << each;
  }
  std::cout << kClearLine << kClearBelow << std::flush;
}

Screen::Event Screen::Wait(absl::Duration time) const {
  const absl::Time end = absl::Now() + time;
  pollfd input{before_.has_value() ? STDIN_FILENO : -1, POLLIN, 0};
  while (is_over == 0) {
    const auto left = absl::ToInt64Milliseconds(end - absl::Now());
    if (left <= 0) return {};
    constexpr std::int64_t kMost = 1000;
    const int count = poll(&input, 1, static_cast<int>(std::min(left, kMost)));
    char key = 0;
    if (count <= 0) continue;
    if (read(STDIN_FILENO, &key, 1) != 1) input.fd = -1;  // it has ended
    if (key != 0) return {false, key};
  }
  return {true, 0};
}

}  // namespace gemmd::cli
