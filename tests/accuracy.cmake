# Accuracy under simulated staleness: dlsim and dlprof together, and scenarios/accuracy.
foreach(name schedule accuracy)
    add_test(NAME ${name} COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_${name}.sh $<TARGET_FILE:dlsim>
             $<TARGET_FILE:dlprof> WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    set_tests_properties(${name} PROPERTIES LABELS model)
endforeach()
