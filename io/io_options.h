// What an I/O engine (io/io_engine.h) is told. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spillway {

class File;
class Trace;

struct IoMemory {
  char* data = nullptr;
  uint64_t size_bytes = 0;
};

struct IoEngineOptions {
  enum class Kind { kAuto, kUring, kThreads };
  Kind kind = Kind::kAuto;
  // Transfers are cut into blocks of this size...
  uint32_t block_bytes = 1 << 20;
  // ...and at most so many are in flight, over all requests and files.
  uint32_t depth = 32;
  // Threads of the thread-pool engine.
  uint32_t threads = 4;
  // While there are demand reads about (the last one at most ten seconds ago), at most so
  // many bytes of writes of the class kWriteBack are in flight per file, or one block:
  // what a demand read may find before it at a drive.
  uint64_t write_window_bytes = 8 << 20;

  // What transfers will mostly use; both outlive the engine. io_uring registers them once,
  // which saves the kernel a look-up per block. Where that is refused, and for all other
  // memory and files, everything works as without.
  std::vector<IoMemory> memory = {};
  std::vector<const File*> files = {};

  // io_uring only, and dropped where refused. Wait for direct transfers by asking the drive
  // instead of by interrupt (IOPOLL): a core stays busy while any are in flight.
  bool poll = false;
  // A kernel thread takes the submissions (SQPOLL): saves system calls, costs most of a
  // core. Not beside `poll`.
  bool sqpoll = false;

  // Log which engine it became, and why.
  bool announce = true;
  // Where block size and depth come from, for that line: "tuned"; "" says nothing.
  std::string origin = {};

  // Takes note of every request; outlives the engine. May be null.
  Trace* trace = nullptr;
};

}  // namespace spillway
