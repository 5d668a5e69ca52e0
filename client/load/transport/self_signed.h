// A certificate made on the spot, for the bare echo and for tests: no key lies in the repository,
// and none expires.
#pragma once

#include <string>

namespace gemmd::load {

struct CertifiedKey {
  std::string certificate;  // PEM, signed by itself
  std::string key;          // PEM
};

// For the DNS name `name`, valid for a day.
CertifiedKey MakeSelfSigned(const std::string& name);

}  // namespace gemmd::load
