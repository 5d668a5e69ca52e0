// The networks of clients, by which they are limited.
#pragma once

#include <netinet/in.h>

#include <string>

namespace gemmd {

// "10.0.0.1".
std::string NetworkText(const in_addr& address);

// "2001:db8::/64": a host may use all addresses of such a network. An IPv4 address that is written
// as an IPv6 address is as above.
std::string NetworkText(const in6_addr& address);

}  // namespace gemmd
