# The program `spillway`, which needs no LibTorch, and the library beside it that computes with
# LibTorch and is opened when needed (tools/compute_library.h). The two are moved together; the program
# looks for LibTorch beside the library (tools/torch_library.h), so a build has a link to its own there.
# A build without LibTorch has the program alone, for the tests of what computes nothing.

set(build_kind "${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
string(REPLACE "GNU" "GCC" build_kind "${build_kind}")
if(SPILLWAY_CUDA)
  string(APPEND build_kind ", with CUDA")
  set(has_cuda true)
else()
  string(APPEND build_kind ", without CUDA")
  set(has_cuda false)
endif()

# First, as what takes longest: the program's own sources are compiled beside it.
if(TARGET spillway::torch)
  file(CREATE_LINK ${SPILLWAY_TORCH} ${PROJECT_BINARY_DIR}/torch SYMBOLIC)

  file(GLOB compute_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/compute/*.cc)
  add_library(spillway_compute_commands OBJECT)
  spillway_compile_together(spillway_compute_commands ${compute_sources})
  set_target_properties(spillway_compute_commands PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_options(spillway_compute_commands PRIVATE -O1) # as the engine's that it calls
  target_link_libraries(spillway_compute_commands PRIVATE spillway_engine spillway::cli11)
  spillway_precompiled_by(spillway_compute_commands spillway_engine)

  # Not linked with what spillway_engine stands on, which the program has.
  set(library_version ${PROJECT_BINARY_DIR}/library_version.cc)
  file(CONFIGURE OUTPUT ${library_version} CONTENT [[namespace spillway {
const char* LibraryVersion() { return "@PROJECT_VERSION@"; }
}  // namespace spillway
]] @ONLY)
  add_library(spillway_compute MODULE ${library_version} $<TARGET_OBJECTS:spillway_compute_commands>)
  set_target_properties(spillway_compute PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(spillway_compute PRIVATE $<TARGET_FILE:spillway_engine> spillway::torch)
  add_dependencies(spillway_compute spillway_engine)
  # What libtorch_cpu.so needs is looked for where this library says (tools/setup's runtime/), too.
  # What the library itself calls is resolved when it is opened, so that another LibTorch is refused there and
  # not in a run; LibTorch's own calls as they come, which spares a start tens of milliseconds.
  target_link_options(spillway_compute PRIVATE -Wl,--disable-new-dtags -Wl,-z,now)
endif()

file(GLOB tool_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/*.cc)
# The values of this build have a source of their own: it changes with every commit, and whether the build has CUDA is
# never taken from another build's object.
set(build_commit ${PROJECT_BINARY_DIR}/build_commit.cc)
add_custom_target(spillway_build_commit BYPRODUCTS ${build_commit} COMMENT ""
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUTPUT=${build_commit}
    -DVERSION=${PROJECT_VERSION} "-DKIND=${build_kind}" -DTORCH_VERSION=${SPILLWAY_TORCH_VERSION} -DCUDA=${has_cuda}
    -P ${PROJECT_SOURCE_DIR}/cmake/SpillwayBuildCommit.cmake VERBATIM)
add_executable(spillway ${build_commit})
set_source_files_properties(${build_commit} PROPERTIES GENERATED ON SKIP_PRECOMPILE_HEADERS ON)
add_dependencies(spillway spillway_build_commit)
spillway_compile_together(spillway ${tool_sources})
target_link_libraries(spillway PRIVATE spillway_engine_core spillway::cli11 ${CMAKE_DL_LIBS})
target_compile_options(spillway PRIVATE -O1) # commands wait for what they call
spillway_precompile(spillway) # without CLI11: its one or two groups read that sooner than it is precompiled
# Whole and exported: the library takes from here what it needs of these, so that there is one of each.
set(whole spillway_io spillway_swap spillway_engine_core ${spillway_static_absl})
if(SPILLWAY_CUDA)
  list(APPEND whole spillway_cuda_kernels)
endif()
list(JOIN whole "," whole)
set_target_properties(spillway PROPERTIES ENABLE_EXPORTS ON LINK_LIBRARY_OVERRIDE "WHOLE_ARCHIVE,${whole}")
target_link_options(spillway PRIVATE -Wl,--no-as-needed) # the library may need more of them
if(TARGET spillway_compute)
  add_dependencies(spillway spillway_compute)
endif()
