# Looking at the machine. The trees of XML files and of /sys stand in for machines with GPUs.
foreach(module machine_box machine_sysfs)
    dl_add_test(test_${module} unit LINK dl_hardware EXTRA doubles/sysfs_tree.c)
endforeach()
if(HWLOC_FOUND)
    dl_add_test(test_machine_probe unit LINK dl_hardware EXTRA doubles/sysfs_tree.c)
    target_compile_definitions(test_machine_probe PRIVATE
        DL_FIXTURES="${CMAKE_CURRENT_LIST_DIR}/fixtures/machines")
endif()
