dl_add_test(test_fit unit LINK dl_calibrate)
