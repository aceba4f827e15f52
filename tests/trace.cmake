foreach(module record activity dlt_codec dlt distribution steps summary export)
    dl_add_test(test_${module} unit LINK dl_trace)
endforeach()
dl_add_fuzzer(fuzz_dlt LINK dl_trace)
