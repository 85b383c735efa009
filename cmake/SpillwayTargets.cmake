# How a layer's library and its tests are made, with the sanitizer they run under.

if(SPILLWAY_SANITIZE)
  # One finding ends the test; findings are not counted and passed by.
  add_compile_options(-fsanitize=${SPILLWAY_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(SPILLWAY_SANITIZE MATCHES undefined)
    # ASan sees these too, and they are a quarter of what compiling takes.
    add_compile_options(-fno-sanitize=null,object-size,vptr)
  endif()
  add_link_options(-fsanitize=${SPILLWAY_SANITIZE})
endif()

# Warnings of clang about what is written for GCC, where it is right and clang does without.
if(SPILLWAY_FUZZ)
  add_compile_options(-Wno-ignored-attributes -Wno-unknown-pragmas -Wno-unused-function)
endif()

# What is tested is optimised and has debugging information, what tests it has neither: half to compile.
# A finding in a test itself names its functions.
set(SPILLWAY_TEST_OPTIONS -O0 -g0)
if(SPILLWAY_FUZZ)
  list(APPEND SPILLWAY_TEST_OPTIONS -fno-sanitize=fuzzer-no-link) # what is fuzzed counts its branches
endif()

# Left out where headers are mostly templates, GoogleTest's and LibTorch's: checks of every
# access in them take longer to compile than all the rest.
set(SPILLWAY_FEWER_CHECKS "")
if(SPILLWAY_SANITIZE MATCHES undefined)
  set(SPILLWAY_FEWER_CHECKS -fno-sanitize=alignment)
endif()

# Every test has a temporary folder of its own.
set(CMAKE_CROSSCOMPILING_EMULATOR ${PROJECT_SOURCE_DIR}/cmake/run_test)
if(SPILLWAY_SANITIZE)
  # GCC 12's sanitizers want their shadow at fixed places, which a kernel with much address
  # randomisation may have taken: run without it where that is allowed.
  find_program(SPILLWAY_SETARCH setarch)
  if(SPILLWAY_SETARCH)
    execute_process(COMMAND ${SPILLWAY_SETARCH} -R true RESULT_VARIABLE refused OUTPUT_QUIET ERROR_QUIET)
    if(NOT refused)
      list(APPEND CMAKE_CROSSCOMPILING_EMULATOR ${SPILLWAY_SETARCH} -R)
    endif()
  endif()
endif()

# The environment of every test: what sanitizers shall ignore (LibTorch and its OpenMP
# runtime are not instrumented), and under TSan one OpenMP thread, whose joins it can't see.
# Disks are measured only by the tests that are about that.
set(SPILLWAY_TEST_ENVIRONMENT
  "SPILLWAY_PROFILE=off"
  "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1"
  "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/lsan.supp:print_suppressions=0"
  "UBSAN_OPTIONS=print_stacktrace=1"
  "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/tsan.supp:second_deadlock_stack=1")
if(SPILLWAY_SANITIZE STREQUAL "thread")
  list(APPEND SPILLWAY_TEST_ENVIRONMENT OMP_NUM_THREADS=1)
endif()

# What most sources include takes most of compiling them: it is compiled once for all libraries, once
# for all tests, and for a target with more of it (spillway_precompile(TARGET MORE...)) by itself.
# What a source forgot to include tests/structure_test.py names.
set(SPILLWAY_PRECOMPILED <algorithm> <chrono> <cmath> <cstdint> <filesystem> <functional> <map> <memory>
  <mutex> <optional> <string> <thread> <utility> <vector> <absl/status/statusor.h> <absl/strings/match.h>
  <absl/strings/numbers.h> <absl/strings/str_cat.h> <absl/strings/str_format.h> <absl/strings/str_join.h>
  <absl/strings/str_split.h> <absl/types/span.h> <nlohmann/json.hpp>)
file(WRITE ${PROJECT_BINARY_DIR}/precompiled.cc.new "// Empty: a target needs a source, and this one is there for its precompiled headers.\n")
file(COPY_FILE ${PROJECT_BINARY_DIR}/precompiled.cc.new ${PROJECT_BINARY_DIR}/precompiled.cc ONLY_IF_DIFFERENT)
function(spillway_headers name)
  add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/precompiled.cc)
  target_link_libraries(${name} PRIVATE nlohmann_json::nlohmann_json)
  target_precompile_headers(${name} PRIVATE ${SPILLWAY_PRECOMPILED} ${ARGN})
endfunction()
if(NOT SPILLWAY_OBJECTS)
  spillway_headers(spillway_library_headers)
  spillway_headers(spillway_test_headers <gmock/gmock.h> <gtest/gtest.h>)
  target_link_libraries(spillway_test_headers PRIVATE GTest::gtest GTest::gmock)
  target_compile_options(spillway_test_headers PRIVATE ${SPILLWAY_FEWER_CHECKS} ${SPILLWAY_TEST_OPTIONS})
endif()
# The same headers, as another target compiles them.
function(spillway_precompiled_by target other)
  if(TARGET ${other} AND NOT SPILLWAY_OBJECTS)
    target_precompile_headers(${target} REUSE_FROM ${other})
  endif()
endfunction()
function(spillway_precompile target)
  if(NOT ARGN)
    spillway_precompiled_by(${target} spillway_library_headers)
  elseif(NOT SPILLWAY_OBJECTS)
    target_precompile_headers(${target} PRIVATE ${SPILLWAY_PRECOMPILED} ${ARGN})
  endif()
endfunction()

# spillway_compile_together(TARGET SOURCE...): gives a target its sources. Those of a folder, and of small ones
# that follow one another, are compiled as one, up to some thirty at a time: what they include, and what
# they make of templates, is most of compiling them. (So no two of them may use a name of their own for two
# things: tests/structure_test.py compares them.) A folder named absent, a target's last, stays apart, since
# something else may be linked in its place.
# With SPILLWAY_OBJECTS, where they were compiled for the target by the same flags before, that object is
# taken.
option(SPILLWAY_UNITY "Compile the sources of a target together, which is several times as fast as one by one" ON)
if(SPILLWAY_UNITY)
  # A source's own types are taken for a header's there.
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endif()
function(spillway_compile_together target)
  set(at_most 32)
  set(folders "")
  foreach(source ${ARGN})
    get_filename_component(folder ${source} DIRECTORY)
    list(APPEND folders ${folder})
    list(APPEND sources_${folder} ${source})
  endforeach()
  list(REMOVE_DUPLICATES folders)
  set(part 0)
  set(room 0) # for more files beside those of the folders before
  foreach(folder ${folders})
    list(LENGTH sources_${folder} length)
    if(length GREATER room OR folder MATCHES "/absent$")
      math(EXPR part "${part} + 1")
      set(room ${at_most})
    endif()
    math(EXPR room "${room} - ${length}")
    math(EXPR each "(${length} - 1) / ((${length} - 1) / ${at_most} + 1) + 1") # a larger folder's parts are equal
    set(index 0)
    foreach(source ${sources_${folder}})
      math(EXPR here "${part} + ${index} / ${each}")
      math(EXPR index "${index} + 1")
      set(group ${target}_${here})
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
      list(APPEND groups ${group})
      list(APPEND ${group}_sources ${source})
    endforeach()
    set(part ${here})
  endforeach()
  list(REMOVE_DUPLICATES groups)
  foreach(group ${groups})
    set(together ${SPILLWAY_OBJECTS}/CMakeFiles/${target}.dir/Unity/unity_${group}_cxx.cxx)
    if(SPILLWAY_UNITY AND SPILLWAY_OBJECTS AND EXISTS ${together}.o)
      set_property(TARGET ${target} APPEND PROPERTY SPILLWAY_TAKEN ${together}.o)
      get_target_property(type ${target} TYPE)
      if(type STREQUAL "OBJECT_LIBRARY")
        target_sources(${target} PRIVATE ${PROJECT_BINARY_DIR}/precompiled.cc) # it may have no other
      else()
        target_sources(${target} PRIVATE ${together}.o)
      endif()
      # A source with options of its own is not in it.
      file(READ ${together} text)
      foreach(source ${${group}_sources})
        string(FIND "${text}" "\"${source}\"" found)
        if(found EQUAL -1)
          target_sources(${target} PRIVATE ${source})
        endif()
      endforeach()
    else()
      target_sources(${target} PRIVATE ${${group}_sources})
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX UNITY_BUILD ${SPILLWAY_UNITY}
    UNITY_BUILD_MODE GROUP)
