# Choice between one GPU, several, and splitting the model: scenarios/guide.
add_test(NAME guide COMMAND ${CMAKE_CURRENT_LIST_DIR}/test_guide.sh $<TARGET_FILE:dlsim>
         WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
set_tests_properties(guide PROPERTIES LABELS model)
