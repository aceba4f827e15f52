foreach(module status alloc names units cpu random file ini csv wrap options manual install cluster jobs journal output json cell_table columns rows chrome_trace
        quantity machine merge)
    dl_add_test(test_${module} unit LINK dl_common)
endforeach()
target_include_directories(test_random SYSTEM PRIVATE ${RANDOM123_INCLUDE_DIR})
dl_add_test(test_sort unit LINK dl_common)
target_link_options(test_file PRIVATE -Wl,--wrap=readlink)
dl_add_fuzzer(fuzz_ini)
dl_add_fuzzer(fuzz_csv)
dl_add_fuzzer(fuzz_machine)
target_compile_definitions(test_machine PRIVATE DL_MACHINES="${PROJECT_SOURCE_DIR}/scenarios/machines")

set_property(TEST test_jobs APPEND PROPERTY LABELS threads)

# Tests of ranks need the MPI library in their program's folder.
if(TARGET dlscale_mpi)
    add_executable(cluster_ranks ${CMAKE_CURRENT_LIST_DIR}/cluster_ranks.c)
    target_link_libraries(cluster_ranks PRIVATE dl_options dl_common)
    set_target_properties(cluster_ranks PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/ranks)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/tests/ranks)
    file(CREATE_LINK ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/libdlscale_mpi.so
         ${CMAKE_BINARY_DIR}/tests/ranks/libdlscale_mpi.so SYMBOLIC)
    add_test(NAME test_cluster_ranks COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_cluster.sh
             $<TARGET_FILE:cluster_ranks>)
    set_tests_properties(test_cluster_ranks PROPERTIES LABELS "unit;faults" SKIP_RETURN_CODE 77)
endif()
