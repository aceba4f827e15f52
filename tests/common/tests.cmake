foreach(module status alloc names units cpu random file ini csv options output json chrome_trace
        quantity machine)
    dl_add_test(test_${module} unit LINK dl_common)
endforeach()
target_link_options(test_file PRIVATE -Wl,--wrap=readlink)
dl_add_fuzzer(fuzz_ini)
dl_add_fuzzer(fuzz_csv)
dl_add_fuzzer(fuzz_machine)
target_compile_definitions(test_machine PRIVATE DL_MACHINES="${PROJECT_SOURCE_DIR}/scenarios/machines")