endfunction()

# spillway_take(TARGET OTHER): OTHER's objects, an object library's, are TARGET's too.
function(spillway_take target other)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${other}>)
  get_target_property(taken ${other} SPILLWAY_TAKEN)
  if(taken)
    target_sources(${target} PRIVATE ${taken})
  endif()
endfunction()

# spillway_library(NAME KIND FOLDER...): the sources that lie in the folders themselves.
function(spillway_library name kind)
  set(sources "")
  foreach(folder ${ARGN})
    file(GLOB found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cc)
    list(APPEND sources ${found})
  endforeach()
  add_library(${name} ${kind})
  spillway_compile_together(${name} ${sources})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
endfunction()

# spillway_embed(TARGET HEADER FUNCTION=FILE...): files as bytes, behind the functions that the
# header declares.
function(spillway_embed target header)
  get_filename_component(name ${header} NAME_WE)
  set(output ${PROJECT_BINARY_DIR}/embedded/${name}.cc)
  set(entries "")
  set(files "")
  foreach(entry ${ARGN})
    string(REPLACE "=" "=${PROJECT_SOURCE_DIR}/" entry ${entry})
    list(APPEND entries ${entry})
    string(REGEX REPLACE "^[^=]*=" "" file ${entry})
    list(APPEND files ${file})
  endforeach()
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DHEADER=${header} "-DFILES=${entries}"
      -P ${PROJECT_SOURCE_DIR}/cmake/SpillwayEmbed.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/SpillwayEmbed.cmake VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()

