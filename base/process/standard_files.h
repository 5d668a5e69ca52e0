// Descriptors 0, 1 and 2.
#pragma once

namespace gemmd {

// Opens those of the three that are closed, as daemons' and cron's may be, so that no socket or
// pipe of ours gets their number and a line of the log goes into it. Reading or writing what was
// closed still fails: the results of a program that are lost are an error. Ends the process with
// code 1 where it may have no files at all.
//
// REQUIRES: called first in main(), before anything is opened.
void OpenStandardFiles();

}  // namespace gemmd
