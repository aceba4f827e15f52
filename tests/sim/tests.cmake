foreach(module value costs costs_layers costs_gradients costs_traces traced calibrate step_collectives costs_work costs_noise event_queue engine program recorded
        workload host noise tally links machine_graph collective_cost scenario
        scenario_machine without run scaling study pace sweep measured accuracy report timeline schedule
        html explain advise)
    dl_add_test(test_${module} unit LINK dl_sim)
endforeach()
foreach(module absence failures time_to_target island island_tensor island_context island_experts island_exchange random_layouts step_memory pipeline pipeline_split team team_exchange processes sync async async_average
        server_modes lag
        random_scenarios random_keys slow_worker dispatch collective plan collective_nodes collective_nccl nccl gpus
        gpu_overlap gpu_crowds gpu_server gpu_streams gpu_costs gpu_memory gpu_sharing unequal_gpus gpu_input loaders
        gpu_compress sharded gpu_k80 gpu_monotone scale tcp local_sgd members fabric traffic
        solve)
    dl_add_test(test_${module} model LINK dl_sim)
endforeach()
foreach(module rollout generators)
    dl_add_test(test_${module} model LINK dl_sim)
endforeach()
add_test(NAME test_dlsim_layouts COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_dlsim_layouts.sh
         $<TARGET_FILE:dlsim> WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_dlsim_layouts PROPERTIES LABELS "unit;release_only")
add_test(NAME test_dlsim_generators COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_dlsim_generators.sh
         $<TARGET_FILE:dlsim> WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_dlsim_generators PROPERTIES LABELS unit)
# Compares the network with max-min fair shares computed by a simple reference algorithm.
dl_add_test(test_maxmin unit LINK dl_sim EXTRA ${CMAKE_CURRENT_LIST_DIR}/maxmin.c)
dl_add_test(test_network model LINK dl_sim EXTRA ${CMAKE_CURRENT_LIST_DIR}/maxmin.c)
dl_add_test(test_statistics unit LINK dl_sim PkgConfig::GSL)
dl_add_test(test_assume unit LINK dl_sim)
dl_add_test(test_above unit LINK dl_sim)
dl_add_test(test_node_kinds model LINK dl_sim)

add_test(NAME test_scaling_data COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_scaling_data.sh ${PROJECT_SOURCE_DIR})
set_tests_properties(test_scaling_data PROPERTIES LABELS unit)

