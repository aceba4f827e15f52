foreach(module value costs event_queue engine maxmin processor workload host noise gsl_random
        scenario run sweep measured report timeline)
    dl_add_test(test_${module} unit LINK dl_sim)
endforeach()
foreach(module team sync async)
    dl_add_test(test_${module} model LINK dl_sim)
endforeach()
