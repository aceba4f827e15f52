# The scenarios of published systems are whole: files, costs, and a point for every measured row.
foreach(group tensorflow keras_mxnet mxnet)
    file(GLOB studies CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/scenarios/${group}/*.ini)
    foreach(scenario ${studies})
        get_filename_component(name ${scenario} NAME_WE)
        add_test(NAME study_${group}_${name} COMMAND dlsim --check ${scenario})
        set_tests_properties(study_${group}_${name} PROPERTIES LABELS unit)
    endforeach()
endforeach()
