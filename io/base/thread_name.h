// The names of our threads in top -H, gdb and perf.
#pragma once

#include <pthread.h>

namespace spillway {

// Names the calling thread; at most 15 characters.
inline void NameThisThread(const char* name) { ::pthread_setname_np(::pthread_self(), name); }

}  // namespace spillway
