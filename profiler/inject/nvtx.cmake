# The NVTX front end of the injected library, as objects: its entry points are looked up by name at run
# time, so a linker would not extract them from an archive. Needs only the headers of NVTX.
find_path(NVTX_INCLUDE_DIR nvtx3/nvToolsExtPayload.h
    HINTS ${CUDAToolkit_INCLUDE_DIRS} ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES include)
if(NVTX_INCLUDE_DIR)
    add_library(dl_nvtx OBJECT inject/nvtx.c inject/nvtx_open.c inject/nvtx_payload.c inject/nccl.c)
    target_link_libraries(dl_nvtx PUBLIC dl_options)
    target_include_directories(dl_nvtx SYSTEM PUBLIC ${NVTX_INCLUDE_DIR})
    set_target_properties(dl_nvtx PROPERTIES C_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON)
else()
    message(STATUS "NVTX recorder (ranges, NCCL's sizes): not built (no nvtx3/nvToolsExtPayload.h; CUDA 13 has "
        "it, and github.com/NVIDIA/NVTX, for which NVTX_INCLUDE_DIR names its c/include)")
endif()

# dlprof measures the library's overhead in a child process.
target_link_libraries(dl_profiler PUBLIC ${CMAKE_DL_LIBS})
if(NVTX_INCLUDE_DIR)
    target_include_directories(dl_profiler SYSTEM PRIVATE ${NVTX_INCLUDE_DIR})
    target_compile_definitions(dl_profiler PRIVATE DL_NVTX)
endif()
