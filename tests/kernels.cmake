dl_add_test(test_layers unit LINK dl_kernels)
