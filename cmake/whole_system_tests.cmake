# Tests of more than one room: simulation (real roles, simulated seams) and integration (real seams).
function(overlord_whole_system_test folder)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/${folder}/*.cc")
  if(sources)
    overlord_gtest(overlord_${folder}_test "${sources}" ${ARGN})
    overlord_in_batches(overlord_${folder}_test 10)
    target_include_directories(overlord_${folder}_test PRIVATE "${PROJECT_SOURCE_DIR}/tests")
  endif()
endfunction()

overlord_whole_system_test(simulation overlord_sim)
overlord_whole_system_test(integration overlord_node overlord_testing)
