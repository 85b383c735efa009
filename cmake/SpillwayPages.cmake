# Makes completion and man pages, which the program writes about itself, as they lie below share/:
#   cmake -DPROGRAM=spillway -DOUTPUT=DIR -P SpillwayPages.cmake
file(REMOVE_RECURSE ${OUTPUT})
file(MAKE_DIRECTORY ${OUTPUT})

function(page file)
  file(WRITE ${OUTPUT}/${file} "") # makes the folder
  execute_process(COMMAND ${PROGRAM} ${ARGN} OUTPUT_FILE ${OUTPUT}/${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

execute_process(COMMAND ${PROGRAM} --help OUTPUT_VARIABLE help COMMAND_ERROR_IS_FATAL ANY)
page(bash-completion/completions/spillway completion bash)
page(zsh/site-functions/_spillway completion zsh)
page(fish/vendor_completions.d/spillway.fish completion fish)
page(man/man1/spillway.1 man)
# "  train      Train a model ..." of each subcommand.
string(REGEX REPLACE "^.*\n(Subcommands|SUBCOMMANDS):\n" "\n" commands "${help}")
string(REGEX MATCHALL "\n  [a-z][a-z-]*  " commands "${commands}")
foreach(command ${commands})
  string(STRIP "${command}" command)
  page(man/man1/spillway-${command}.1 man ${command})
endforeach()
