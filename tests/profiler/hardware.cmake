# Hardware detection, with trees of XML files and of /sys in place of machines with GPUs.
foreach(module machine_box machine_sysfs)
    dl_add_test(test_${module} unit LINK dl_hardware EXTRA doubles/sysfs_tree.c)
endforeach()
foreach(module machine_rates machine_links machine_write machine_copies)
    dl_add_test(test_${module} unit LINK dl_hardware)
endforeach()
dl_add_test(test_machine_stream unit LINK dl_profiler)
set_property(TEST test_machine_stream APPEND PROPERTY LABELS threads)

add_library(nvml_double MODULE doubles/nvml_double.c)
target_link_libraries(nvml_double PRIVATE dl_options)
set_target_properties(nvml_double PROPERTIES OUTPUT_NAME nvidia-ml PREFIX lib SUFFIX .so.1
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/driver)
dl_add_test(test_machine_gpu unit LINK dl_hardware EXTRA doubles/nvml_double.c)
target_compile_definitions(test_machine_gpu PRIVATE DL_NVML_DOUBLE="$<TARGET_FILE:nvml_double>")
add_dependencies(test_machine_gpu nvml_double)
if(HWLOC_FOUND)
    dl_add_test(test_machine_probe unit LINK dl_hardware EXTRA doubles/sysfs_tree.c)
    dl_add_test(test_cmd_machine unit LINK dl_hardware dl_profiler
        EXTRA ${PROJECT_SOURCE_DIR}/profiler/cmd_machine.c)
    add_dependencies(test_cmd_machine nvml_double)
    # Plugins of hwloc never free some memory, which the leak checker would report.
    set_tests_properties(test_machine_probe PROPERTIES ENVIRONMENT HWLOC_PLUGINS_PATH=/nonexistent)
    set_tests_properties(test_cmd_machine PROPERTIES
        ENVIRONMENT "LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/driver;HWLOC_PLUGINS_PATH=/nonexistent")
    dl_add_test(test_machine_file unit LINK dl_hardware
        EXTRA doubles/sysfs_tree.c doubles/nvml_double.c)
    target_compile_definitions(test_machine_file PRIVATE
        DL_MACHINES="${PROJECT_SOURCE_DIR}/scenarios/machines"
        DL_FIXTURES="${CMAKE_CURRENT_SOURCE_DIR}/fixtures/machines")
    dl_add_fuzzer(fuzz_hwloc INPUTS 2000 LINK dl_hardware)
    target_compile_definitions(test_machine_probe PRIVATE
        DL_FIXTURES="${CMAKE_CURRENT_SOURCE_DIR}/fixtures/machines")
endif()
