foreach(module notes dataset)
    dl_add_test(test_${module} unit LINK dl_calibrate
                EXTRA ${CMAKE_CURRENT_LIST_DIR}/calibrate_traces.c)
endforeach()
foreach(module fit operations step_noise sharing charges memory)
    dl_add_test(test_${module} model LINK dl_calibrate)
endforeach()
