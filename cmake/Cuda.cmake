# CUDA, if this machine can compile it: the compiler, cuBLAS, cuDNN and NCCL. Building needs neither
# a GPU nor a driver. libcuda is never linked; it is loaded from the driver at run time.
# Sets DL_CUDA to whether the "cuda" device is built, and dl_cuda_libraries to the target to link.
set(DL_CUDA OFF)
option(DL_WITH_CUDA "Build the \"cuda\" device where CUDA, cuDNN and NCCL are found" ON)
if(NOT DL_WITH_CUDA OR NOT CUDAToolkit_FOUND)
    message(STATUS "CUDA device: not built (no CUDA toolkit, or DL_WITH_CUDA is off)")
    return()
endif()
if(CUDAToolkit_VERSION VERSION_LESS 12)
    message(STATUS "CUDA device: not built (CUDA ${CUDAToolkit_VERSION} is older than 12)")
    return()
endif()
include(CheckLanguage)
check_language(CUDA)
# Python wheels contain the libraries without the symbolic links that -lcudnn and -lnccl need.
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR})
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${CUDAToolkit_LIBRARY_DIR})
foreach(part CMAKE_CUDA_COMPILER CUDNN_INCLUDE_DIR CUDNN_LIBRARY NCCL_INCLUDE_DIR NCCL_LIBRARY)
    if(NOT ${part})
        message(STATUS "CUDA device: not built (no ${part})")
        return()
    endif()
endforeach()
if(NOT TARGET CUDA::cublas)
    message(STATUS "CUDA device: not built (no cuBLAS)")
    return()
endif()

set(CMAKE_CUDA_RUNTIME_LIBRARY Shared) # default: the static one, beside libcudart.so
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    # A100 and others of 8.x; H100 and H200. When a program starts on another GPU, the driver compiles
    # PTX code: that of 90, or for older GPUs that of the oldest ones that CUDA 13 and 12 support and
    # that add doubles atomically (T4, RTX 20; P100, GTX 10).
    if(CUDAToolkit_VERSION VERSION_LESS 13)
        set(CMAKE_CUDA_ARCHITECTURES 60-virtual 80 90)
    else()
        set(CMAKE_CUDA_ARCHITECTURES 75-virtual 80 90)
    endif()
endif()
set(CMAKE_CUDA_STANDARD 17)
enable_language(CUDA)

add_library(dl_cuda_libraries INTERFACE)
target_include_directories(dl_cuda_libraries SYSTEM INTERFACE
    ${CUDAToolkit_INCLUDE_DIRS} ${CUDNN_INCLUDE_DIR} ${NCCL_INCLUDE_DIR})
target_link_libraries(dl_cuda_libraries INTERFACE
    CUDA::cudart CUDA::cublas ${CUDNN_LIBRARY} ${NCCL_LIBRARY})
set(DL_CUDA ON)
message(STATUS "CUDA device: ${CUDAToolkit_VERSION}, for sm_${CMAKE_CUDA_ARCHITECTURES}")
