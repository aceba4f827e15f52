foreach(module value costs event_queue engine maxmin processor)
    dl_add_test(test_${module} unit LINK dl_sim)
endforeach()
