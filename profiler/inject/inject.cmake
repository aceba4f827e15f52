# The library that the CUDA driver and NVTX load into a profiled program: plain C, in dlprof's folder,
# exports only the entry points. Its parts are a static library for the tests.
set_target_properties(dl_common dl_trace PROPERTIES POSITION_INDEPENDENT_CODE ON)
foreach(library dl_common dl_trace) # lets gcc inline as without -fPIC
    target_compile_options(${library} PRIVATE -fno-semantic-interposition)
endforeach()
dl_add_library(dl_inject inject/capture.c inject/settings.c LINK dl_trace dl_common Threads::Threads)
set_target_properties(dl_inject PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)

# Needs only the headers of CUPTI; the library is loaded at run time.
if(CUPTI_INCLUDE_DIR)
    dl_add_library(dl_cupti inject/cupti_api.c inject/cupti_decode.c inject/cupti_raw.c
        inject/cupti_session.c LINK dl_inject)
    target_include_directories(dl_cupti SYSTEM PUBLIC ${CUPTI_INCLUDE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
    target_compile_definitions(dl_cupti PRIVATE DL_CUPTI_FOLDER="${CUPTI_FOLDER}")
    set_target_properties(dl_cupti PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
endif()

if(TARGET dl_nvtx OR TARGET dl_cupti)
    add_library(dlprof_inject MODULE $<$<TARGET_EXISTS:dl_cupti>:inject/entry.c>)
    target_link_libraries(dlprof_inject PRIVATE $<TARGET_NAME_IF_EXISTS:dl_nvtx>
        $<TARGET_NAME_IF_EXISTS:dl_cupti> dl_inject)
    target_link_options(dlprof_inject PRIVATE
        -Wl,-z,nodelete -Wl,-z,defs -Wl,--exclude-libs,ALL -Wl,--as-needed)
    set_target_properties(dlprof_inject PROPERTIES C_VISIBILITY_PRESET hidden
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
    # dlprof run looks for it in dlprof's folder.
    add_dependencies(dlprof dlprof_inject)
endif()
