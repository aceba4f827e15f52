foreach(module batch_list slow_list data_source pinned_threads recorder measured_row overhead bench bench_order bench_gpu_cases
        settings target run_traces interrupt overhead_file rank_launch)
    dl_add_test(test_${module} unit LINK dl_profiler)
endforeach()
dl_add_test(test_cmd_info unit LINK dl_profiler EXTRA ${PROJECT_SOURCE_DIR}/profiler/cmd_info.c)
dl_add_test(test_cmd_export unit LINK dl_profiler EXTRA ${PROJECT_SOURCE_DIR}/profiler/cmd_export.c)
target_link_options(test_pinned_threads PRIVATE -Wl,--wrap=dl_cpu_pin)
set_property(TEST test_pinned_threads test_recorder test_overhead test_bench APPEND PROPERTY LABELS threads)

add_test(NAME test_dlprof COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_dlprof.sh $<TARGET_FILE:dlprof>
         WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_dlprof PROPERTIES LABELS unit)
add_test(NAME test_dlprof_ranks COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_dlprof_ranks.sh $<TARGET_FILE:dlprof>
         WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_dlprof_ranks PROPERTIES LABELS unit)
set(nvtx_steps "")
if(TARGET dl_nvtx)
    add_executable(nvtx_steps ${CMAKE_CURRENT_LIST_DIR}/nvtx_steps.c)
    target_include_directories(nvtx_steps SYSTEM PRIVATE ${NVTX_INCLUDE_DIR})
    target_link_libraries(nvtx_steps PRIVATE dl_options ${CMAKE_DL_LIBS})
    set_target_properties(nvtx_steps PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_dependencies(nvtx_steps dlprof_inject)
    set(nvtx_steps $<TARGET_FILE:nvtx_steps>)
endif()
add_test(NAME test_dlprof_run
         COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_dlprof_run.sh $<TARGET_FILE:dlprof> ${nvtx_steps}
         WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_dlprof_run PROPERTIES LABELS unit)
if(NOT DL_SANITIZE AND NOT DL_COVERAGE)
    add_test(NAME test_dlprof_processors
             COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_dlprof_processors.sh $<TARGET_FILE:dlprof>)
    set_tests_properties(test_dlprof_processors PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
endif()
if(TARGET dlcal)
    add_test(NAME test_dlprof_torch
             COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_dlprof_torch.sh $<TARGET_FILE:dlprof>
                     $<TARGET_FILE:dlcal>
             WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    set_tests_properties(test_dlprof_torch PROPERTIES LABELS unit)
endif()
dl_add_test(test_device_options unit LINK dl_profiler EXTRA doubles/fake_device.c)
dl_add_test(test_run_meta unit LINK dl_profiler EXTRA doubles/fake_device.c)
dl_add_test(test_bench_gpu unit LINK dl_profiler EXTRA doubles/fake_device.c)
dl_add_test(test_bench_shapes unit LINK dl_profiler EXTRA doubles/fake_device.c)
if(TARGET dlcal AND TARGET dlsim)
    add_test(NAME test_shapes COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_shapes.sh $<TARGET_FILE:dlprof>
             $<TARGET_FILE:dlcal> $<TARGET_FILE:dlsim> WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    set_tests_properties(test_shapes PROPERTIES LABELS unit)
endif()

# The programs on a GPU, end to end, with a double of the device that computes on the processor.
# Not under sanitizers: the double is a module, and cannot be linked with instrumented kernels.
if(TARGET dlprof AND TARGET dlcal AND TARGET dlsim AND NOT DL_SANITIZE AND NOT DL_COVERAGE)
    add_library(fake_cuda MODULE doubles/fake_cuda.c doubles/fake_device.c)
    target_link_libraries(fake_cuda PRIVATE dl_options dl_kernels)
    set_target_properties(fake_cuda PROPERTIES POSITION_INDEPENDENT_CODE ON OUTPUT_NAME dlprof_cuda
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/doubles)
    add_test(NAME test_gpu_chain COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_gpu_chain.sh $<TARGET_FILE:dlprof>
             $<TARGET_FILE:dlcal> $<TARGET_FILE:dlsim> $<TARGET_FILE:fake_cuda>)
    set_tests_properties(test_gpu_chain PROPERTIES LABELS unit)
endif()

# Search for MNIST, the training data of ./quickstart.
add_test(NAME test_find_mnist COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_find_mnist.sh ${PROJECT_SOURCE_DIR}/scripts/find_mnist.sh)
set_tests_properties(test_find_mnist PROPERTIES LABELS unit)

# Installation of packages by the scripts.
add_test(NAME test_install_packages
         COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/test_install_packages.sh ${PROJECT_SOURCE_DIR}/scripts/install_packages.sh)
set_tests_properties(test_install_packages PROPERTIES LABELS unit)

# Concurrent copies of any program.
add_test(NAME test_bench_of COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_bench_of.sh $<TARGET_FILE:dlprof>
         $<TARGET_FILE:dlcal> WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_bench_of PROPERTIES LABELS unit)
