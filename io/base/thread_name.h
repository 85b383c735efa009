// What top -H, gdb and perf call a thread of ours.
#pragma once

#include <pthread.h>

namespace spillway {

// The calling thread; at most 15 characters.
inline void NameThisThread(const char* name) { ::pthread_setname_np(::pthread_self(), name); }

}  // namespace spillway
