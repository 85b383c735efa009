# What `cmake --install` puts below a prefix, which can be moved afterwards: the program finds the rest
# relative to itself (docs/INSTALL.md). Components:
#   program    the program, the library that computes, `spillway setup`'s script, documents, and what the program
#              writes about itself: completion and man pages
#   libraries  those shared libraries of Debian's that a machine without its packages lacks. Installed only when
#              asked for (tools/package tar), or if they lie unpacked in this clone, where no other program finds them

set_target_properties(spillway PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/spillway")
set_target_properties(spillway_compute PROPERTIES INSTALL_RPATH "$ORIGIN") # LibTorch: tools/torch_library.h
# The private libraries need one another, too: an RPATH counts for what they need, a RUNPATH does not.
target_link_options(spillway PRIVATE -Wl,--disable-new-dtags)

install(TARGETS spillway RUNTIME DESTINATION bin COMPONENT program)
install(TARGETS spillway_compute LIBRARY DESTINATION lib/spillway COMPONENT program)
install(PROGRAMS ${PROJECT_SOURCE_DIR}/tools/setup_torch DESTINATION lib/spillway COMPONENT program)
install(FILES ${PROJECT_SOURCE_DIR}/tools/messages.sh ${PROJECT_SOURCE_DIR}/tools/libtorch.sh
  ${PROJECT_SOURCE_DIR}/cmake/libtorch-wheels.txt DESTINATION lib/spillway COMPONENT program)

file(GLOB documents ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/LICENSE* ${PROJECT_SOURCE_DIR}/NOTICE*)
install(FILES ${documents} DESTINATION share/doc/spillway COMPONENT program)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION share/doc/spillway COMPONENT program
  PATTERN "*.py" EXCLUDE PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION share/doc/spillway COMPONENT program
  FILES_MATCHING PATTERN "*.json" PATTERN "*.md" PATTERN "*.sbatch")

set(pages ${PROJECT_BINARY_DIR}/pages)
file(MAKE_DIRECTORY ${pages})
install(CODE "execute_process(COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:spillway> -DOUTPUT=${pages}
  -P ${PROJECT_SOURCE_DIR}/cmake/SpillwayPages.cmake COMMAND_ERROR_IS_FATAL ANY)" COMPONENT program)
install(DIRECTORY ${pages}/ DESTINATION share COMPONENT program)

set(only_when_asked EXCLUDE_FROM_ALL)
if(EXISTS ${unpacked}/usr)
  set(only_when_asked "")
endif()
# Not the C and C++ runtime, which comes with every system and must fit its loader. libsoxr is loaded by name.
install(CODE "
  file(GET_RUNTIME_DEPENDENCIES EXECUTABLES $<TARGET_FILE:spillway> LIBRARIES ${soxr_LIBRARY}
    RESOLVED_DEPENDENCIES_VAR libraries
    PRE_EXCLUDE_REGEXES [[^ld-linux]] [[^lib(c|m|mvec|dl|rt|pthread|resolv|util|anl|gcc_s|stdc\\+\\+)\\.so]])
  file(REAL_PATH ${soxr_LIBRARY} soxr)
  list(APPEND libraries ${soxr_LIBRARY})
  foreach(library IN LISTS libraries)
    file(REAL_PATH \${library} file)
    get_filename_component(name \${library} NAME)
    if(library STREQUAL \"${soxr_LIBRARY}\")
      set(name libsoxr.so.0)
    endif()
    file(INSTALL \${file} DESTINATION \${CMAKE_INSTALL_PREFIX}/lib/spillway RENAME \${name})
  endforeach()" COMPONENT libraries ${only_when_asked})
