/* The ground that emitters of CPU kernels build on: tasks, loops, vectors, scalar mathematics.
 * Included by codegen/ only.
 *
 * An emitter is `void vtb__cpu_<column>(vtb_cpu *c, const vtb_inst *inst)`, named by the cpu column
 * of ir/ops.def. It emits one or more tasks, which run one after another; each is an LLVM function
 * over a parallel index space:
 *
 *   vtb_cpu_task *t = vtb_cpu_task_begin(c, inst, "scan", B * h, 1);
 *   ... code for one index t->index, at c->b; operands and results are t->t[0 ...] ...
 *   vtb_cpu_task_end(c, t);
 *
 * Emitters run once a distinct kernel (op, attributes, types, strides): equal instructions share
 * the tasks, so nothing may be kept between calls. All helpers emit at c->b, the end of the current
 * block of the task under construction. Integer values are i64 unless named otherwise; element
 * indices and strides count elements, not bytes.
 * Ownership: everything belongs to the vtb_cpu. One thread.
 */
#ifndef VTB_CODEGEN_CPU_H
#define VTB_CODEGEN_CPU_H

#include "codegen/codegen.h"
#include "codegen/cpu/llvm.h"

typedef struct vtb_cpu_kernel vtb_cpu_kernel; /* codegen/cpu/host/host.h */
typedef struct vtb_host vtb_host;

typedef struct vtb_cpu {
  LLVMContextRef ctx;
  LLVMModuleRef module;
  LLVMBuilderRef b;                                  /* inside the current task */
  LLVMTypeRef f32, i1, i8, i32, i64, ptr, void_type; /* scalar types */
  int width;              /* f32 lanes of a vector: 4 (x86-64 without AVX2, AArch64), 8 or 16 */
  int registers;          /* for vectors: 16 or 32 */
  LLVMTypeRef vf32, vi32; /* <width x float>, <width x i32> */
  bool byte_dots; /* an instruction adds products of four bytes to an i32, in vectors of `width` */
  vtb_cpu_kernel *kernel; /* under construction */
  vtb_host *host;
} vtb_cpu;

/* ---- tensors and tasks ----------------------------------------------------------------------- */

/* An operand or result inside a task. ptr includes the view's offset. */
typedef struct vtb_cpu_tensor {
  LLVMValueRef ptr;
  const vtb_type *type;
  /* elements; 0 on broadcast axes. Structured ops: the last is 1 wherever its size > 1 */
  int64_t stride[VTB_MAX_RANK];
} vtb_cpu_tensor;

typedef struct vtb_cpu_task {
  LLVMValueRef fn, closure, begin, end;
  LLVMValueRef index;    /* the parallel index, i64, 0 <= index < n */
  LLVMValueRef services; /* const vtb_services * */
  vtb_cpu_tensor *t;     /* operands, then results, of the instruction */
  int n_operands, n_results;
  int64_t n, grain;
  LLVMBasicBlockRef entry; /* runs once a call of the task: allocas, hoisted values */
  LLVMBuilderRef prologue; /* at the end of entry; values built here may be used in the loop */
  /* private */
  LLVMBasicBlockRef head, latch, exit, body_end;
  LLVMValueRef scratch_call, temp;
  int64_t scratch_bytes, scratch_most;
} vtb_cpu_task;

/* A task over [0, n); a thread gets whole multiples of `grain`. `kind` names it in dumps. n and
 * grain depend on shapes only, never on the number of threads, and so must every order of
 * summation. */
vtb_cpu_task *vtb_cpu_task_begin(vtb_cpu *c, const vtb_inst *inst, const char *kind, int64_t n,
                                 int64_t grain);
void vtb_cpu_task_end(vtb_cpu *c, vtb_cpu_task *t);

/* The thread's scratch memory of this task, 64-byte aligned, contents undefined at every index. May
 * be called several times in a task: the pieces are distinct. */
LLVMValueRef vtb_cpu_scratch(vtb_cpu *c, vtb_cpu_task *t, int64_t bytes);
/* Memory shared by all tasks of this instruction (a partial sum from one task to the next): reserve
 * before the first task that uses it, address it inside any of them. 64-byte aligned, contents
 * undefined at the first task. */
int64_t vtb_cpu_temp(vtb_cpu *c, int64_t bytes);
LLVMValueRef vtb_cpu_temp_ptr(vtb_cpu *c, vtb_cpu_task *t, int64_t temp);
/* A mutable local of the task (an alloca in its entry block, promoted to a register);
 * LLVMBuildLoad2 / LLVMBuildStore. */
