// What the fuzz targets share. All are in one program, spillway_fuzz, which runs the one that the
// environment's SPILLWAY_FUZZ_TARGET names.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "io/base/check.h"

namespace spillway {

// A reader under random inputs. It returns whether the reader accepts `input`, after checks of
// everything accepted that the rest of the program relies on.
//
//   SPILLWAY_FUZZ(manifest, 20000) { return DecodeManifest(input, "f").ok(); }
//
// A test tries at least so many inputs (cmake/SpillwayFuzz.cmake reads it here). libFuzzer calls it
// again and again; `spillway_fuzz --accepted FILE...` calls it once for each file, and fails where
// one is refused.
#define SPILLWAY_FUZZ(name, runs)                                  \
  static bool Fuzz_##name(absl::string_view input);                \
  static const FuzzTarget fuzz_target_##name(#name, &Fuzz_##name); \
  static_assert(runs > 0);                                         \
  static bool Fuzz_##name(absl::string_view input)

struct FuzzTarget {
  using Accepts = bool (*)(absl::string_view input);
  FuzzTarget(const char* name, Accepts accepts);
};

// Of a refusal: it has one of these codes, which decide the exit code, and a message. False.
bool Refuse(const absl::Status& status, std::initializer_list<absl::StatusCode> codes);

// A place in the input, which its last byte says.
size_t SomewhereIn(absl::string_view input);

// A file in memory with this content, for readers that take a path.
class MemoryFile {
 public:
  explicit MemoryFile(absl::string_view content);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  int fd_;
  std::string path_;
};

// A directory for readers of several files, or of names; it goes with the object.
class ScratchDirectory {
 public:
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string PathOf(absl::string_view name) const;
  void Write(absl::string_view name, absl::string_view content) const;
  // Whatever a reader has left there, too.
  void Empty() const;

 private:
  std::string path_;
};

// An input of several files: a line "=== NAME" begins each. What comes before the first one has
// the name "".
std::map<std::string, std::string> FilesOf(absl::string_view input);

// A safetensors file from text that mutations leave whole: its header is the first line, its data
// what follows, with zeros up to where the header says that they end (64 KiB at most).
std::string SafetensorsOf(absl::string_view text);

}  // namespace spillway