# Builds every test program, and what those programs run.
add_custom_target(spillway_tests)

# spillway_tests(NAME FOLDER LIBRARIES...): tests/FOLDER/**/*_test.cc in one program. ctest knows
# each case, but of those that load LibTorch, where starting takes longer than most cases.
#
# A short turn under a sanitizer (SPILLWAY_SHORT, tools/test ci) has no tests of the engine: they take as
# long as all others there, to compile and to run. What of the engine reads files of strangers is fuzzed
# in asan's build.
#
# Under ASan the same-bits runs, most of the time there, are one or two of each kind, and what
# repeats the same arithmetic for half a minute is left out.
#
# Under TSan LibTorch's own threads are invisible and everything takes ten times as long: of
# the LibTorch tests only the suites named *Tsan* run (whole training runs, a few steps each),
# and the program's tests, which start it dozens of times, are left to the other presets. Of the
# engine's tests those are left out that meet no thread, in themselves or in what they test; of
# swap's those of plans and of steps in virtual time.
function(spillway_tests name folder)
  if(SPILLWAY_SHORT AND SPILLWAY_SANITIZE AND folder STREQUAL "engine")
    return()
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${folder}/*_test.cc)
  set(filter "--gtest_filter=-*MoreFormats*") # of the LibTorch tests: tools/test all has them
  set(discovered "")
  if(SPILLWAY_SANITIZE MATCHES address AND folder STREQUAL "torch")
    string(CONCAT filter "--gtest_filter=-*MoreFormats*:SameBits*.Fp32*:SameBitsPlacement.Bf16*"
      ":SameBitsResume.Bf16Clipped:SameBitsResume.Fp16:SameBitsWorkers.Fp16"
      ":SameBitsDevice.Bf16:SameBitsDevice.Fp16"
      ":SameBits.TwoComputeThreads*:TrainGolden.*:DryRun.TheFormula*")
  endif()
  if(SPILLWAY_SANITIZE MATCHES address AND folder STREQUAL "engine")
    set(discovered TEST_FILTER "-WhoUpdates.*:GpuKernels.UpdateHas*:ReportSeries.ManyRows*:RankForecast.TheBound*")
  elseif(SPILLWAY_SANITIZE MATCHES address AND folder STREQUAL "swap")
    string(CONCAT forecasts "-StepSimulation.MoreMemory*:StepSimulation*.NoStep*:StepSimulation.TheClockSpills*"
      ":StreamedPlan.TheClockGives*:DepthLevels.*:PlanByClock.*")
    set(discovered TEST_FILTER ${forecasts})
  endif()
  if(SPILLWAY_SANITIZE STREQUAL "thread")
    if(folder STREQUAL "torch")
      foreach(source ${sources})
        file(STRINGS ${source} cases REGEX "^TEST(_F|_P)?\\([A-Za-z0-9_]*Tsan")
        if(NOT cases)
          list(REMOVE_ITEM sources ${source})
        endif()
      endforeach()
      set(filter --gtest_filter=*Tsan*)
    elseif(folder STREQUAL "swap")
      list(FILTER sources EXCLUDE REGEX "/tests/swap/(plan|forecast)/")
    elseif(folder STREQUAL "engine")
      # Whole updates by emulated kernels, which TrainerOnDevice has smaller.
      set(discovered TEST_FILTER "-WhoUpdates.*:GpuKernels.*")
      set(threads "WorkerPool|std::thread|Mutex|SwapManager|Trainer|CommitCopies")
      foreach(source ${sources})
        string(REGEX REPLACE "/tests/engine/(.*)_test\\.cc$" "/engine/\\1.cc" tested ${source})
        set(lines "")
        foreach(file ${source} ${tested})
          if(EXISTS ${file})
            file(STRINGS ${file} found REGEX ${threads} LIMIT_COUNT 1)
            list(APPEND lines ${found})
          endif()
        endforeach()
        if(NOT lines)
          list(REMOVE_ITEM sources ${source})
        endif()
      endforeach()
    endif()
  endif()
  if(NOT sources)
    return()
  endif()
  add_executable(${name})
  spillway_compile_together(${name} ${sources})
  target_link_libraries(${name} PRIVATE ${ARGN} GTest::gtest GTest::gmock GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE SPILLWAY_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    SPILLWAY_BINARY_DIR="${PROJECT_BINARY_DIR}")
  add_dependencies(spillway_tests ${name})
  if(folder STREQUAL "torch")
    # In two halves, side by side: most cases compute with one thread.
    foreach(half 0 1)
      add_test(NAME ${folder}_${half} COMMAND ${name} --gtest_brief=1 ${filter})
      set_tests_properties(${folder}_${half} PROPERTIES TIMEOUT 1500 LABELS ${folder} ENVIRONMENT
        "${SPILLWAY_TEST_ENVIRONMENT};OMP_WAIT_POLICY=PASSIVE;GTEST_TOTAL_SHARDS=2;GTEST_SHARD_INDEX=${half}")
    endforeach()
    if(NOT SPILLWAY_SANITIZE)
      add_test(NAME ${folder}_formats COMMAND ${name} --gtest_brief=1 --gtest_filter=*MoreFormats*)
      set_tests_properties(${folder}_formats PROPERTIES TIMEOUT 1500 LABELS formats ENVIRONMENT
        "${SPILLWAY_TEST_ENVIRONMENT};OMP_WAIT_POLICY=PASSIVE")
    endif()
  else()
    target_compile_options(${name} PRIVATE ${SPILLWAY_FEWER_CHECKS} ${SPILLWAY_TEST_OPTIONS})
    spillway_precompiled_by(${name} spillway_test_headers)
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
      TEST_PREFIX ${folder}/ ${discovered} NO_PRETTY_VALUES EXTRA_ARGS --gtest_brief=1
      PROPERTIES TIMEOUT 900 LABELS ${folder} ENVIRONMENT "${SPILLWAY_TEST_ENVIRONMENT}")
  endif()
endfunction()

include(GoogleTest)
