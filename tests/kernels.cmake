dl_add_test(test_layers unit LINK dl_kernels)
dl_add_test(test_model unit LINK dl_kernels)
dl_add_test(test_optimizer unit LINK dl_kernels)
