# The library that the CUDA driver and NVTX load into a profiled program: plain C, next to dlprof,
# nothing of it visible but the entry points. Its parts are a static library for the tests.
set_target_properties(dl_common dl_trace PROPERTIES POSITION_INDEPENDENT_CODE ON)
foreach(library dl_common dl_trace) # inlining as without -fPIC
    target_compile_options(${library} PRIVATE -fno-semantic-interposition)
endforeach()
dl_add_library(dl_inject inject/capture.c inject/capture_log.c inject/capture_meta.c
    inject/settings.c inject/step_limit.c inject/stream_pool.c
    LINK dl_trace dl_common Threads::Threads)
set_target_properties(dl_inject PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)

if(TARGET dl_nvtx)
    add_library(dlprof_inject MODULE)
    target_link_libraries(dlprof_inject PRIVATE dl_nvtx dl_inject)
    target_link_options(dlprof_inject PRIVATE
        -Wl,-z,nodelete -Wl,-z,defs -Wl,--exclude-libs,ALL -Wl,--as-needed)
    set_target_properties(dlprof_inject PROPERTIES C_VISIBILITY_PRESET hidden
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
endif()
