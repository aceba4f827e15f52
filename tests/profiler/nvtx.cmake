# The NVTX front end: its modules with a capture in memory, then the injected library in real
# programs, with the installed NCCL, cuBLAS and cuDNN.
if(NOT TARGET dl_nvtx)
    return()
endif()
foreach(module nvtx nvtx_payload nccl_ranges nccl_plugin)
    dl_add_test(test_${module} unit LINK dl_nvtx dl_trace Threads::Threads
        EXTRA doubles/nvtx_capture.c)
endforeach()
set_property(TEST test_nvtx test_nccl_plugin APPEND PROPERTY LABELS threads)

# nvtx_test(PART LINK libs...): test_nvtx.sh with the program tests/doubles/nvtx_PART.c
function(nvtx_test part)
    cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
    add_executable(nvtx_${part} doubles/nvtx_${part}.c)
    target_include_directories(nvtx_${part} SYSTEM PRIVATE ${NVTX_INCLUDE_DIR})
    target_link_libraries(nvtx_${part} PRIVATE dl_options ${CMAKE_DL_LIBS} ${ARG_LINK})
    set_target_properties(nvtx_${part} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME test_nvtx_${part} COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_nvtx.sh
        $<TARGET_FILE:dlprof_inject> $<TARGET_FILE:nvtx_dump> ${part} $<TARGET_FILE:nvtx_${part}>)
    set_tests_properties(test_nvtx_${part} PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
endfunction()

add_executable(nvtx_dump doubles/nvtx_dump.c)
target_link_libraries(nvtx_dump PRIVATE dl_trace)
set_target_properties(nvtx_dump PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
nvtx_test(target LINK Threads::Threads)

set(cuda_libraries ${NVTX_INCLUDE_DIR}/../lib ${NVTX_INCLUDE_DIR}/../lib64)
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${cuda_libraries})
find_library(CUDART_LIBRARY NAMES cudart HINTS ${cuda_libraries})
find_library(CUBLAS_LIBRARY NAMES cublas HINTS ${cuda_libraries})
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${cuda_libraries})
if(NCCL_LIBRARY AND CUDART_LIBRARY)
    nvtx_test(nccl LINK ${NCCL_LIBRARY} ${CUDART_LIBRARY})
endif()
if(CUBLAS_LIBRARY AND CUDNN_LIBRARY)
    nvtx_test(math LINK ${CUBLAS_LIBRARY} ${CUDNN_LIBRARY})
endif()
