# Data, exchange, training.
dl_add_test(test_data_set unit LINK dl_kernels ZLIB::ZLIB)
dl_add_test(test_data_cifar unit LINK dl_kernels)
dl_add_fuzzer(fuzz_images INPUTS 1000 LINK dl_kernels ZLIB::ZLIB)
dl_add_test(test_exchange unit LINK dl_kernels)
dl_add_test(test_thread_team unit LINK dl_kernels)
dl_add_test(test_quantise unit LINK dl_kernels)
# Loads a double in place of OpenBLAS.
add_library(openblas_double SHARED doubles/openblas_double.c)
target_link_libraries(openblas_double PRIVATE dl_options)
set_target_properties(openblas_double PROPERTIES OUTPUT_NAME openblas SOVERSION 0
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/openblas)
dl_add_test(test_blas unit LINK dl_kernels)
add_dependencies(test_blas openblas_double)
set_property(TEST test_blas APPEND PROPERTY ENVIRONMENT
    LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/openblas)
dl_add_test(test_train unit LINK dl_kernels)
dl_add_test(test_train_average unit LINK dl_kernels)
dl_add_test(test_train_records unit LINK dl_kernels)
dl_add_test(test_train_server unit LINK dl_kernels)
dl_add_test(test_train_syncer unit LINK dl_kernels)
dl_add_test(test_train_points unit LINK dl_kernels)
dl_add_test(test_train_replay unit LINK dl_kernels)
dl_add_test(test_schedule_read unit LINK dl_kernels)
dl_add_fuzzer(fuzz_schedule LINK dl_kernels)
target_link_options(test_train PRIVATE -Wl,--wrap=dl_cpu_pin)
dl_add_test(test_mnist_accuracy model LINK dl_kernels)
set_property(TEST test_mnist_accuracy APPEND PROPERTY LABELS slow)
set_property(TEST test_exchange test_thread_team test_train test_train_average test_train_records test_train_server test_train_syncer test_train_points test_train_replay APPEND PROPERTY LABELS threads)
dl_add_test(test_layers unit LINK dl_kernels)
dl_add_test(test_product unit LINK dl_kernels)
target_compile_definitions(test_product PRIVATE DL_REAL=float)
dl_add_test(test_transformer_cpu unit LINK dl_kernels)
dl_add_test(test_model unit LINK dl_kernels)
dl_add_test(test_model_plan unit LINK dl_kernels)
dl_add_test(test_large_models model LINK dl_kernels)
set_property(TEST test_large_models APPEND PROPERTY LABELS slow)
dl_add_test(test_optimizer unit LINK dl_kernels)

dl_add_test(test_train_ranks unit LINK dl_kernels EXTRA doubles/fake_device.c doubles/thread_ranks.c)
set_property(TEST test_train_ranks APPEND PROPERTY LABELS threads)
# Ranks started by mpirun, which find the library in the program's folder.
if(TARGET dlscale_mpi)
    add_executable(mpi_ranks ${CMAKE_CURRENT_LIST_DIR}/mpi_ranks.c)
    target_include_directories(mpi_ranks SYSTEM PRIVATE ${CMOCKA_INCLUDE_DIR})
    target_link_libraries(mpi_ranks PRIVATE dl_options dl_kernels ${CMOCKA_LIBRARY})
    set_target_properties(mpi_ranks PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/ranks)
    add_dependencies(mpi_ranks dlscale_mpi)
    add_test(NAME test_mpi_ranks COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_mpi_ranks.sh
             $<TARGET_FILE:mpi_ranks>)
    set_tests_properties(test_mpi_ranks PROPERTIES LABELS "unit;faults" SKIP_RETURN_CODE 77)
endif()

# The kernels of the "cuda" device, compiled for the processor: launches become calls, the GPU's clock
# becomes the host's, and a double replaces CUDA's headers.
set(cuda_double ${PROJECT_SOURCE_DIR}/tests/doubles/cuda)
set(cuda_kernels ${CMAKE_CURRENT_BINARY_DIR}/cuda_kernels.cc)
add_custom_command(OUTPUT ${cuda_kernels} VERBATIM
    DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cuda/cuda_kernels.cu
    COMMAND sed -E
        -e "s/kernel<<<(.*), (.*), 0, (.*)>>>/cuda_launch(\\1, \\2, \\3, kernel)/"
        -e "s/asm volatile.*%globaltimer.*/now = cuda_clock_ns();/"
        ${PROJECT_SOURCE_DIR}/kernels/cuda/cuda_kernels.cu > ${cuda_kernels})
add_library(cuda_kernels_on_cpu STATIC ${cuda_kernels} doubles/cuda/cuda_run.cc)
target_link_libraries(cuda_kernels_on_cpu PRIVATE dl_options)
target_compile_options(cuda_kernels_on_cpu PRIVATE
    -Wno-pedantic -Wno-shadow -Wno-unknown-pragmas -ffp-contract=off)
target_include_directories(cuda_kernels_on_cpu BEFORE PUBLIC ${cuda_double})
dl_add_test(test_cuda_kernels unit LINK dl_kernels cuda_kernels_on_cpu)

# Devices. Tests with the label gpu need a GPU and skip themselves without one.
dl_add_test(test_device unit LINK dl_kernels)
dl_add_test(test_train_device unit LINK dl_kernels EXTRA doubles/fake_device.c)
# Without the label threads: it takes minutes under ThreadSanitizer, and test_train_ranks covers devices.
if(DL_CUDA)
    add_dependencies(test_device dlprof_cuda)
    dl_add_test(test_backend_cuda gpu LINK dl_kernels_cuda dl_kernels)
    # These define the functions of CUDA's libraries that they use; the second links no others.
    dl_add_test(test_cuda_device unit LINK dl_kernels_cuda dl_kernels)
    dl_add_test(test_cuda_group unit LINK dl_kernels
        EXTRA ../kernels/cuda/device_cuda_group.c ../kernels/cuda/cuda_calls.c)
    target_include_directories(test_cuda_group SYSTEM PRIVATE
        $<TARGET_PROPERTY:dl_cuda_libraries,INTERFACE_INCLUDE_DIRECTORIES>)
endif()

# Prints a table of the layers' speed.
add_executable(bench_kernels EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/bench_kernels.c)
target_link_libraries(bench_kernels PRIVATE dl_options dl_kernels)
# Compares training steps with PyTorch's in half an hour; keeps earlier measurements. Needs a Python with
# torch.
add_executable(bench_steps EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/bench_steps.c)
target_link_libraries(bench_steps PRIVATE dl_options dl_kernels)
add_custom_target(bench_torch COMMAND python3 -B ${CMAKE_CURRENT_LIST_DIR}/bench_torch.py
    $<TARGET_FILE:bench_steps> ${CMAKE_BINARY_DIR}/bench_torch.csv USES_TERMINAL)
add_dependencies(bench_torch bench_steps)
add_test(NAME bench_rounds COMMAND ${DL_PYTHON3} -B ${CMAKE_CURRENT_LIST_DIR}/test_bench_rounds.py)
set_tests_properties(bench_rounds PROPERTIES LABELS unit)
