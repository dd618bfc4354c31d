# Run after a test program is linked: cmake -DPROGRAM=... -DOUTPUT=... -DFOLDER=... -DENVIRONMENT=... -DTIMEOUT=SECONDS -P DiscoverSuites.cmake
# Writes a file for ctest with one test per GoogleTest suite. A process per test would load libtorch a thousand times,
# which is most of what the tests would take; a suite shares one.
execute_process(COMMAND "${PROGRAM}" --gtest_list_tests WORKING_DIRECTORY "${FOLDER}"
  OUTPUT_VARIABLE listing RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} --gtest_list_tests ended with ${result}")
endif()
string(REGEX REPLACE "[;[]" "_" listing "${listing}")   # of parameters' comments; a list would break there
string(REPLACE "\n" ";" lines "${listing}")
set(text "")
foreach(line ${lines})
  if(NOT line MATCHES "^([A-Za-z0-9_/]+)\\.")
    continue()
  endif()
  set(suite "${CMAKE_MATCH_1}")
  string(APPEND text "add_test([==[${suite}]==] \"${PROGRAM}\" [==[--gtest_filter=${suite}.*]==] --gtest_brief=0)\n"
    "set_tests_properties([==[${suite}]==] PROPERTIES WORKING_DIRECTORY \"${FOLDER}\" TIMEOUT ${TIMEOUT} ENVIRONMENT \"${ENVIRONMENT}\")\n")
endforeach()
file(WRITE "${OUTPUT}" "${text}")
