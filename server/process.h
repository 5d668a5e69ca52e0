// The exit codes of the process, and its guards against ends that are not orderly.
#pragma once

namespace gemmd {

inline constexpr int kExitOk = 0;
inline constexpr int kExitCannotStart = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitDrainCutShort = 3;
inline constexpr int kExitDeviceLost = 4;
inline constexpr int kExitOutOfMemory = 5;

// Called at the start of main(). Threads that start after it have stacks of 2 MiB at most. From
// here on
//   a log that nobody reads any more is not written, where SIGPIPE would end the process, nor is a
//   file that would be longer than the process may make it (RLIMIT_FSIZE), where SIGXFSZ would;
//   memory or a thread that cannot be had ends the process as EndWithoutMemory() does, and so does
//   a fault where there is no memory, which is taken for its cause.
void GuardProcess();

// After it the system writes no core dump of the process, and no other process of the user's may
// read its memory: there are keys in it.
void ForbidCoreDumps();

// Ends the process at once, with a line in the log and kExitOutOfMemory: nothing orderly can be
// done without memory.
[[noreturn]] void EndWithoutMemory();

}  // namespace gemmd
