#include "server/process.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <exception>
#include <new>
#include <system_error>

#include "server/observe/log.h"

namespace gemmd {
namespace {

// The first of several threads says why.
[[noreturn]] void End(const char* error) {
  static std::atomic_flag is_ending = ATOMIC_FLAG_INIT;
  while (is_ending.test_and_set()) pause();
  LogWithoutMemory("out_of_memory", error);
  _exit(kExitOutOfMemory);
}

std::terminate_handler usual_end = nullptr;

void EndWithException() {
  if (const std::exception_ptr exception = std::current_exception(); exception != nullptr) {
    try {
      std::rethrow_exception(exception);
    } catch (const std::bad_alloc&) {  // not operator new's: a fiber's stack, for example
      EndWithoutMemory();
    } catch (const std::system_error& error) {
      if (error.code() == std::errc::resource_unavailable_try_again) {
        End("no thread can be started: there is no memory for its stack, or there are too many");
      }
    } catch (...) {
      usual_end();  // a bug, of which that tells more
    }
  }
  usual_end();
}

struct Fault {
  int signal;
  struct sigaction usual;
};
Fault faults[] = {{SIGSEGV, {}}, {SIGBUS, {}}, {SIGABRT, {}}};

// A thread's stack takes so much, or what an allocator asks for at a time.
bool HasMemory() {
  constexpr std::size_t kBytes = 8 << 20;
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory != MAP_FAILED && munmap(memory, kBytes) == 0;
}

// jemalloc itself crashes in a thread whose first allocation fails. If there is memory, the fault
// is a bug: the instruction that made it makes it again once this returns, and that ends the
// process as usual. A signal that was sent is sent again.
void EndWithFault(int signal, siginfo_t* info, void* /*context*/) {
  if (!HasMemory()) EndWithoutMemory();
  for (const Fault& fault : faults) {
    if (fault.signal == signal) sigaction(signal, &fault.usual, nullptr);
  }
  if (info->si_code <= 0) raise(signal);
}

// Address space is what RLIMIT_AS counts, and the usual 8 MiB for each of some 26 threads are a
// fifth of a gibibyte. None of them goes deep: kernels that are emulated have stacks of their own.
void ShortenStacks() {
  constexpr std::size_t kStackBytes = 2 << 20;
  pthread_attr_t attributes;
  if (pthread_getattr_default_np(&attributes) != 0) return;
  std::size_t usual = 0;
  if (pthread_attr_getstacksize(&attributes, &usual) == 0 && usual > kStackBytes) {
    pthread_attr_setstacksize(&attributes, kStackBytes);
    pthread_setattr_default_np(&attributes);
  }
  pthread_attr_destroy(&attributes);
}

}  // namespace

void ForbidCoreDumps() { prctl(PR_SET_DUMPABLE, 0); }

void GuardProcess() {
  ShortenStacks();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  std::set_new_handler(EndWithoutMemory);
  usual_end = std::set_terminate(EndWithException);
  struct sigaction action {};
  action.sa_sigaction = EndWithFault;
  action.sa_flags = SA_SIGINFO;
  for (Fault& fault : faults) sigaction(fault.signal, &action, &fault.usual);
}

void EndWithoutMemory() {
  End("an allocation failed: give the process more memory, or lower its limits");
}

}  // namespace gemmd
