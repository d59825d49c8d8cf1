# Bayplan for CMake.
#
#   execute_process(COMMAND ${Python3_EXECUTABLE} -m bayplan config --cmakedir
#                   OUTPUT_VARIABLE Bayplan_DIR OUTPUT_STRIP_TRAILING_WHITESPACE)
#   find_package(Bayplan REQUIRED)
#   bayplan_add_library(blur SOURCE blur.py)
#   target_link_libraries(app PRIVATE blur)
#
# bayplan_add_library(<target>
#     SOURCE <file.py[:name]>     the pipeline, as `bayplan compile` takes it
#     [FUNCTION <name>]           of the C function; the target's by default
#     [ARGUMENTS <input>...]      order of the inputs; by name by default
#     [TARGET <target string>]    what to make it for; this machine by default
#     [FEATURES <feature>...]     added to the target: user_context, no_runtime, ...
#     [DEPENDS <file>...])        files that the Python program reads besides what it imports
#
# makes a library target with its header <function>.h. It is made anew when the Python program, or
# a Python file that it imports, changes.

if(NOT Bayplan_PYTHON)
  if(NOT Python3_EXECUTABLE)
    find_package(Python3 REQUIRED COMPONENTS Interpreter)
  endif()
  set(Bayplan_PYTHON "${Python3_EXECUTABLE}")
endif()
find_package(Threads REQUIRED)

get_filename_component(Bayplan_PACKAGE_DIR "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
get_filename_component(Bayplan_IMPORT_DIR "${Bayplan_PACKAGE_DIR}/.." ABSOLUTE)
set(Bayplan_INCLUDE_DIR "${Bayplan_PACKAGE_DIR}/targets")

function(bayplan_add_library target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "SOURCE;FUNCTION;TARGET" "ARGUMENTS;FEATURES;DEPENDS")
  if(NOT arg_SOURCE)
    message(FATAL_ERROR "bayplan_add_library(${target}): SOURCE <file.py> is missing")
  endif()
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "bayplan_add_library(${target}): unknown: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_FUNCTION)
    set(arg_FUNCTION "${target}")
  endif()
  if(NOT arg_TARGET)
    set(arg_TARGET "host")
  endif()
  foreach(feature IN LISTS arg_FEATURES)
    string(APPEND arg_TARGET "-${feature}")
  endforeach()

  # FILE.py:name is FILE.py with a name behind it.
  string(REGEX REPLACE "\\.py:([A-Za-z_][A-Za-z_0-9]*)$" ".py" file "${arg_SOURCE}")
  string(LENGTH "${file}" length)
  string(SUBSTRING "${arg_SOURCE}" ${length} -1 suffix)
  get_filename_component(file "${file}" ABSOLUTE)

  set(folder "${CMAKE_CURRENT_BINARY_DIR}/bayplan/${target}")
  set(stem "${folder}/${arg_FUNCTION}")
  set(order)
  if(arg_ARGUMENTS)
    string(JOIN "," listed ${arg_ARGUMENTS})
    set(order --arguments "${listed}")
  endif()
  file(MAKE_DIRECTORY "${folder}")
  set(library "${stem}.a")
  set(header "${stem}.h")

  # The project's own compiler, archiver and flags; the package need not be installed.
  set(environment "CC=${CMAKE_C_COMPILER}" "AR=${CMAKE_AR}")
  if(CMAKE_C_FLAGS)
    list(APPEND environment "BAYPLAN_CFLAGS=${CMAKE_C_FLAGS}")
  endif()
  set(path "${Bayplan_IMPORT_DIR}")
  if(DEFINED ENV{PYTHONPATH})
    set(path "${path}:$ENV{PYTHONPATH}")
  endif()

  add_custom_command(
    OUTPUT "${library}" "${header}"
    COMMAND "${CMAKE_COMMAND}" -E env ${environment} "PYTHONPATH=${path}"
            "${Bayplan_PYTHON}" -m bayplan compile "${file}${suffix}" --emit a,h
            -o "${library}" --name "${arg_FUNCTION}" --target "${arg_TARGET}" ${order}
            --depfile "${stem}.d"
    MAIN_DEPENDENCY "${file}"
    DEPENDS ${arg_DEPENDS}
    DEPFILE "${stem}.d"
    COMMENT "Bayplan: ${target}"
    VERBATIM)
  add_custom_target("${target}_bayplan" DEPENDS "${library}" "${header}")

  # An interface library can depend on the command, so who links it waits for the header.
  add_library("${target}" INTERFACE)
  add_dependencies("${target}" "${target}_bayplan")
  target_include_directories("${target}" INTERFACE "${folder}")
  target_link_libraries("${target}" INTERFACE "${library}" Threads::Threads)
  if(UNIX)
    target_link_libraries("${target}" INTERFACE m)
  endif()
endfunction()
