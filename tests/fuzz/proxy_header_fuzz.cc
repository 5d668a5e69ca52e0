// A header of the PROXY protocol is read to its end and not beyond it, whatever comes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"
#include "server/net/proxy_header.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const absl::string_view whole(reinterpret_cast<const char*>(data), size);
  std::size_t begun = 0;
  while (begun <= gemmd::kMostProxyHeaderBytes) {
    // A copy of its own, so that a byte behind it is found.
    const absl::StatusOr<gemmd::ProxyHeader> header =
        gemmd::ReadProxyHeader(std::string(whole.substr(0, begun)));
    if (!header.ok()) return 0;
    const int family = header->client.ss_family;
    if (family != AF_UNSPEC && family != AF_INET && family != AF_INET6) std::abort();
    if (header->missing == 0) return 0;
    if (family != AF_UNSPEC) std::abort();
    if (begun + header->missing > size) return 0;
    begun += header->missing;
  }
  std::abort();
}