LLVMValueRef vtb_cpu_var(vtb_cpu *c, vtb_cpu_task *t, LLVMTypeRef type);

/* Strides of operand or result i of the instruction as the plan has them, without a task. */
const int64_t *vtb_cpu_strides(vtb_cpu *c, int i);

/* Read-only tables in the program; equal tables are shared. */
LLVMValueRef vtb_cpu_const_i32(vtb_cpu *c, const int32_t *v, size_t n);

/* ---- control --------------------------------------------------------------------------------- */

/* for (i = from; i < to; i += step), step > 0. The loop may run zero times. Values carried from one
 * iteration to the next: declare with vtb_cpu_carry right after begin (returns the value at the
 * start of an iteration), set with vtb_cpu_carry_next before end, read after end with
 * vtb_cpu_carried. */
#define VTB_CPU_MAX_CARRY 32
typedef struct vtb_cpu_for {
  LLVMValueRef i;
  LLVMBasicBlockRef before, head, body, exit;
  LLVMValueRef to, step;
  LLVMValueRef phi[VTB_CPU_MAX_CARRY], next[VTB_CPU_MAX_CARRY];
  int n_carry;
} vtb_cpu_for;
vtb_cpu_for vtb_cpu_for_begin(vtb_cpu *c, LLVMValueRef from, LLVMValueRef to, LLVMValueRef step);
LLVMValueRef vtb_cpu_carry(vtb_cpu *c, vtb_cpu_for *l, LLVMValueRef init);
void vtb_cpu_carry_next(vtb_cpu_for *l, int k, LLVMValueRef value);
LLVMValueRef vtb_cpu_carried(const vtb_cpu_for *l, int k);
void vtb_cpu_for_end(vtb_cpu *c, vtb_cpu_for *l);

/* if (cond) ... [else ...] end. */
typedef struct vtb_cpu_if {
  LLVMBasicBlockRef then, otherwise, exit;
} vtb_cpu_if;
vtb_cpu_if vtb_cpu_if_begin(vtb_cpu *c, LLVMValueRef cond);
void vtb_cpu_else(vtb_cpu *c, vtb_cpu_if *i);
void vtb_cpu_if_end(vtb_cpu *c, vtb_cpu_if *i);

/* ---- integers and addresses ------------------------------------------------------------------ */

LLVMValueRef vtb_cpu_i64(vtb_cpu *c, int64_t v);
/* i64, no signed wrap; folds constants */
LLVMValueRef vtb_cpu_add(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y);
LLVMValueRef vtb_cpu_mul(vtb_cpu *c, LLVMValueRef x, int64_t k);
LLVMValueRef vtb_cpu_div(vtb_cpu *c, LLVMValueRef x, int64_t k); /* x >= 0, k > 0 */
LLVMValueRef vtb_cpu_rem(vtb_cpu *c, LLVMValueRef x, int64_t k);
LLVMValueRef vtb_cpu_min(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y); /* i64 */
/* ptr + elements (4 bytes each). */
LLVMValueRef vtb_cpu_at(vtb_cpu *c, LLVMValueRef ptr, LLVMValueRef elements);

/* ---- f32 scalars and vectors ----------------------------------------------------------------- */

LLVMTypeRef vtb_cpu_vector(vtb_cpu *c, int lanes); /* <lanes x float>; lanes 1: float */
LLVMValueRef vtb_cpu_f32(vtb_cpu *c, double v);    /* scalar constant */
/* constant of x's type, scalar or vector */
LLVMValueRef vtb_cpu_like(vtb_cpu *c, LLVMValueRef x, double v);
LLVMValueRef vtb_cpu_splat(vtb_cpu *c, LLVMValueRef x, int lanes);
/* contiguous, alignment 4; lanes 1: scalar */
LLVMValueRef vtb_cpu_load(vtb_cpu *c, LLVMValueRef ptr, int lanes);
void vtb_cpu_store(vtb_cpu *c, LLVMValueRef v, LLVMValueRef ptr);
LLVMValueRef vtb_cpu_load_i32(vtb_cpu *c, LLVMValueRef ptr); /* scalar i32 */
/* Lanes l with l < left (i64); masked loads give 0 in the others. */
LLVMValueRef vtb_cpu_mask(vtb_cpu *c, LLVMValueRef left, int lanes);
LLVMValueRef vtb_cpu_load_masked(vtb_cpu *c, LLVMValueRef ptr, LLVMValueRef mask, int lanes);
void vtb_cpu_store_masked(vtb_cpu *c, LLVMValueRef v, LLVMValueRef ptr, LLVMValueRef mask);
LLVMValueRef vtb_cpu_fma(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y, LLVMValueRef z); /* x*y + z */
LLVMValueRef vtb_cpu_fmax(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y); /* y where either is NaN */
LLVMValueRef vtb_cpu_fmin(vtb_cpu *c, LLVMValueRef x, LLVMValueRef y);
/* pairwise, fixed order; a scalar is itself */
LLVMValueRef vtb_cpu_hsum(vtb_cpu *c, LLVMValueRef v);
LLVMValueRef vtb_cpu_hmax(vtb_cpu *c, LLVMValueRef v);
/* Calls intrinsic llvm.<name> overloaded on x's type: "llvm.sqrt", "llvm.fabs", "llvm.floor" ... */
LLVMValueRef vtb_cpu_intrinsic(vtb_cpu *c, const char *name, LLVMValueRef *args, int n);
/* One that has its types: "llvm.x86.avx512.vpdpbusd.512". */
LLVMValueRef vtb_cpu_machine_intrinsic(vtb_cpu *c, const char *name, LLVMValueRef *args, int n);

