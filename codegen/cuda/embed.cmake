# Files as a C table: cmake -DOUT=x.c -DFILES="a;b" -P embed.cmake
set(body "")
set(table "")
set(n 0)
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  string(APPEND body "static const char text_${n}[] = {\n${hex}0};\n")
  string(APPEND table "  {\"${name}\", text_${n}},\n")
  math(EXPR n "${n} + 1")
endforeach()
file(WRITE ${OUT} "#include \"codegen/cuda/texts.h\"\n\n${body}
static const vtb_cuda_text_file table[] = {\n${table}};
const vtb_cuda_text_file *const vtb__cuda_texts = table;\nconst int vtb__cuda_n_texts = ${n};\n")
