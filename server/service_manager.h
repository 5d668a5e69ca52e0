// Tells systemd, or another that set NOTIFY_SOCKET, what the server's state is: sd_notify(3)
// without its library.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace gemmd {

// Sends one state, as "READY=1". Does nothing where NOTIFY_SOCKET is not set, and never waits.
void TellServiceManager(absl::string_view state);

// The states of a reload; a unit of Type=notify-reload asks for the time at which it began.
std::string ReloadingState();

}  // namespace gemmd
