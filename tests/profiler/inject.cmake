foreach(module deadline step_limit)
    dl_add_test(test_${module} unit LINK dl_inject)
endforeach()
if(NOT TARGET dl_cupti)
    return()
endif()

dl_add_test(test_cupti_decode unit LINK dl_cupti EXTRA doubles/raw_replay.c)
foreach(module cupti_kinds buffer_pool preemption)
    dl_add_test(test_${module} unit LINK dl_cupti)
endforeach()
# Prints a table of the processor time to decode a record of CUPTI.
add_executable(bench_decode EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/bench_decode.c)
target_link_libraries(bench_decode PRIVATE dl_options dl_cupti)
set_property(TEST test_buffer_pool APPEND PROPERTY LABELS threads)
target_link_options(test_preemption PRIVATE -Wl,--wrap=dl_capture_meta -Wl,--wrap=dl_capture_log -Wl,--wrap=dl_capture_now)

# Doubles of the driver and of CUPTI, and a test program.
function(add_double name)
    cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
    target_include_directories(${name} SYSTEM PRIVATE ${CUPTI_INCLUDE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
    target_link_libraries(${name} PRIVATE dl_options ${ARG_LINK})
    set_target_properties(${name} PROPERTIES
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/doubles
        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/doubles)
endfunction()
add_library(driver_double SHARED doubles/driver_double.c doubles/runtime_double.c)
add_double(driver_double LINK ${CMAKE_DL_LIBS} Threads::Threads)
set_target_properties(driver_double PROPERTIES OUTPUT_NAME cuda SOVERSION 1)
add_library(cupti_double MODULE doubles/cupti_double.c)
add_double(cupti_double LINK driver_double ${CMAKE_DL_LIBS} Threads::Threads)
add_library(cupti_double_old MODULE doubles/cupti_double.c)
target_compile_definitions(cupti_double_old PRIVATE DOUBLE_OLD)
add_double(cupti_double_old LINK driver_double ${CMAKE_DL_LIBS} Threads::Threads)
add_executable(inject_target doubles/inject_target.c)
add_double(inject_target LINK driver_double Threads::Threads)
set_target_properties(inject_target PROPERTIES ENABLE_EXPORTS ON)

# A program that prints its own activities: built with the doubles, and, if CUDA can be compiled, for a
# GPU with the static runtime library, as many programs are.
add_executable(truth_double gpu/truth.c)
add_double(truth_double LINK driver_double ${CMAKE_DL_LIBS})
if(DL_CUDA)
    add_executable(truth gpu/truth.c gpu/truth_kernels.cu)
    target_include_directories(truth PRIVATE ${PROJECT_SOURCE_DIR})
    target_link_libraries(truth PRIVATE CUDA::cudart_static)
    set_target_properties(truth PROPERTIES CUDA_RUNTIME_LIBRARY Static LINKER_LANGUAGE CUDA
        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endif()
# Prints the counts of raw records of CUPTI.
add_executable(raw_counts gpu/raw_counts.c doubles/raw_replay.c)
target_link_libraries(raw_counts PRIVATE dl_options dl_cupti)
set_target_properties(raw_counts PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
# Raw records that tests/gpu/run.sh made on a GPU, each with a file of its counts.
file(GLOB raw_fixtures ${CMAKE_CURRENT_LIST_DIR}/fixtures/raw/*.raw)
foreach(raw ${raw_fixtures})
    get_filename_component(name ${raw} NAME_WE)
    add_test(NAME raw_${name} COMMAND raw_counts ${raw} ${raw}.json)
    set_tests_properties(raw_${name} PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
endforeach()
# Compares the raw records of the truth program with the activities that it printed, by name.
dl_add_test(test_raw_truth unit LINK dl_cupti EXTRA doubles/raw_replay.c)
target_compile_definitions(test_raw_truth PRIVATE RAW_TRUTH="${CMAKE_CURRENT_LIST_DIR}/fixtures/raw/truth_full.raw")

dl_add_test(test_inject unit LINK dl_trace)
add_dependencies(test_inject dlprof_inject cupti_double cupti_double_old inject_target truth_double)
target_compile_definitions(test_inject PRIVATE
    INJECT_LIBRARY="$<TARGET_FILE:dlprof_inject>" INJECT_CUPTI="$<TARGET_FILE:cupti_double>"
    INJECT_OLD_CUPTI="$<TARGET_FILE:cupti_double_old>"
    INJECT_TARGET="$<TARGET_FILE:inject_target>" INJECT_TRUTH="$<TARGET_FILE:truth_double>"
    INJECT_REAL_CUPTI="${CUPTI_LIBRARY}")
target_include_directories(test_inject SYSTEM PRIVATE ${CUPTI_INCLUDE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
set_property(TEST test_inject APPEND PROPERTY LABELS threads)
# Its programs wait at most five seconds for the last records, so other tests must not use the cores.
set_tests_properties(test_inject PROPERTIES PROCESSORS 2)
# Real CUPTI libraries of several versions, if DL_CUPTI_LIBRARIES names a folder of them.
dl_add_test(test_cupti_libraries unit LINK dl_cupti)
add_dependencies(test_cupti_libraries dlprof_inject)
target_compile_definitions(test_cupti_libraries PRIVATE INJECT_LIBRARY="$<TARGET_FILE:dlprof_inject>")

# Headers of older toolkits, from PyPI.
add_test(NAME test_cupti_headers COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_cupti_headers.sh
         ${PROJECT_SOURCE_DIR} ${CMAKE_C_COMPILER})
set_tests_properties(test_cupti_headers PROPERTIES LABELS "slow;release_only" SKIP_RETURN_CODE 77)

# Overhead of recording CUDA: a device library whose calls go to the driver's double.
add_library(device_double MODULE doubles/device_double.c)
add_double(device_double LINK driver_double)
add_executable(test_launch_cost ${CMAKE_CURRENT_LIST_DIR}/test_launch_cost.c)
target_include_directories(test_launch_cost SYSTEM PRIVATE ${CMOCKA_INCLUDE_DIR})
target_link_libraries(test_launch_cost PRIVATE dl_profiler ${CMOCKA_LIBRARY})
set_target_properties(test_launch_cost PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
add_dependencies(test_launch_cost dlprof_inject cupti_double device_double)
add_test(NAME test_launch_cost COMMAND test_launch_cost $<TARGET_FILE:device_double>
         $<TARGET_FILE:dlprof_inject> $<TARGET_FILE:cupti_double> "${CUPTI_LIBRARY}"
         WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_launch_cost PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
add_test(NAME test_dlprof_overhead COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_dlprof_overhead.sh
         $<TARGET_FILE:dlprof> $<TARGET_FILE:dlprof_inject> $<TARGET_FILE:device_double>
         $<TARGET_FILE:cupti_double> $<TARGET_FILE:inject_target> "${CUPTI_LIBRARY}"
         WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(test_dlprof_overhead PROPERTIES LABELS unit SKIP_RETURN_CODE 77)

# tests/gpu/run.sh, end to end with the doubles.
if(TARGET fake_cuda AND TARGET dl_nvtx AND HWLOC_FOUND)
    add_executable(torch_double doubles/torch_double.c)
    add_double(torch_double LINK driver_double ${CMAKE_DL_LIBS})
    target_include_directories(torch_double SYSTEM PRIVATE ${NVTX_INCLUDE_DIR})
    set(bin ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
    add_test(NAME test_gpu_run COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_gpu_run.sh ${bin} ${CMAKE_BINARY_DIR}/tests
             $<TARGET_FILE:fake_cuda> "${CUPTI_LIBRARY}")
    set_tests_properties(test_gpu_run PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
    if(TARGET nvml_double)
        add_test(NAME test_quickstart_gpus COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_quickstart_gpus.sh ${bin}
                 ${CMAKE_BINARY_DIR}/tests $<TARGET_FILE:fake_cuda> "${CUPTI_LIBRARY}")
        set_tests_properties(test_quickstart_gpus PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
    endif()
    add_test(NAME test_gpu_run_broken COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_gpu_run.sh ${bin} ${CMAKE_BINARY_DIR}/tests
             $<TARGET_FILE:fake_cuda> "${CUPTI_LIBRARY}" broken)
    set_tests_properties(test_gpu_run_broken PROPERTIES LABELS slow SKIP_RETURN_CODE 77)
endif()
