# The fuzz programs: tests/fuzz/NAME_fuzz.cc each, one libFuzzer target with the seeds of
# tests/fuzz/corpus/NAME. A new file needs no line here. Sources that are in none of the
# libraries without LibTorch are named in the target itself, in a line
#
#   // FUZZ_SOURCES: engine/families/gpt2_config.cc

if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
  message(FATAL_ERROR "the fuzz programs need clang and its runtime: tools/build fuzz finds them")
endif()

add_custom_target(spillway_fuzz ALL)
file(GLOB fuzz_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz/*_fuzz.cc)
foreach(source ${fuzz_sources})
  get_filename_component(program ${source} NAME_WE)
  string(REGEX REPLACE "_fuzz$" "" name ${program})
  file(STRINGS ${source} more REGEX "^// FUZZ_SOURCES: ")
  string(REGEX REPLACE "// FUZZ_SOURCES: *" "" more "${more}")
  separate_arguments(more)
  list(TRANSFORM more PREPEND ${CMAKE_SOURCE_DIR}/)
  add_executable(${program} ${source} ${more})
  target_link_libraries(${program} PRIVATE spillway_engine_core)
  target_link_options(${program} PRIVATE -fsanitize=fuzzer)
  add_dependencies(spillway_fuzz ${program})
  # How long is decided when it runs: cmake/run_fuzz. The limit here only ends what hangs.
  add_test(NAME fuzz/${name} COMMAND ${CMAKE_SOURCE_DIR}/cmake/run_fuzz $<TARGET_FILE:${program}>
    ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name} ${CMAKE_BINARY_DIR})
  set_tests_properties(fuzz/${name} PROPERTIES TIMEOUT 86400 LABELS fuzz)
endforeach()
