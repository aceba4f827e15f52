foreach(module record dlt_codec dlt)
    dl_add_test(test_${module} unit LINK dl_trace)
endforeach()