# Networks by name or definition, and machines by name.
dl_add_test(test_architecture unit LINK dl_sim)
dl_add_test(test_architecture_config unit LINK dl_sim)
dl_add_test(test_architecture_experts unit LINK dl_sim)
dl_add_test(test_roofline unit LINK dl_sim)
dl_add_test(test_machine_catalogue unit LINK dl_sim)
foreach(name machines_command pcie_boxes)
    add_test(NAME test_${name}
             COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_${name}.sh $<TARGET_FILE:dlsim>
             WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    set_tests_properties(test_${name} PROPERTIES LABELS unit)
endforeach()
dl_add_test(test_architecture_plans unit LINK dl_sim dl_kernels)

# Checks that the efficiencies in roofline_rates.c are those that the fit returns.
add_executable(fit_workloads ${CMAKE_CURRENT_LIST_DIR}/fit_workloads.c)
target_link_libraries(fit_workloads PRIVATE dl_options dl_sim)
set_target_properties(fit_workloads PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_test(NAME fit_workloads COMMAND fit_workloads ${PROJECT_SOURCE_DIR}/scenarios)
set_tests_properties(fit_workloads PROPERTIES LABELS model)

add_test(NAME test_workloads_command
         COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_workloads_command.sh $<TARGET_FILE:dlsim>
         WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_workloads_command PROPERTIES LABELS unit)

# Runs the GPU scenarios that come with the program.
file(GLOB gpu_scenarios CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/scenarios/z10pe/*.ini
     ${PROJECT_SOURCE_DIR}/scenarios/t4/*.ini ${PROJECT_SOURCE_DIR}/scenarios/scaling/*.ini
     ${PROJECT_SOURCE_DIR}/scenarios/modes/gpu_*.ini)
foreach(scenario ${gpu_scenarios})
    get_filename_component(folder ${scenario} DIRECTORY)
    get_filename_component(folder ${folder} NAME)
    get_filename_component(name ${scenario} NAME_WE)
    add_test(NAME scenario_${folder}_${name}
             COMMAND dlsim ${scenario} --quiet -o scenario_${folder}_${name}.csv
             WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    set_tests_properties(scenario_${folder}_${name} PROPERTIES LABELS model)
endforeach()
# Scenarios of published studies are complete: machine, costs and measured rows are consistent.
file(GLOB study_scenarios CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/scenarios/cntk/*.ini ${PROJECT_SOURCE_DIR}/scenarios/keras_mxnet/*.ini
     ${PROJECT_SOURCE_DIR}/scenarios/mxnet/*.ini ${PROJECT_SOURCE_DIR}/scenarios/papers/*.ini
     ${PROJECT_SOURCE_DIR}/scenarios/pytorch/*.ini ${PROJECT_SOURCE_DIR}/scenarios/tensorflow/*.ini)
foreach(scenario ${study_scenarios})
    get_filename_component(folder ${scenario} DIRECTORY)
    get_filename_component(folder ${folder} NAME)
    get_filename_component(name ${scenario} NAME_WE)
    add_test(NAME check_${folder}_${name} COMMAND dlsim --check ${scenario})
    set_tests_properties(check_${folder}_${name} PROPERTIES LABELS unit)
endforeach()
dl_add_test(machine_figures model LINK dl_sim)
dl_add_fuzzer(fuzz_config INPUTS 3000 LINK dl_sim)
dl_add_fuzzer(fuzz_recorded INPUTS 3000 LINK dl_sim)
dl_add_fuzzer(fuzz_costs LINK dl_sim)
dl_add_fuzzer(fuzz_scenario LINK dl_sim)
dl_add_fuzzer(fuzz_journal INPUTS 3000 LINK dl_sim)
dl_add_fuzzer(fuzz_dlsim INPUTS 3000 LINK dl_sim)

file(GLOB golden_scenarios CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/golden/*.ini)
list(REMOVE_ITEM golden_scenarios ${CMAKE_CURRENT_SOURCE_DIR}/golden/costs.ini)
# Under sanitizers only one number of threads; release builds compare several.
set(golden_threads "")
if(DL_SANITIZE)
    set(golden_threads -DTHREADS=2)
endif()
foreach(scenario ${golden_scenarios})
    get_filename_component(name ${scenario} NAME_WE)
    add_test(NAME golden_${name}
             COMMAND ${CMAKE_COMMAND} -DDLSIM=$<TARGET_FILE:dlsim> -DSCENARIO=${scenario}
                     ${golden_threads} -P ${CMAKE_CURRENT_SOURCE_DIR}/golden/run.cmake
             WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    set_tests_properties(golden_${name} PROPERTIES LABELS golden)
endforeach()

# Scenarios take five times as long under sanitizers, so these run only the first 300 of each kind,
# and 100 layouts.
if(DL_SANITIZE)
    set_tests_properties(test_random_layouts PROPERTIES ENVIRONMENT "RANDOM_LAYOUTS=100")
    set_tests_properties(test_random_keys PROPERTIES ENVIRONMENT "RANDOM_KEYS=0 300")
endif()

add_custom_target(bench_seeds COMMAND ${CMAKE_CURRENT_LIST_DIR}/bench_seeds.sh $<TARGET_FILE:dlsim>
                  ${PROJECT_SOURCE_DIR}/scenarios/seeds USES_TERMINAL)
add_executable(bench_sim EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/bench_sim.c)
target_link_libraries(bench_sim PRIVATE dl_options dl_sim)
add_executable(bench_network EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/bench_network.c
               ${CMAKE_CURRENT_LIST_DIR}/maxmin.c)
target_link_libraries(bench_network PRIVATE dl_options dl_sim)

# JavaScript of the pages.
find_program(DL_NODE NAMES node nodejs)
if(DL_NODE)
    foreach(name live figures)
        file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/tests/${name})
        add_test(NAME test_${name} COMMAND ${DL_NODE} ${PROJECT_SOURCE_DIR}/tests/page/test_${name}.cjs
                                        $<TARGET_FILE:dlsim>
                 WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests/${name})
        set_tests_properties(test_${name} PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
    endforeach()
endif()

add_test(NAME test_dlsim COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_dlsim.sh $<TARGET_FILE:dlsim>
         WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_dlsim PROPERTIES LABELS unit)
# The library, called by another program.
dl_add_test(test_api unit LINK dlscale dl_common Threads::Threads)
target_compile_definitions(test_api PRIVATE DL_GOLDEN="${PROJECT_SOURCE_DIR}/tests/golden")
set_property(TEST test_api APPEND PROPERTY LABELS threads)
add_test(NAME test_dlsim_json COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_dlsim_json.sh $<TARGET_FILE:dlsim>
         WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_dlsim_json PROPERTIES LABELS unit)

foreach(test test_gpu_k80 test_gpu_monotone fuzz_scenario test_links test_machine_graph
        test_collective test_collective_nodes test_collective_nccl test_nccl machine_figures)
    target_compile_definitions(${test} PRIVATE DL_MACHINES="${PROJECT_SOURCE_DIR}/scenarios/machines")
endforeach()

# The references of keys and columns equal the program's output.
add_test(NAME keys_reference
         COMMAND sh -c "\"$0\" --keys --markdown | diff \"$1\" -" $<TARGET_FILE:dlsim>
                 ${PROJECT_SOURCE_DIR}/docs/keys.md)
add_test(NAME columns_reference
         COMMAND sh -c "\"$0\" --columns | diff \"$1\" -" $<TARGET_FILE:dlsim>
                 ${PROJECT_SOURCE_DIR}/docs/columns.md)
set_tests_properties(keys_reference columns_reference PROPERTIES LABELS unit)

add_test(NAME test_scenario_command
         COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_scenario_command.sh $<TARGET_FILE:dlsim>
         WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_scenario_command PROPERTIES LABELS unit)
add_test(NAME test_completion
         COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_completion.sh $<TARGET_FILE:dlsim>
         WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_completion PROPERTIES LABELS unit)
add_test(NAME test_async_report
         COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_async_report.sh $<TARGET_FILE:dlsim> ${PROJECT_SOURCE_DIR})
set_tests_properties(test_async_report PROPERTIES LABELS model)

# Killed sweeps.
add_test(NAME test_dlsim_journal
         COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_dlsim_journal.sh $<TARGET_FILE:dlsim>)
set_tests_properties(test_dlsim_journal PROPERTIES LABELS "unit;faults")

# The same sweep on MPI ranks.
if(TARGET dlscale_mpi)
    add_test(NAME test_dlsim_ranks
             COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_dlsim_ranks.sh $<TARGET_FILE:dlsim>)
    set_tests_properties(test_dlsim_ranks PROPERTIES LABELS "unit;faults" SKIP_RETURN_CODE 77)
endif()

# Rings over the TCP of Linux, compared with the simulated ones; needs root.
add_executable(ring_over_tcp EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/ring_over_tcp.c)
target_link_libraries(ring_over_tcp PRIVATE dl_options dl_sim)

# Comparison with SimGrid (Debian: libsimgrid-dev), which only these two need.
add_executable(bench_peers EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/bench_peers.c)
target_link_libraries(bench_peers PRIVATE dl_options dl_sim)
pkg_check_modules(SIMGRID IMPORTED_TARGET simgrid)
if(SIMGRID_FOUND)
    add_executable(peer_simgrid EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/peer_simgrid.cpp)
    target_link_libraries(peer_simgrid PRIVATE PkgConfig::SIMGRID)
    target_compile_features(peer_simgrid PRIVATE cxx_std_17)
    target_compile_definitions(bench_peers PRIVATE PEER_SIMGRID="$<TARGET_FILE:peer_simgrid>")
    add_dependencies(bench_peers peer_simgrid)
    dl_add_test(test_peers model LINK dl_sim)
    target_compile_definitions(test_peers PRIVATE PEER_SIMGRID="$<TARGET_FILE:peer_simgrid>")
    add_dependencies(test_peers peer_simgrid)
endif()
