# Writes a copy of a source with one piece of text replaced, for the mutants of tests/sim:
#   cmake -DSOURCE=x.cc -DFIND=find.txt -DREPLACE=replace.txt -DOUTPUT=y.cc -P SpillwayMutate.cmake
# Fails when the text is not there exactly once: then the source has changed, and the mutation
# must be written anew.
file(READ ${SOURCE} text)
file(READ ${FIND} find)
file(READ ${REPLACE} replace)
string(FIND "${text}" "${find}" first)
string(FIND "${text}" "${find}" last REVERSE)
if(first EQUAL -1 OR NOT first EQUAL last)
  message(FATAL_ERROR "${SOURCE} does not hold exactly once what ${FIND} says:\n${find}\n"
    "Bring tests/sim/mutations.cmake up to date.")
endif()
string(REPLACE "${find}" "${replace}" text "${text}")
file(WRITE ${OUTPUT} "${text}")
