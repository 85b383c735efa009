# The fuzz targets of tests/fuzz, in one program: a test each, with the seeds of
# tests/fuzz/corpus/NAME. A new file needs no line here; lines `SPILLWAY_FUZZ(NAME, RUNS)` say what
# is in it, and how many inputs a test tries at least.

if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
  message(FATAL_ERROR "fuzzing needs clang and its runtime: tools/build fuzz finds them")
endif()

file(GLOB fuzz_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fuzz/*.cc)
add_executable(spillway_fuzz)
spillway_compile_together(spillway_fuzz ${fuzz_sources})
target_link_libraries(spillway_fuzz PRIVATE spillway_engine_core)
target_link_options(spillway_fuzz PRIVATE -fsanitize=fuzzer)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_custom_command(TARGET spillway_fuzz POST_BUILD COMMAND ${Python3_EXECUTABLE}
  ${PROJECT_SOURCE_DIR}/tests/fuzz/make_seeds.py --dictionaries ${PROJECT_BINARY_DIR}/dictionaries)

foreach(source ${fuzz_sources})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  file(STRINGS ${source} targets REGEX "^SPILLWAY_FUZZ\\([a-z0-9_]+, [0-9]+\\)")
  foreach(target ${targets})
    string(REGEX MATCH "([a-z0-9_]+), ([0-9]+)" found ${target})
    set(name ${CMAKE_MATCH_1})
    # How long is decided when it runs: cmake/run_fuzz. The limit here only ends what hangs.
    add_test(NAME fuzz/${name} COMMAND ${PROJECT_SOURCE_DIR}/cmake/run_fuzz $<TARGET_FILE:spillway_fuzz>
      ${name} ${CMAKE_MATCH_2} ${PROJECT_SOURCE_DIR}/tests/fuzz ${PROJECT_BINARY_DIR})
    set_tests_properties(fuzz/${name} PROPERTIES TIMEOUT 86400 LABELS fuzz)
  endforeach()
endforeach()
