// A certificate made on the spot, so that no key lies in the repository and none expires.
#pragma once

#include <string>

namespace gemmd::testing {

struct CertifiedKey {
  std::string certificate;  // PEM, signed by itself
  std::string key;          // PEM
};

// For the DNS name `name`, valid for a day.
CertifiedKey MakeSelfSigned(const std::string& name);

}  // namespace gemmd::testing
