# Libraries that the project uses; each becomes one target. Messages name the Debian packages.
option(DL_ALLOW_MISSING "Configure without libraries that dlprof does not need; what does, fails to build" OFF)
set(dl_needed REQUIRED)
if(DL_ALLOW_MISSING)
    set(dl_needed "")
endif()
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
# Emscripten has its own system root; only these headers of the host are used as well.
find_path(BOOST_INCLUDE_DIR boost/math/special_functions/beta.hpp PATHS /usr/include REQUIRED
    NO_CMAKE_FIND_ROOT_PATH)                                           # libboost-dev
if(EMSCRIPTEN)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/include)
    file(CREATE_LINK ${BOOST_INCLUDE_DIR}/boost ${CMAKE_BINARY_DIR}/include/boost SYMBOLIC)
    set(BOOST_INCLUDE_DIR ${CMAKE_BINARY_DIR}/include)
    return()
endif()
find_path(RANDOM123_INCLUDE_DIR Random123/philox.h REQUIRED)           # librandom123-dev
if(DL_SIMULATOR_ONLY)
    return()
endif()

pkg_check_modules(GSL ${dl_needed} IMPORTED_TARGET gsl)                # libgsl-dev
find_package(ZLIB REQUIRED)                                            # zlib1g-dev
pkg_check_modules(OPENBLAS REQUIRED IMPORTED_TARGET openblas)          # libopenblas-dev
find_package(simdjson ${dl_needed})     # libsimdjson-dev; Ubuntu 22.04's has no simdjson.pc
pkg_check_modules(SQLITE ${dl_needed} IMPORTED_TARGET sqlite3)         # libsqlite3-dev
foreach(library PkgConfig::GSL PkgConfig::SQLITE simdjson::simdjson)
    if(NOT TARGET ${library})
        message(WARNING "no ${library}: only targets that do without it can be built")
        add_library(${library} INTERFACE IMPORTED)
    endif()
endforeach()

# Optional: the tests.
find_path(CMOCKA_INCLUDE_DIR cmocka.h)                                 # libcmocka-dev
find_library(CMOCKA_LIBRARY cmocka)
find_program(DL_PYTHON3 python3)                                       # python3

# Optional: reads traces in .tar archives.
option(DL_WITH_LIBARCHIVE "Read traces in .tar archives, where libarchive is found" ON)
if(DL_WITH_LIBARCHIVE)
    pkg_check_modules(LIBARCHIVE IMPORTED_TARGET libarchive)           # libarchive-dev
endif()

# Optional: dlprof machine detects the hardware with it.
option(DL_WITH_HWLOC "Build dlprof machine, where hwloc is found" ON)
if(DL_WITH_HWLOC)
    pkg_check_modules(HWLOC IMPORTED_TARGET hwloc)                     # libhwloc-dev
endif()

# Optional: ranks started by mpirun work as one job (common/cluster.h).
option(DL_WITH_MPI "Build the library through which ranks reach one another, where MPI is found" ON)
if(DL_WITH_MPI)
    find_package(MPI QUIET COMPONENTS C)                               # libopenmpi-dev, openmpi-bin
endif()
if(MPI_C_FOUND)
    message(STATUS "MPI: ${MPI_C_VERSION}, ${MPI_C_LIBRARIES}")
else()
    message(STATUS "MPI: not built (not found, or DL_WITH_MPI is off)")
endif()

# Optional: profiling CUDA programs needs CUPTI's headers. The library is loaded at run time and
# never linked.
find_package(CUDAToolkit QUIET)
if(CUDAToolkit_FOUND AND CUDAToolkit_VERSION VERSION_LESS 11.8)
    message(STATUS "CUDA recorder: not built (CUDA ${CUDAToolkit_VERSION} is older than 11.8)")
elseif(CUDAToolkit_FOUND)
    find_path(CUPTI_INCLUDE_DIR cupti.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
        PATH_SUFFIXES ../extras/CUPTI/include)
    find_library(CUPTI_LIBRARY cupti HINTS ${CUDAToolkit_LIBRARY_DIR}
        PATH_SUFFIXES ../extras/CUPTI/lib64)
    get_filename_component(CUPTI_FOLDER "${CUPTI_LIBRARY}" DIRECTORY)
endif()
