# The codecs of room `media`: each is optional, ON where its library is found. A codec that is OFF stays in
# the list that `media::codecs()` gives, marked absent, and its files are answered with what to install.

# overlord_codec(NAME HEADER LIBRARY PACKAGE): option OVERLORD_WITH_<NAME>, target external::<name> and the
# definition OVERLORD_HAS_<NAME> for everything that links the target.
macro(overlord_codec name header library package)
  find_path(OVERLORD_${name}_INCLUDE_DIR "${header}")
  find_library(OVERLORD_${name}_LIBRARY "${library}")
  mark_as_advanced(OVERLORD_${name}_INCLUDE_DIR OVERLORD_${name}_LIBRARY)
  if(OVERLORD_${name}_INCLUDE_DIR AND OVERLORD_${name}_LIBRARY)
    set(overlord_codec_found ON)
  else()
    set(overlord_codec_found OFF)
  endif()
  option(OVERLORD_WITH_${name} "Decode with ${library} (${package})" ${overlord_codec_found})
  if(OVERLORD_WITH_${name})
    if(NOT overlord_codec_found)
      list(APPEND overlord_missing_packages "${package}")
    elseif(NOT TARGET external::${library})
      add_library(external::${library} UNKNOWN IMPORTED)
      set_target_properties(external::${library} PROPERTIES IMPORTED_LOCATION "${OVERLORD_${name}_LIBRARY}")
      target_include_directories(external::${library} SYSTEM INTERFACE "${OVERLORD_${name}_INCLUDE_DIR}")
      target_compile_definitions(external::${library} INTERFACE OVERLORD_HAS_${name}=1)
    endif()
    list(APPEND OVERLORD_CODEC_TARGETS external::${library})
  else()
    message(STATUS "Codec ${name} is left out; ${package} would bring it")
  endif()
endmacro()

set(OVERLORD_CODEC_TARGETS "")
overlord_codec(JPEG jpeglib.h jpeg libjpeg-dev)
overlord_codec(PNG spng.h spng libspng-dev)
overlord_codec(WEBP webp/decode.h webp libwebp-dev)
