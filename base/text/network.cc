#include "base/text/network.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace gemmd {

std::string NetworkText(const in_addr& address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  inet_ntop(AF_INET, &address, text.data(), text.size());
  return text.data();
}

std::string NetworkText(const in6_addr& address) {
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    constexpr std::size_t kPrefixBytes = 12;
    in_addr v4{};
    std::memcpy(&v4, &address.s6_addr[kPrefixBytes], sizeof v4);
    return NetworkText(v4);
  }
  in6_addr network = address;
  std::fill(network.s6_addr + sizeof network.s6_addr / 2, network.s6_addr + sizeof network.s6_addr,
            0);
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(AF_INET6, &network, text.data(), text.size());
  return absl::StrCat(text.data(), "/64");
}

}  // namespace gemmd