/* Polynomial mathematics on f32 scalars or vectors, about 1 ulp to 3.2e-7 relative (erf). NaN in,
 * NaN out; exact at the limits: exp is 0 below -87.3 and infinity above 88.72. */
LLVMValueRef vtb_cpu_exp(vtb_cpu *c, LLVMValueRef x);
/* 2^x to 1e-7 relative, cheaper: exactly 1 at 0, exactly 0 from -127 down, infinity from 128 up, a
 * number without meaning below 2e-38 between -127 and -126. */
LLVMValueRef vtb_cpu_exp2(vtb_cpu *c, LLVMValueRef x);
LLVMValueRef vtb_cpu_log(vtb_cpu *c, LLVMValueRef x);
/* Any elementwise op of the table on f32 scalars or vectors; args has as many values as the op has
 * operands. */
LLVMValueRef vtb_cpu_scalar_op(vtb_cpu *c, vtb_op op, LLVMValueRef *args);

/* ---- emitters, one per cpu column (except scalar, view, by_lowering, call) ------------------- */

void vtb__cpu_reduce(vtb_cpu *c, const vtb_inst *inst);
void vtb__cpu_fused(vtb_cpu *c, const vtb_inst *inst);
void vtb__cpu_einsum(vtb_cpu *c, const vtb_inst *inst);
void vtb__cpu_quantize(vtb_cpu *c, const vtb_inst *inst);
void vtb__cpu_product8(vtb_cpu *c, const vtb_inst *inst);
void vtb__cpu_im2col(vtb_cpu *c, const vtb_inst *inst);
void vtb__cpu_col2im(vtb_cpu *c, const vtb_inst *inst);
void vtb__cpu_dwconv(vtb_cpu *c, const vtb_inst *inst);
void vtb__cpu_dwconv_dx(vtb_cpu *c, const vtb_inst *inst);
void vtb__cpu_dwconv_dw(vtb_cpu *c, const vtb_inst *inst);
void vtb__cpu_linscan(vtb_cpu *c, const vtb_inst *inst);
void vtb__cpu_fold(vtb_cpu *c, const vtb_inst *inst); /* in tiles */
void vtb__cpu_linscan_grad(vtb_cpu *c, const vtb_inst *inst);
void vtb__cpu_delta(vtb_cpu *c, const vtb_inst *inst);
void vtb__cpu_attention(vtb_cpu *c, const vtb_inst *inst);
void vtb__cpu_attention_grad(vtb_cpu *c, const vtb_inst *inst);
void vtb__cpu_turned_attention(vtb_cpu *c, const vtb_inst *fused); /* vtb_is_turned_attention() */
void vtb__cpu_maxplus(vtb_cpu *c, const vtb_inst *inst);
void vtb__cpu_maxplus_grad(vtb_cpu *c, const vtb_inst *inst);
void vtb__cpu_prefix_sum(vtb_cpu *c, const vtb_inst *inst);
void vtb__cpu_gather(vtb_cpu *c, const vtb_inst *inst);
void vtb__cpu_scatter_sum(vtb_cpu *c, const vtb_inst *inst);
void vtb__cpu_verdict(vtb_cpu *c, const vtb_inst *inst);
void vtb__cpu_update(vtb_cpu *c, const vtb_inst *inst);

#endif
