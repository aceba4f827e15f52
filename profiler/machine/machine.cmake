# Hardware detection of dlprof machine; without hwloc, the command fails with a message.
dl_add_library(dl_hardware machine/machine_box.c machine/machine_gpu.c machine/machine_copies.c
    machine/machine_write.c
    LINK dl_trace dl_common ${CMAKE_DL_LIBS})
if(HWLOC_FOUND)
    target_sources(dl_hardware PRIVATE machine/machine_probe.c)
    target_link_libraries(dl_hardware PUBLIC PkgConfig::HWLOC)
    target_compile_definitions(dl_hardware PUBLIC DL_HAVE_HWLOC)
endif()
target_sources(dl_profiler PRIVATE machine/machine_stream.c)
target_sources(dlprof PRIVATE cmd_machine.c)
target_link_libraries(dlprof PRIVATE dl_hardware)
