# The simulated disk: tests/sim, described in docs/TESTING.md.

# Compiled once, and optimised: here time goes into the test itself.
file(GLOB sim_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/sim/sim_*.cc)
list(FILTER sim_sources EXCLUDE REGEX "_test\\.cc$")
list(APPEND sim_sources ${PROJECT_SOURCE_DIR}/tests/device/test_device.cc)
add_library(spillway_sim_parts OBJECT)
spillway_compile_together(spillway_sim_parts ${sim_sources})
# spillway_sim_parts and spillway_cluster_parts use no precompiled header. The preset quick compiles that header
# at -O1, and GCC 12 crashes on sources that use it at -O2.
target_link_libraries(spillway_sim_parts PUBLIC spillway_swap)
target_compile_options(spillway_sim_parts PRIVATE -O2)
set_source_files_properties(${PROJECT_SOURCE_DIR}/tests/sim/sim_model.cc PROPERTIES COMPILE_OPTIONS -O3)

spillway_tests(spillway_sim_test sim spillway_swap)
spillway_take(spillway_sim_test spillway_sim_parts)

# Ranks and their storage on that disk.
file(GLOB cluster_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/cluster/*.cc)
list(FILTER cluster_sources EXCLUDE REGEX "_test\\.cc$")
add_library(spillway_cluster_parts OBJECT)
spillway_compile_together(spillway_cluster_parts ${cluster_sources})
target_link_libraries(spillway_cluster_parts PUBLIC spillway_engine_core)
target_compile_options(spillway_cluster_parts PRIVATE -O2)
spillway_tests(spillway_cluster_test cluster spillway_engine_core)
spillway_take(spillway_cluster_test spillway_sim_parts)
spillway_take(spillway_cluster_test spillway_cluster_parts)

# spillway_mutated(FOLDER SOURCE FIND REPLACE): FOLDER/ and SOURCE's own name, a copy of it in which
# FIND stands replaced.
function(spillway_mutated folder source find replace)
  get_filename_component(file ${source} NAME)
  file(GENERATE OUTPUT ${folder}/find.txt CONTENT "${find}")
  file(GENERATE OUTPUT ${folder}/replace.txt CONTENT "${replace}")
  add_custom_command(OUTPUT ${folder}/${file}
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR}/${source} -DFIND=${folder}/find.txt
      -DREPLACE=${folder}/replace.txt -DOUTPUT=${folder}/${file}
      -P ${PROJECT_SOURCE_DIR}/cmake/SpillwayMutate.cmake
    DEPENDS ${PROJECT_SOURCE_DIR}/${source} ${folder}/find.txt ${folder}/replace.txt
      ${PROJECT_SOURCE_DIR}/cmake/SpillwayMutate.cmake VERBATIM)
endfunction()

# spillway_mutant_test(NAME TARGET REASON): TARGET must notice, and a line of what it says then match
# the regular expression REASON, so that nothing else is taken for it.
function(spillway_mutant_test name target reason)
  add_dependencies(spillway_sim_mutants ${target})
  add_test(NAME ${name} COMMAND ${target} ${reason})
  set_tests_properties(${name} PROPERTIES TIMEOUT 1500 LABELS mutant)
endfunction()

# spillway_sim_mutant(NAME SOURCE FIND REPLACE REASON): the simulation, linked with a copy of SOURCE in
# which FIND stands replaced. The linker takes the copy because it comes before the library.
function(spillway_sim_mutant name source find replace reason)
  spillway_mutant_of(${name} ${source} "${find}" "${replace}" "${reason}"
    $<TARGET_OBJECTS:spillway_sim_mutant_main> $<TARGET_OBJECTS:spillway_sim_parts>)
endfunction()

# spillway_unit_mutant(NAME SOURCE FIND REPLACE REASON TEST): the same, of what the simulation has no
# part of: noticed by the cases of tests/TEST.
function(spillway_unit_mutant name source find replace reason test)
  get_filename_component(cases ${test} NAME_WE)
  set(cases spillway_mutant_cases_${cases})
  if(NOT TARGET ${cases})
    add_library(${cases} OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/${test})
    target_link_libraries(${cases} PRIVATE spillway_swap_apart GTest::gtest GTest::gmock)
    target_compile_options(${cases} PRIVATE ${SPILLWAY_MUTANT_OPTIONS})
  endif()
  spillway_mutant_of(${name} ${source} "${find}" "${replace}" "${reason}"
    $<TARGET_OBJECTS:spillway_unit_mutant_main> $<TARGET_OBJECTS:${cases}>)
  target_link_libraries(spillway_sim_mutant_${name} PRIVATE GTest::gtest GTest::gmock)
endfunction()

function(spillway_mutant_of name source find replace reason)
  set(folder ${PROJECT_BINARY_DIR}/mutants/${name})
  get_filename_component(file ${source} NAME)
  spillway_mutated(${folder} ${source} "${find}" "${replace}")
  set(target spillway_sim_mutant_${name})
  add_executable(${target} EXCLUDE_FROM_ALL ${folder}/${file} ${ARGN})
  # What the library's own copy of the source is compiled with.
  target_link_libraries(${target} PRIVATE spillway_swap_apart spillway::xxhash nlohmann_json::nlohmann_json)
  target_compile_options(${target} PRIVATE ${SPILLWAY_MUTANT_OPTIONS})
  spillway_precompiled_by(${target} spillway_sim_mutant_main)
  spillway_mutant_test(sim/mutant/${name} ${target} "${reason}")
endfunction()

# Under a sanitizer they would show no more, and take ten times as long. They are built and run
# when they are asked for (tools/test mutants), after the control, which is no mutant: no seed may
# notice anything there.
if(NOT SPILLWAY_SANITIZE AND NOT SPILLWAY_OBJECTS)
  add_custom_target(spillway_sim_mutants)
  # The libraries source by source, of which the linker leaves out the one that a copy stands for.
  foreach(library io swap)
    get_target_property(sources spillway_${library} SOURCES)
    get_target_property(libraries spillway_${library} LINK_LIBRARIES)
    list(TRANSFORM libraries REPLACE "^spillway_io$" spillway_io_apart)
    add_library(spillway_${library}_apart STATIC EXCLUDE_FROM_ALL ${sources})
    target_link_libraries(spillway_${library}_apart PUBLIC ${libraries})
    target_include_directories(spillway_${library}_apart PUBLIC ${PROJECT_SOURCE_DIR})
    target_compile_options(spillway_${library}_apart PRIVATE -g0)
    spillway_precompile(spillway_${library}_apart)
  endforeach()
  add_library(spillway_sim_mutant_main OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/sim/mutant_main.cc)
  target_link_libraries(spillway_sim_mutant_main PUBLIC spillway_swap_apart spillway::xxhash
    nlohmann_json::nlohmann_json)
  # Not optimised: most of a mutant's time goes into compiling it.
  set(SPILLWAY_MUTANT_OPTIONS -Wno-unused -O0 -g0)
  target_compile_options(spillway_sim_mutant_main PRIVATE ${SPILLWAY_MUTANT_OPTIONS})
  spillway_precompile(spillway_sim_mutant_main ${PROJECT_SOURCE_DIR}/swap/mover/mover.h)
  add_library(spillway_unit_mutant_main OBJECT EXCLUDE_FROM_ALL
    ${PROJECT_SOURCE_DIR}/tests/sim/mutant_main.cc ${PROJECT_SOURCE_DIR}/tests/sim/mutant_tests.cc)
  target_link_libraries(spillway_unit_mutant_main PUBLIC spillway_swap_apart GTest::gtest)
  target_compile_options(spillway_unit_mutant_main PRIVATE ${SPILLWAY_MUTANT_OPTIONS})
  target_compile_definitions(spillway_unit_mutant_main PRIVATE
    SPILLWAY_RUN_SEEDS=spillway::RunUnitTests)
  add_executable(spillway_sim_control EXCLUDE_FROM_ALL
    $<TARGET_OBJECTS:spillway_sim_mutant_main> $<TARGET_OBJECTS:spillway_sim_parts>)
  target_link_libraries(spillway_sim_control PRIVATE spillway_swap_apart)
  spillway_mutant_test(sim/mutant_control spillway_sim_control --control)
  include(tests/sim/mutations.cmake)
  include(tests/cluster/cluster_mutants.cmake)
endif()
