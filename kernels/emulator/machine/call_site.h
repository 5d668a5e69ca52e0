// Where in a kernel's source a wrapped instruction stands.
#pragma once

namespace gemmd::emulator {

struct CallSite {
  const char* file = "";
  int line = 0;

  // Names the line of the caller where Here() is the default value of a parameter.
  static constexpr CallSite Here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return CallSite{file, line};
  }

  bool operator==(const CallSite& other) const { return line == other.line && file == other.file; }
  bool operator!=(const CallSite& other) const { return !(*this == other); }
};

}  // namespace gemmd::emulator
