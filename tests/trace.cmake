foreach(module record dlt_codec dlt distribution steps)
    dl_add_test(test_${module} unit LINK dl_trace)
endforeach()
