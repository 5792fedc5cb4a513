# Texts of kernels as a C table of names and bytes: cmake -DOUT=x.c -DROOM=cuda "-DFILES=a;b" -P embed.cmake
set(body "")
set(table "")
set(n 0)
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  string(APPEND body "static const unsigned char text_${n}[] = {\n${hex}0};\n")
  string(APPEND table "  {\"${name}\", (const char *)text_${n}, sizeof text_${n} - 1},\n")
  math(EXPR n "${n} + 1")
endforeach()
file(WRITE ${OUT} "#include \"codegen/${ROOM}/texts.h\"\n\n${body}
static const vtb_${ROOM}_text_file table[] = {\n${table}};
const vtb_${ROOM}_text_file *const vtb__${ROOM}_texts = table;\nconst int vtb__${ROOM}_n_texts = ${n};\n")
