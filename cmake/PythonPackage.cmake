# What the Python package needs, found: the interpreter, its headers, nanobind, and the torch that is linked.
# Input:  OPENWORK_PYTHON  ON, OFF, or AUTO (where all of it is there); OPENWORK_TORCH in the environment.
# Output: OPENWORK_PYTHON_FOUND, Python_EXECUTABLE, nanobind_DIR; Libtorch_ROOT where it was not given.

# The interpreter that `python3` is, not the newest on the machine: torch is installed for it.
if(NOT Python_EXECUTABLE)
  execute_process(COMMAND python3 -c "import sys; print(sys.executable)" OUTPUT_VARIABLE _python
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(Python_EXECUTABLE "${_python}" CACHE FILEPATH "the Python that the package is built for")
endif()

# openwork_ask_python(OUT CODE): what the interpreter prints, outside whatever environment a build runs in. pip builds in
# one that hides the target's packages by PYTHONPATH; without that the same interpreter sees them, torch among them.
function(openwork_ask_python out code)
  execute_process(COMMAND "${CMAKE_COMMAND}" -E env --unset=PYTHONPATH --unset=PYTHONNOUSERSITE "${Python_EXECUTABLE}" -c "${code}"
    WORKING_DIRECTORY "${CMAKE_BINARY_DIR}" OUTPUT_VARIABLE _answer OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  set(${out} "${_answer}" PARENT_SCOPE)
endfunction()

# The folder that holds torch/: OPENWORK_TORCH, else the interpreter's own. A frontend that builds in a virtual environment
# of its own (uv, build) has another interpreter; then the environment that is active is looked into.
if(NOT Libtorch_ROOT)
  set(_torch "$ENV{OPENWORK_TORCH}")
  if(NOT _torch)
    openwork_ask_python(_torch "import glob, importlib.util as u, os, sys
s = u.find_spec('torch')
places = [os.path.dirname(p) for p in (s.submodule_search_locations if s else [])]
active = os.environ.get('VIRTUAL_ENV') or os.environ.get('CONDA_PREFIX') or ''
places += glob.glob('%s/lib/python%d.%d/site-packages' % (active, *sys.version_info[:2]))
print(next((p for p in places if os.path.exists(p + '/torch/lib/libtorch_cpu.so')), ''))")
  endif()
  if(NOT _torch AND OPENWORK_PYTHON STREQUAL "ON")
    message(FATAL_ERROR "no torch in the environment of ${Python_EXECUTABLE}; Python package; pip install torch there first, or set OPENWORK_TORCH=/path")
  endif()
  set(Libtorch_ROOT "${_torch}" CACHE PATH "folder that holds torch/" FORCE)
endif()

macro(openwork_find_python)
  find_package(Python 3.10 COMPONENTS Interpreter Development.Module QUIET)
  execute_process(COMMAND "${CMAKE_COMMAND}" -E env "PYTHONPATH=${CMAKE_BINARY_DIR}/python-packages:$ENV{PYTHONPATH}"
    "${Python_EXECUTABLE}" -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_DIR OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  find_library(Libtorch_torch_python_LIBRARY torch_python PATHS "${Libtorch_LIB}" NO_DEFAULT_PATH)
  file(GLOB _extension "${Libtorch_SITE}/torch/_C.cpython-${Python_VERSION_MAJOR}${Python_VERSION_MINOR}-*")
  set(_missing "")
  if(NOT Python_Development.Module_FOUND)
    set(_missing "Python 3.10 or newer with its headers (python3-dev)")
  elseif(NOT nanobind_DIR)
    set(_missing "nanobind (pip install nanobind)")
  elseif(NOT Libtorch_torch_python_LIBRARY OR NOT _extension)
    set(_missing "torch for Python ${Python_VERSION_MAJOR}.${Python_VERSION_MINOR} in ${Libtorch_SITE}")
  endif()
  set(OPENWORK_PYTHON_FOUND ON)
  if(_missing)
    set(OPENWORK_PYTHON_FOUND OFF)
    if(OPENWORK_PYTHON STREQUAL "ON")
      message(FATAL_ERROR "${_missing} is missing; Python package; install it, or build with -DOPENWORK_PYTHON=OFF")
    endif()
    message(STATUS "No Python package: ${_missing} is missing")
  endif()
endmacro()
