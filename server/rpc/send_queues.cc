#include "server/rpc/send_queues.h"

#include <dirent.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstdint>

#include "absl/strings/numbers.h"

namespace gemmd {

std::uint64_t UnacknowledgedBytes() {
  DIR* const descriptors = opendir("/proc/self/fd");
  if (descriptors == nullptr) return 0;
  std::uint64_t sum = 0;
  while (const dirent* entry = readdir(descriptors)) {
    int fd = -1;
    if (!absl::SimpleAtoi(entry->d_name, &fd)) continue;  // "." and ".."
    sockaddr_storage peer;
    socklen_t size = sizeof peer;
    // Neither files nor listening sockets have a peer.
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    int bytes = 0;
    if (ioctl(fd, SIOCOUTQ, &bytes) == 0) sum += static_cast<std::uint64_t>(bytes);
  }
  closedir(descriptors);
  return sum;
}

}  // namespace gemmd
