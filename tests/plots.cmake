# Each figure is drawn from the results file in fixtures/plots, as PNG and as SVG.
foreach(figure speedup interval staleness breakdown utilisation)
    add_test(NAME plot_${figure}
             COMMAND sh ${PROJECT_SOURCE_DIR}/tests/test_plot.sh ${figure}
                     ${PROJECT_SOURCE_DIR}/plots ${PROJECT_SOURCE_DIR}/tests/fixtures/plots
             WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
    set_tests_properties(plot_${figure} PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
endforeach()
