foreach(module record activity activity_codec dlt_codec dlt distribution steps summary export)
    dl_add_test(test_${module} unit LINK dl_trace)
endforeach()
foreach(module kernel_class demangle activity_launches activity_timeline activity_collectives
        activity_host)
    dl_add_test(test_${module} unit LINK dl_trace)
endforeach()
dl_add_fuzzer(fuzz_dlt LINK dl_trace)
