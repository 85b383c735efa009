# Writes the C++ source with what tools/build_info.h says of a build; an unchanged one keeps its time:
#   cmake -DSOURCE=DIR -DOUTPUT=x.cc -DVERSION=0.1.0 -DKIND=TEXT -DTORCH_VERSION=2.11.0 -DCUDA=false
#     -P SpillwayBuildCommit.cmake
set(commit unknown)
find_program(git git)
if(git)
  # Only of this folder's own repository: an unpacked archive may lie inside another one.
  execute_process(COMMAND ${git} -C ${SOURCE} rev-parse --show-toplevel
    OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(REAL_PATH ${SOURCE} source)
  if(top STREQUAL source)
    execute_process(COMMAND ${git} -C ${SOURCE} rev-parse --short=12 HEAD
      OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(failed)
      set(commit unknown)
    else()
      execute_process(COMMAND ${git} -C ${SOURCE} status --porcelain --untracked-files=no
        OUTPUT_VARIABLE changes ERROR_QUIET)
      if(changes)
        string(APPEND commit "+")
      endif()
    endif()
  endif()
endif()
set(code "// Made by cmake/SpillwayBuildCommit.cmake.
#include \"tools/build_info.h\"

namespace spillway {

const char* Version() { return \"${VERSION}\"; }
const char* BuildCommit() { return \"${commit}\"; }
const char* BuildKind() { return \"${KIND}\"; }
bool BuiltWithCuda() { return ${CUDA}; }
const char* TorchVersion() { return \"${TORCH_VERSION}\"; }

}  // namespace spillway
")
set(before "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT code STREQUAL before)
  file(WRITE ${OUTPUT} "${code}")
endif()
