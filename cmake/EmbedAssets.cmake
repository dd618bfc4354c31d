# openwork_embed(FOLDER SOURCE)
#   Writes SOURCE, a C++ file that defines viewer_assets() (assets/viewer_assets.h): every file below FOLDER by its path, with
#   its type, its sha256 and its bytes, which the assembler includes as they are. A file that changes, comes or goes is seen by
#   the next build.
function(openwork_embed folder source)
  file(GLOB_RECURSE _files CONFIGURE_DEPENDS RELATIVE "${folder}" "${folder}/*")
  list(SORT _files)
  set(_type_html "text/html; charset=utf-8")
  set(_type_js "text/javascript; charset=utf-8")
  set(_type_css "text/css; charset=utf-8")
  set(_type_txt "text/plain; charset=utf-8")
  set(_type_svg "image/svg+xml")
  set(_type_png "image/png")
  set(_type_json "application/json")
  set(_number 0)
  set(_declarations "")
  set(_entries "")
  set(_paths "")
  foreach(_file ${_files})
    set(_path "${folder}/${_file}")
    file(SHA256 "${_path}" _hash)
    get_filename_component(_extension "${_file}" LAST_EXT)
    string(SUBSTRING "${_extension}" 1 -1 _extension)
    set(_type "application/octet-stream")
    if(DEFINED _type_${_extension})
      set(_type "${_type_${_extension}}")
    endif()
    string(APPEND _declarations
      "asm(\".section .rodata\\n.balign 16\\nopenwork_asset_${_number}: .incbin \\\"${_path}\\\"\\n\"\n"
      "    \"openwork_asset_${_number}_end: .byte 0\\n.previous\\n\");\n"
      "extern \"C\" __attribute__((visibility(\"hidden\"))) const char openwork_asset_${_number}[], openwork_asset_${_number}_end[];\n")
    string(APPEND _entries
      "      {\"${_file}\", \"${_type}\", \"${_hash}\",\n"
      "       bytes_between(openwork_asset_${_number}, openwork_asset_${_number}_end)},\n")
    list(APPEND _paths "${_path}")
    math(EXPR _number "${_number} + 1")
  endforeach()
  file(CONFIGURE OUTPUT "${source}" CONTENT
"// Written by cmake/EmbedAssets.cmake.
#include \"assets/viewer_assets.h\"

#include <array>

@_declarations@
namespace openwork {
namespace {
std::string_view bytes_between(const char* first, const char* last) {
  return {first, static_cast<size_t>(last - first)};
}
}  // namespace

std::span<const ViewerAsset> viewer_assets() {
  static const std::array<ViewerAsset, @_number@> assets = {{
@_entries@  }};
  return assets;
}

}  // namespace openwork
" @ONLY)
  set_property(SOURCE "${source}" APPEND PROPERTY OBJECT_DEPENDS "${_paths}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${_paths})   # their hashes are written above
endfunction()
