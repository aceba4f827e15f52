foreach(module batch_list slow_list data_source crew recorder run_meta measured_row overhead bench
        settings target run_traces interrupt)
    dl_add_test(test_${module} unit LINK dl_profiler)
endforeach()
target_link_options(test_crew PRIVATE -Wl,--wrap=dl_cpu_pin)
set_property(TEST test_crew test_recorder test_overhead test_bench APPEND PROPERTY LABELS threads)

add_test(NAME test_dlprof COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_dlprof.sh $<TARGET_FILE:dlprof>
         WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_dlprof PROPERTIES LABELS unit TIMEOUT 300)
add_test(NAME test_dlprof_run
         COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_dlprof_run.sh $<TARGET_FILE:dlprof>
         WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_dlprof_run PROPERTIES LABELS unit TIMEOUT 300)
