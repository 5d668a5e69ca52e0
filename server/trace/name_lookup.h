// The addresses of a host by its name, without ever waiting for name servers that do not answer.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"

namespace gemmd {

// getaddrinfo() takes as long as name servers do, and nothing ends it: it runs on a thread that
// nobody waits for, also where this is destroyed or the process ends. There is one such thread at
// most; who asks while it is busy gets its answer. Used by one thread, the io_context's.
class NameLookup {
 public:
  using Addresses = std::vector<boost::asio::ip::tcp::endpoint>;
  using Lookup = std::function<Addresses()>;  // may block

  explicit NameLookup(Lookup lookup);
  // By getaddrinfo().
  static NameLookup System(const std::string& host, const std::string& port);
  ~NameLookup() { Forget(); }
  NameLookup(const NameLookup&) = delete;
  NameLookup& operator=(const NameLookup&) = delete;

  // `done` is posted to the context, which lives until then or until Forget(): no address means
  // that there is none. REQUIRES: no earlier question waits for its answer.
  void Find(boost::asio::io_context* io, std::function<void(const Addresses&)> done);
  // Makes sure that the last question's `done` is not called. Returns whether it was still to be.
  bool Forget();

 private:
  struct State;

  const Lookup lookup_;
  const std::shared_ptr<State> state_;
};

}  // namespace gemmd
