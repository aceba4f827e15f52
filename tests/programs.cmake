# Tests of whole programs.

# Hardening options of release builds; builds with sanitizers do without them.
if(NOT DL_SANITIZE AND CMAKE_BUILD_TYPE MATCHES "^(Release|RelWithDebInfo)$")
    add_test(NAME test_hardened COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_hardened.sh
             $<TARGET_FILE:dlprof> $<TARGET_FILE:dlcal> $<TARGET_FILE:dlsim> $<TARGET_FILE:dlscale>
             $<$<TARGET_EXISTS:dlprof_inject>:$<TARGET_FILE:dlprof_inject>>
             $<$<TARGET_EXISTS:dlprof_cuda>:$<TARGET_FILE:dlprof_cuda>>
             $<$<TARGET_EXISTS:dlscale_mpi>:$<TARGET_FILE:dlscale_mpi>> COMMAND_EXPAND_LISTS)
    set_tests_properties(test_hardened PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
endif()

# Faults: the files left by a program that is killed or cannot write.
add_test(NAME test_faults COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_faults.sh $<TARGET_FILE:dlsim>
         $<TARGET_FILE:dlprof> $<TARGET_FILE:dlcal> WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_faults PROPERTIES LABELS "unit;faults")
# Further tests of faults: signals, memory limits, full disks, ranks that die.
set_property(TEST test_dlprof test_dlprof_ranks test_dlprof_run test_dlt test_interrupt test_output
             APPEND PROPERTY LABELS faults)

# The reference of file formats: programs read its examples, and write its columns and keys.
add_test(NAME test_formats COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_formats.sh $<TARGET_FILE:dlsim>
         $<TARGET_FILE:dlprof> ${PROJECT_SOURCE_DIR}/docs/formats.md)
set_tests_properties(test_formats PROPERTIES LABELS unit)

# The table that ./check --coverage prints, for a program of a few lines.
if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND NOT DL_COVERAGE)
    add_test(NAME test_coverage COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_coverage.sh
             ${CMAKE_C_COMPILER} ${PROJECT_SOURCE_DIR}/scripts/coverage.sh
             WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    set_tests_properties(test_coverage PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
endif()

# Comparison of frozen results.
add_test(NAME test_freeze COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_freeze.sh $<TARGET_FILE:dlsim>)
set_tests_properties(test_freeze PROPERTIES LABELS unit)

# Workers that share a GPU: predictions from recorded traces against recorded runs.
add_test(NAME test_shared_gpu COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_shared_gpu.sh $<TARGET_FILE:dlcal>
         $<TARGET_FILE:dlsim>)
set_tests_properties(test_shared_gpu PROPERTIES LABELS model)

# The questions page: its commands run and print the lines shown.
if(NOT DL_SANITIZE)
    add_test(NAME test_questions COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_questions.sh
             $<TARGET_FILE:dlsim> $<TARGET_FILE:dlcal> ${PROJECT_SOURCE_DIR})
    set_tests_properties(test_questions PROPERTIES LABELS unit)
endif()

# The table of PyTorch's settings: the options in each row are valid.
add_test(NAME test_from_pytorch COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_from_pytorch.sh
         $<TARGET_FILE:dlsim> ${PROJECT_SOURCE_DIR})
set_tests_properties(test_from_pytorch PROPERTIES LABELS unit)

# Links, and the names of files and structures in the guides to the source.
add_test(NAME test_docs COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_docs.sh ${PROJECT_SOURCE_DIR})
set_tests_properties(test_docs PROPERTIES LABELS unit)
