foreach(module notes cost_file json_report dataset step_runs gpu_facts launch_gaps)
    dl_add_test(test_${module} unit LINK dl_calibrate
                EXTRA ${CMAKE_CURRENT_LIST_DIR}/calibrate_traces.c)
endforeach()
foreach(module fit operations step_noise contention communication_costs exchange_runs recording_cost memory shapes_fit)
    dl_add_test(test_${module} model LINK dl_calibrate)
endforeach()
# Includes the reports, which print a whole calibration.
dl_add_test(test_calibration model LINK dl_calibrate
            EXTRA ${CMAKE_CURRENT_LIST_DIR}/calibrate_traces.c)

add_test(NAME test_dlcal COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_dlcal.sh $<TARGET_FILE:dlcal>
         $<TARGET_FILE:dlprof> WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
# Needs timings that grow with the size, so no other test runs at the same time.
set_tests_properties(test_dlcal PROPERTIES LABELS unit RUN_SERIAL TRUE)

add_test(NAME test_dlcal_info COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_dlcal_info.sh
         $<TARGET_FILE:dlcal> WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_dlcal_info PROPERTIES LABELS unit)

# The clients need PyTorch to run (./check --clients); this only checks their syntax.
file(GLOB clients CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/clients/*.py)
add_test(NAME clients_syntax COMMAND ${DL_PYTHON3} -c
         "import ast, sys\nfor path in sys.argv[1:]: ast.parse(open(path).read(), path)" ${clients}
         ${PROJECT_SOURCE_DIR}/profiler/torch/bench_gloo.py)
foreach(name warm run run_input run_generators bench_gloo)
    add_test(NAME clients_${name}
             COMMAND ${DL_PYTHON3} ${PROJECT_SOURCE_DIR}/tests/clients/test_${name}.py)
    set_tests_properties(clients_${name} PROPERTIES LABELS unit)
endforeach()
set_tests_properties(clients_syntax PROPERTIES LABELS unit)
# Traces of PyTorch on cores, recorded with tests/clients/train.py.
add_test(NAME test_dlcal_cores COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_dlcal_cores.sh
         $<TARGET_FILE:dlcal> $<TARGET_FILE:dlsim> WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_dlcal_cores PROPERTIES LABELS unit)

dl_add_fuzzer(fuzz_fit INPUTS 3000 LINK dl_calibrate EXTRA ${CMAKE_CURRENT_LIST_DIR}/calibrate_traces.c)
target_include_directories(fuzz_fit SYSTEM PRIVATE ${CMOCKA_INCLUDE_DIR})
target_link_libraries(fuzz_fit PRIVATE ${CMOCKA_LIBRARY})

# Measured tables.
dl_add_fuzzer(fuzz_table INPUTS 3000 LINK dl_calibrate)
dl_add_test(test_collinearity model LINK dl_calibrate)
dl_add_test(test_table_fit model LINK dl_calibrate)
dl_add_test(test_evaluate_table model LINK dl_calibrate)
dl_add_test(test_table_parts model LINK dl_calibrate)
set_property(TEST test_table_fit APPEND PROPERTY LABELS threads)
add_test(NAME test_dlcal_table COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_dlcal_table.sh
         $<TARGET_FILE:dlcal> $<TARGET_FILE:dlsim> WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_dlcal_table PROPERTIES LABELS unit)
add_test(NAME test_dlcal_journal COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_dlcal_journal.sh
         $<TARGET_FILE:dlcal> $<TARGET_FILE:dlsim>)
set_tests_properties(test_dlcal_journal PROPERTIES LABELS "unit;faults")
if(TARGET dlscale_mpi)
    add_test(NAME test_dlcal_ranks COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_dlcal_ranks.sh
             $<TARGET_FILE:dlcal> $<TARGET_FILE:dlsim>)
    set_tests_properties(test_dlcal_ranks PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
endif()

# Replay of traces.
foreach(module graph build report spans instances transfer predict ranks phases overlap step_costs)
    dl_add_test(test_replay_${module} model LINK dl_replay)
endforeach()

dl_add_test(test_made_ranks model LINK dl_replay EXTRA ${CMAKE_CURRENT_LIST_DIR}/made_ranks.c)
dl_add_fuzzer(fuzz_replay INPUTS 4000 LINK dl_replay)
target_sources(fuzz_replay PRIVATE ${CMAKE_CURRENT_LIST_DIR}/made_ranks.c)
dl_add_test(test_replay_data model LINK dl_replay dl_readers)
add_test(NAME test_dlcal_replay COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_dlcal_replay.sh
         $<TARGET_FILE:dlcal> $<TARGET_FILE:dlprof> WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_dlcal_replay PROPERTIES LABELS unit)
add_test(NAME test_trace_to_prediction
         COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_trace_to_prediction.sh $<TARGET_FILE:dlcal>
                 $<TARGET_FILE:dlsim>
         WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_trace_to_prediction PROPERTIES LABELS unit)
add_test(NAME test_traced_collectives
         COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_traced_collectives.sh $<TARGET_FILE:dlcal>
                 $<TARGET_FILE:dlsim>
         WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_traced_collectives PROPERTIES LABELS unit)
add_test(NAME test_rank_groups
         COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_rank_groups.sh $<TARGET_FILE:dlcal>
                 $<TARGET_FILE:dlsim>
         WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_rank_groups PROPERTIES LABELS unit)
add_test(NAME test_traces_report COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_traces_report.sh
         $<TARGET_FILE:dlcal> $<TARGET_FILE:dlsim> ${CMAKE_SOURCE_DIR}
         WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_traces_report PROPERTIES LABELS unit SKIP_RETURN_CODE 77)

# Links.
dl_add_test(test_links_fit model LINK dl_calibrate)
dl_add_test(test_links_read unit LINK dl_calibrate)
dl_add_fuzzer(fuzz_links LINK dl_calibrate)
add_test(NAME test_dlcal_generators COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_dlcal_generators.sh
         $<TARGET_FILE:dlcal> $<TARGET_FILE:dlsim> WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_dlcal_generators PROPERTIES LABELS unit)
add_test(NAME test_dlcal_links COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_dlcal_links.sh
         $<TARGET_FILE:dlcal> $<TARGET_FILE:dlsim> WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_dlcal_links PROPERTIES LABELS unit)
