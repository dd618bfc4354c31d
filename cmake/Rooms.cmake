# openwork_room(NAME [SOURCES a.cpp ...] LINKS target ... [TORCH] [HEADER h.h | HEADER_OF room])
#   A room of the house: static library openwork_NAME from SOURCES, or all of the folder's *.cpp but main.cpp. Its link line
#   is the picture of docs/walk.md: a room links the rooms below it and no other. A room with TORCH reuses
#   the shared precompiled header unless it names a HEADER of its own, or the room whose header it takes. Every room is
#   compiled in batches of a few sources: reading the headers of torch, JSON or HTTP costs more than most sources do.
# openwork_test(NAME [SOURCES a.cpp ...] LINKS target ... [TORCH])
#   A GoogleTest program from SOURCES, or all of the folder's *.cpp; each suite of it a ctest test, run
#   from the source tree. Test code is not optimised: what it calls is.
set(OPENWORK_BATCH 8)

# In as few batches of at most OPENWORK_BATCH as its sources need, all of about one size.
function(openwork_batches target)
  get_target_property(_sources ${target} SOURCES)
  list(LENGTH _sources _count)
  math(EXPR _batches "(${_count} + ${OPENWORK_BATCH} - 1) / ${OPENWORK_BATCH}")
  math(EXPR _size "(${_count} + ${_batches} - 1) / ${_batches}")
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${OPENWORK_UNITY} UNITY_BUILD_BATCH_SIZE ${_size})
endfunction()

function(openwork_room name)
  cmake_parse_arguments(ROOM "TORCH" "HEADER;HEADER_OF" "SOURCES;LINKS" ${ARGN})
  if(NOT ROOM_SOURCES)
    file(GLOB ROOM_SOURCES CONFIGURE_DEPENDS *.cpp)
    list(FILTER ROOM_SOURCES EXCLUDE REGEX "/main\\.cpp$")
  endif()
  add_library(openwork_${name} STATIC ${ROOM_SOURCES})
  target_include_directories(openwork_${name} PUBLIC "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(openwork_${name} PUBLIC ${ROOM_LINKS})
  openwork_batches(openwork_${name})
  if(ROOM_TORCH)
    target_link_libraries(openwork_${name} PUBLIC Libtorch::torch_cpu)
    if(ROOM_HEADER)
      target_precompile_headers(openwork_${name} PRIVATE ${ROOM_HEADER})
    elseif(ROOM_HEADER_OF)
      target_precompile_headers(openwork_${name} REUSE_FROM openwork_${ROOM_HEADER_OF})
    else()
      target_precompile_headers(openwork_${name} REUSE_FROM openwork_pch)
    endif()
  endif()
endfunction()

function(openwork_test name)
  cmake_parse_arguments(TEST "TORCH" "" "SOURCES;LINKS;ENVIRONMENT" ${ARGN})
  if(NOT TEST_SOURCES)
    file(GLOB TEST_SOURCES CONFIGURE_DEPENDS *.cpp)
  endif()
  add_executable(${name} ${TEST_SOURCES})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${name} PRIVATE ${TEST_LINKS} GTest::gmock_main)
  target_compile_options(${name} PRIVATE -O0)
  openwork_batches(${name})
  if(TEST_TORCH)
    target_link_libraries(${name} PRIVATE Libtorch::torch_cpu)
    target_precompile_headers(${name} REUSE_FROM openwork_test_pch)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests"
    INSTALL_RPATH "$ORIGIN/..;${Libtorch_LIB}")
  set(_timeout 900)
  set(_environment "OPENWORK_PROGRAM=${CMAKE_BINARY_DIR}/openwork" OMP_NUM_THREADS=1 ${TEST_ENVIRONMENT})
  if(OPENWORK_SANITIZE)   # built one folder deeper; and a sanitizer that opens a library does not know the program's RUNPATH
    set(_timeout 3600)
    string(JOIN ":" _libraries "${CMAKE_BINARY_DIR}" ${Libtorch_LIB})
    list(APPEND _environment "OPENWORK_MODELS=${PROJECT_SOURCE_DIR}/models" "LD_LIBRARY_PATH=${_libraries}"
      "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/kept_by_libraries.txt:print_suppressions=0"
      "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/threads_of_libraries.txt")
  endif()
  list(JOIN _environment "$<SEMICOLON>" _environment)
  set(_suites "${CMAKE_CURRENT_BINARY_DIR}/${name}_suites.cmake")
  add_custom_command(TARGET ${name} POST_BUILD
    COMMAND "${CMAKE_COMMAND}" "-DPROGRAM=$<TARGET_FILE:${name}>" "-DOUTPUT=${_suites}" "-DFOLDER=${PROJECT_SOURCE_DIR}"
      "-DENVIRONMENT=${_environment}" -DTIMEOUT=${_timeout} -P "${PROJECT_SOURCE_DIR}/cmake/DiscoverSuites.cmake"
    BYPRODUCTS "${_suites}" VERBATIM)
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${_suites}")
endfunction()
