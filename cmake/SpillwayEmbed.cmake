# Writes a C++ source that holds files as bytes, so that the program is one file:
#   cmake -DOUTPUT=x.cc -DHEADER=y.h "-DFILES=Function=path;Function=path" -P SpillwayEmbed.cmake
set(code "// Made by cmake/SpillwayEmbed.cmake.\n#include \"${HEADER}\"\n\nnamespace spillway {\n")
foreach(entry ${FILES})
  string(REGEX MATCH "^([A-Za-z]+)=(.*)$" matched "${entry}")
  set(function ${CMAKE_MATCH_1})
  file(READ ${CMAKE_MATCH_2} bytes HEX)
  string(REGEX REPLACE "(................................................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
  string(APPEND code "\nabsl::string_view ${function}() {\n"
    "static constexpr char kBytes[] = {\n${bytes}'\\0'};\n"
    "return {kBytes, sizeof kBytes - 1};\n}\n")
endforeach()
string(APPEND code "\n}  // namespace spillway\n")
file(WRITE ${OUTPUT} "${code}")
