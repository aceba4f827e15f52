# Options shared by all targets, and the functions that make them.
#
#   dl_add_library(NAME SOURCES... [LINK libs...])      static library, includes as "folder/header.h"
#   dl_add_program(NAME SOURCES... [LINK libs...])      program in build/<preset>/bin
#   dl_add_test(NAME LABEL [LINK libs...] [EXTRA sources...])   test of NAME.c in tests/ or a subfolder
#   dl_add_fuzzer(NAME [LINK libs...] [EXTRA sources...] [INPUTS count])   tests/fuzz/NAME.c with the
#                                                      driver; runs `count` inputs (20000), a tenth
#                                                      of them without a sanitizer
add_library(dl_options INTERFACE)
target_include_directories(dl_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_definitions(dl_options INTERFACE _GNU_SOURCE DL_VERSION="${PROJECT_VERSION}")
target_compile_options(dl_options INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wpointer-arith
    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes> $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
    $<$<C_COMPILER_ID:Clang>:-Wno-pass-failed> # for pragmas that the sanitizers make ineffective
    -Wwrite-strings -Wvla -fno-strict-aliasing $<$<BOOL:${DL_WERROR}>:-Werror>)
option(DL_COVERAGE "Count executed lines for gcov (gcc)" OFF)
if(DL_COVERAGE)
    target_compile_options(dl_options INTERFACE
        $<$<COMPILE_LANGUAGE:C,CXX>:--coverage;-O1;-fprofile-update=prefer-atomic>)
    target_link_options(dl_options INTERFACE --coverage)
endif()
if(DL_SANITIZE)
    target_compile_options(dl_options INTERFACE
        -fsanitize=${DL_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer
        $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation>) # -Og knows no ranges of numbers; releases warn
    target_link_options(dl_options INTERFACE -fsanitize=${DL_SANITIZE})
elseif(NOT EMSCRIPTEN)
    # Not with the sanitizers, which check more and intercept only the unchecked functions.
    target_compile_options(dl_options INTERFACE
        $<$<COMPILE_LANGUAGE:C,CXX>:-fstack-protector-strong>
        $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<NOT:$<CONFIG:Debug>>>:-U_FORTIFY_SOURCE>
        $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<NOT:$<CONFIG:Debug>>>:-D_FORTIFY_SOURCE=3>)
    target_link_options(dl_options INTERFACE LINKER:-z,relro,-z,now)
    include(CheckLinkerFlag)
    check_linker_flag(C LINKER:--as-needed DL_LINKS_AS_NEEDED)
    if(DL_LINKS_AS_NEEDED)
        target_link_options(dl_options INTERFACE LINKER:--as-needed)
    endif()
endif()

function(dl_add_library name)
    cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
    add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
    target_link_libraries(${name} PUBLIC dl_options ${ARG_LINK})
endfunction()

function(dl_add_program name)
    cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
    add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
    target_link_libraries(${name} PRIVATE dl_options ${ARG_LINK})
endfunction()

# A fast linker, as several hundred tests are linked.
find_program(DL_FAST_LINKER NAMES ld.lld ld.gold)
if(DL_FAST_LINKER)
    string(REGEX REPLACE ".*/ld[.]" "-fuse-ld=" linker ${DL_FAST_LINKER})
    set(DL_LINK_FAST $<$<NOT:$<LINK_LANGUAGE:CUDA>>:${linker}>)
endif()

# Test sources are compiled without optimization and UBSan, to save compile time; the tested
# libraries have both.
add_library(dl_test_options INTERFACE)
target_compile_options(dl_test_options INTERFACE -O0)
if(DL_SANITIZE)
    target_compile_options(dl_test_options INTERFACE -fno-sanitize=undefined)
endif()

function(dl_add_test name label)
    cmake_parse_arguments(ARG "" "" "LINK;EXTRA" ${ARGN})
    file(GLOB source ${PROJECT_SOURCE_DIR}/tests/${name}.c ${PROJECT_SOURCE_DIR}/tests/*/${name}.c)
    add_executable(${name} ${source} ${ARG_EXTRA})
    target_include_directories(${name} SYSTEM PRIVATE ${CMOCKA_INCLUDE_DIR})
    target_link_libraries(${name} PRIVATE dl_options dl_test_options ${ARG_LINK} ${CMOCKA_LIBRARY} m)
    target_link_options(${name} PRIVATE ${DL_LINK_FAST})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    set_tests_properties(${name} PROPERTIES LABELS ${label} SKIP_RETURN_CODE 77)
endfunction()

option(DL_LIBFUZZER "Build the fuzzers for libFuzzer (clang) instead of the built-in driver" OFF)
if(DL_LIBFUZZER)
    # Instruments all code, as the fuzzer needs the coverage of more than its own source.
    target_compile_options(dl_options INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=fuzzer-no-link>)
    add_custom_target(fuzzers)
endif()
function(dl_add_fuzzer name)
    cmake_parse_arguments(ARG "" "INPUTS" "LINK;EXTRA" ${ARGN})
    add_executable(${name} ${PROJECT_SOURCE_DIR}/tests/fuzz/${name}.c ${ARG_EXTRA})
    target_link_libraries(${name} PRIVATE dl_options ${ARG_LINK} dl_common m)
    target_link_options(${name} PRIVATE ${DL_LINK_FAST})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    if(DL_LIBFUZZER)
        target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
        target_link_options(${name} PRIVATE -fsanitize=fuzzer)
        add_dependencies(fuzzers ${name})
        return()
    endif()
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/fuzz_driver.c)
    set(inputs 20000)
    if(ARG_INPUTS)
        set(inputs ${ARG_INPUTS})
    endif()
    if(NOT DL_SANITIZE) # sanitizers detect the faults that an input causes
        math(EXPR inputs "${inputs} / 10")
    endif()
    add_test(NAME ${name} COMMAND ${name} 0 ${inputs} WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    set_tests_properties(${name} PROPERTIES LABELS unit)
endfunction()
