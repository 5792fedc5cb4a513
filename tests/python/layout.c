/* The layout of structs that the Python package mirrors: "struct field offset bytes" a line, and
 * "struct . 0 bytes". */
#include "frontend/compile/compile.h"

#include <stddef.h>
#include <stdio.h>

#define FIELD(type, field)                                                                         \
  printf(#type " " #field " %zu %zu\n", offsetof(type, field), sizeof(((type *)0)->field))
#define STRUCT(type) printf(#type " . 0 %zu\n", sizeof(type))

static void print_error(void) {
  STRUCT(vtb_error);
  FIELD(vtb_error, status);
  FIELD(vtb_error, text);
}

static void print_array(void) {
  STRUCT(vtb_array);
  FIELD(vtb_array, size);
  FIELD(vtb_array, name);
  FIELD(vtb_array, kind);
  FIELD(vtb_array, type);
  FIELD(vtb_array, device);
  FIELD(vtb_array, rank);
  FIELD(vtb_array, dim);
  FIELD(vtb_array, data);
}

static void print_program_info(void) {
  STRUCT(vtb_program_info);
  FIELD(vtb_program_info, size);
  FIELD(vtb_program_info, role);
  FIELD(vtb_program_info, batch);
  FIELD(vtb_program_info, height);
  FIELD(vtb_program_info, width);
  FIELD(vtb_program_info, n_arrays);
  FIELD(vtb_program_info, cpu);
  FIELD(vtb_program_info, cuda);
}

static void print_open_options(void) {
  STRUCT(vtb_open_options);
  FIELD(vtb_open_options, size);
  FIELD(vtb_open_options, weights);
  FIELD(vtb_open_options, verify);
  FIELD(vtb_open_options, allow_missing);
  FIELD(vtb_open_options, allow_unused);
  FIELD(vtb_open_options, averages);
  FIELD(vtb_open_options, say);
  FIELD(vtb_open_options, user);
}

static void print_behaviour(void) {
  STRUCT(vtb_behaviour);
  FIELD(vtb_behaviour, size);
  FIELD(vtb_behaviour, threads);
  FIELD(vtb_behaviour, has_cuda_device);
  FIELD(vtb_behaviour, cuda_device);
  FIELD(vtb_behaviour, cuda_graph);
  FIELD(vtb_behaviour, cuda_sync);
  FIELD(vtb_behaviour, cuda_ahead);
  FIELD(vtb_behaviour, cuda_pixels);
  FIELD(vtb_behaviour, cublaslt_timing);
  FIELD(vtb_behaviour, wgmma);
  FIELD(vtb_behaviour, clusters);
  FIELD(vtb_behaviour, wide_index);
  FIELD(vtb_behaviour, cublas);
  FIELD(vtb_behaviour, optimise);
  FIELD(vtb_behaviour, tuning);
  FIELD(vtb_behaviour, cuda_cache);
  FIELD(vtb_behaviour, cuda_cache_mb);
  FIELD(vtb_behaviour, machine);
  FIELD(vtb_behaviour, fusions);
  FIELD(vtb_behaviour, emulator_arch);
  FIELD(vtb_behaviour, emulator_checks);
  FIELD(vtb_behaviour, emulator_reversed);
  FIELD(vtb_behaviour, emulator_seed);
  FIELD(vtb_behaviour, verbose);
  FIELD(vtb_behaviour, checks);
  FIELD(vtb_behaviour, ranks);
}

static void print_session_options(void) {
  STRUCT(vtb_session_options);
  FIELD(vtb_session_options, size);
  FIELD(vtb_session_options, role);
  FIELD(vtb_session_options, device);
  FIELD(vtb_session_options, threads);
  FIELD(vtb_session_options, pool);
  FIELD(vtb_session_options, pool_user);
  FIELD(vtb_session_options, batch);
  FIELD(vtb_session_options, seed);
  FIELD(vtb_session_options, height);
  FIELD(vtb_session_options, width);
  FIELD(vtb_session_options, cuda_stream);
  FIELD(vtb_session_options, has_cuda_stream);
  FIELD(vtb_session_options, has_cuda_device);
  FIELD(vtb_session_options, cuda_device);
  FIELD(vtb_session_options, behaviour);
}

static void print_compile_options(void) {
  STRUCT(vtb_compile_options);
  FIELD(vtb_compile_options, size);
  FIELD(vtb_compile_options, model);
  FIELD(vtb_compile_options, text);
  FIELD(vtb_compile_options, text_bytes);
  FIELD(vtb_compile_options, entry);
  FIELD(vtb_compile_options, defines);
  FIELD(vtb_compile_options, n_defines);
  FIELD(vtb_compile_options, image);
  FIELD(vtb_compile_options, weights);
  FIELD(vtb_compile_options, search);
  FIELD(vtb_compile_options, n_search);
  FIELD(vtb_compile_options, mode);
  FIELD(vtb_compile_options, chunk);
  FIELD(vtb_compile_options, batch);
  FIELD(vtb_compile_options, target);
  FIELD(vtb_compile_options, precision);
  FIELD(vtb_compile_options, library);
  FIELD(vtb_compile_options, taps);
  FIELD(vtb_compile_options, fold);
  FIELD(vtb_compile_options, profile);
  FIELD(vtb_compile_options, training);
  FIELD(vtb_compile_options, label_smoothing);
  FIELD(vtb_compile_options, optimizer);
  FIELD(vtb_compile_options, average);
  FIELD(vtb_compile_options, eval_batch);
  FIELD(vtb_compile_options, print_after);
  FIELD(vtb_compile_options, time_passes);
  FIELD(vtb_compile_options, say);
  FIELD(vtb_compile_options, user);
  FIELD(vtb_compile_options, evaluation);
  FIELD(vtb_compile_options, freeze);
  FIELD(vtb_compile_options, n_freeze);
  FIELD(vtb_compile_options, parameters);
  FIELD(vtb_compile_options, no_tuning);
  FIELD(vtb_compile_options, threads);
  FIELD(vtb_compile_options, machine);
  FIELD(vtb_compile_options, bucket_mb);
  FIELD(vtb_compile_options, shapes);
  FIELD(vtb_compile_options, n_shapes);
  FIELD(vtb_compile_options, part);
  FIELD(vtb_compile_options, outputs);
  FIELD(vtb_compile_options, n_outputs);
  FIELD(vtb_compile_options, wrt);
  FIELD(vtb_compile_options, n_wrt);
  FIELD(vtb_compile_options, overlay);
  FIELD(vtb_compile_options, n_overlay);
  FIELD(vtb_compile_options, batches);
  FIELD(vtb_compile_options, n_batches);
  FIELD(vtb_compile_options, images);
  FIELD(vtb_compile_options, n_images);
  FIELD(vtb_compile_options, vjp);
  FIELD(vtb_compile_options, ranks);
  FIELD(vtb_compile_options, accumulate);
  FIELD(vtb_compile_options, shard);
  FIELD(vtb_compile_options, rank);
  FIELD(vtb_compile_options, linked);
  FIELD(vtb_compile_options, behaviour);
  FIELD(vtb_compile_options, numbers_rows);
  FIELD(vtb_compile_options, cpu);
  FIELD(vtb_compile_options, strips);
  FIELD(vtb_compile_options, quantize);
  FIELD(vtb_compile_options, dtype);
  FIELD(vtb_compile_options, recompute);
  FIELD(vtb_compile_options, memory);
}

static void print_text_range(void) {
  STRUCT(vtb_text_range);
  FIELD(vtb_text_range, file);
  FIELD(vtb_text_range, begin);
  FIELD(vtb_text_range, end);
  FIELD(vtb_text_range, line);
  FIELD(vtb_text_range, column);
  FIELD(vtb_text_range, end_line);
  FIELD(vtb_text_range, end_column);
}

static void print_diagnostic_note(void) {
  STRUCT(vtb_diagnostic_note);
  FIELD(vtb_diagnostic_note, text);
  FIELD(vtb_diagnostic_note, at);
}

static void print_diagnostic(void) {
  STRUCT(vtb_diagnostic);
  FIELD(vtb_diagnostic, is_error);
  FIELD(vtb_diagnostic, code);
  FIELD(vtb_diagnostic, text);
  FIELD(vtb_diagnostic, at);
  FIELD(vtb_diagnostic, notes);
  FIELD(vtb_diagnostic, n_notes);
  FIELD(vtb_diagnostic, help);
}

int main(void) {
  print_error();
  print_array();
  print_program_info();
  print_open_options();
  print_behaviour();
  print_session_options();
  print_compile_options();
  print_text_range();
  print_diagnostic_note();
  print_diagnostic();
  return 0;
}
