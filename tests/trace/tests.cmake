foreach(module shape record distribution print held_file dlt dlt_codec dlt_meta activity_codec
        training_steps training_summary training_export
        activity activity_launches activity_timeline activity_collectives activity_host activity_summary
        activity_info activity_steps cpu_steps activity_tracks activity_label activity_export
        kernel_class demangle collective_kernels capture_cost_figures period rank_clock)
    dl_add_test(test_${module} unit LINK dl_trace)
endforeach()
dl_add_fuzzer(fuzz_dlt LINK dl_trace)
foreach(module json_value json_events comm_patterns kineto nsys data)
    dl_add_test(test_reader_${module} unit LINK dl_readers PkgConfig::SQLITE)
endforeach()
dl_add_fuzzer(fuzz_kineto LINK dl_readers)
dl_add_fuzzer(fuzz_nsys INPUTS 5000 LINK dl_readers PkgConfig::SQLITE)

# Benchmarks, not tests: the time to append a record, and to read traces of other programs.
dl_add_program(bench_dlt ${CMAKE_CURRENT_LIST_DIR}/bench_dlt.c LINK dl_trace)
dl_add_program(bench_readers ${CMAKE_CURRENT_LIST_DIR}/bench_readers.c LINK dl_readers)
