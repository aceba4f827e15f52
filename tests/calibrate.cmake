foreach(module notes dataset)
    dl_add_test(test_${module} unit LINK dl_calibrate
                EXTRA ${CMAKE_CURRENT_SOURCE_DIR}/calibrate_traces.c)
endforeach()
foreach(module fit operations)
    dl_add_test(test_${module} model LINK dl_calibrate)
endforeach()
