/* What the machine (C, in this folder) and its kernels (C++, at run time) both know: its
 * text is put before every such kernel, so it includes nothing and is valid C and C++. */
#ifndef VTB_TEST_PTX_ABI_H
#define VTB_TEST_PTX_ABI_H

/* An operand of an asm statement: `at` of an output (that may be read, too), bits of an input. */
typedef struct ptx_operand {
  void *at;
  unsigned long long bits;
  int bytes;
  char kind; /* f: floating, p: pointer, i: integer */
} ptx_operand;

/* A tensor map as the kernel holds it: where its description lies, and what nothing else is. */
#define PTX_MAP_MARK 0x70747820746d6170ull
typedef struct ptx_map {
  unsigned long long description, mark, unused[14];
} ptx_map;

enum { PTX_MAPS = 5, PTX_POINTERS = 7 };
typedef struct ptx_arguments {
  ptx_map map[PTX_MAPS];
  void *pointer[PTX_POINTERS];
} ptx_arguments;

enum { PTX_SHUFFLE, PTX_SHUFFLE_XOR, PTX_SHUFFLE_UP, PTX_SHUFFLE_DOWN };

typedef struct ptx_host {
  void (*execute)(int statement, ptx_operand *operands);
  unsigned (*shuffle)(int kind, unsigned value, int by);
  void (*sync)(int whole_block);
  char *(*shared)(void);
  unsigned long (*to_shared)(const void *p);
  int (*thread)(void);
  int (*block)(void);
} ptx_host;

#endif
