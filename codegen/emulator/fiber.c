/* Switching between fibers: the callee-saved registers go to the old stack, the new ones come from
 * the new stack. Assembly on x86-64 and AArch64, because a kernel switches millions of times; the
 * system's ucontext saves the signal mask with a call into the kernel each time. */
#include "codegen/emulator/core.h"

#include <string.h>

#if defined(__x86_64__)

__asm__(".text\n"
        ".p2align 4\n"
        ".globl vtb__fiber_switch\n"
        ".type vtb__fiber_switch,@function\n"
        "vtb__fiber_switch:\n"
        "  pushq %rbp\n"
        "  pushq %rbx\n"
        "  pushq %r12\n"
        "  pushq %r13\n"
        "  pushq %r14\n"
        "  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n"
        "  popq %r14\n"
        "  popq %r13\n"
        "  popq %r12\n"
        "  popq %rbx\n"
        "  popq %rbp\n"
        "  ret\n"
        ".size vtb__fiber_switch,.-vtb__fiber_switch\n"
        /* the first switch returns here: rbx is the argument, r12 the function */
        ".p2align 4\n"
        ".type vtb__fiber_start,@function\n"
        "vtb__fiber_start:\n"
        "  movq %rbx, %rdi\n"
        "  xorl %ebp, %ebp\n"
        "  callq *%r12\n"
        "  ud2\n"
        ".size vtb__fiber_start,.-vtb__fiber_start\n");

enum { AT_ARGUMENT = 4, AT_FUNCTION = 3, AT_RETURN = 6, FRAME = 7 };

#elif defined(__aarch64__)

__asm__(".text\n"
        ".p2align 4\n"
        ".globl vtb__fiber_switch\n"
        ".type vtb__fiber_switch,@function\n"
        "vtb__fiber_switch:\n"
        "  sub sp, sp, #160\n"
        "  stp x19, x20, [sp, #0]\n"
        "  stp x21, x22, [sp, #16]\n"
        "  stp x23, x24, [sp, #32]\n"
        "  stp x25, x26, [sp, #48]\n"
        "  stp x27, x28, [sp, #64]\n"
        "  stp x29, x30, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n"
        "  stp d10, d11, [sp, #112]\n"
        "  stp d12, d13, [sp, #128]\n"
        "  stp d14, d15, [sp, #144]\n"
        "  mov x9, sp\n"
        "  str x9, [x0]\n"
        "  mov sp, x1\n"
        "  ldp x19, x20, [sp, #0]\n"
        "  ldp x21, x22, [sp, #16]\n"
        "  ldp x23, x24, [sp, #32]\n"
        "  ldp x25, x26, [sp, #48]\n"
        "  ldp x27, x28, [sp, #64]\n"
        "  ldp x29, x30, [sp, #80]\n"
        "  ldp d8, d9, [sp, #96]\n"
        "  ldp d10, d11, [sp, #112]\n"
        "  ldp d12, d13, [sp, #128]\n"
        "  ldp d14, d15, [sp, #144]\n"
        "  add sp, sp, #160\n"
        "  ret\n"
        ".size vtb__fiber_switch,.-vtb__fiber_switch\n"
        /* x19 is the argument, x20 the function */
        ".p2align 4\n"
        ".type vtb__fiber_start,@function\n"
        "vtb__fiber_start:\n"
        "  mov x0, x19\n"
        "  mov x29, #0\n"
        "  blr x20\n"
        "  brk #1\n"
        ".size vtb__fiber_start,.-vtb__fiber_start\n");

enum { AT_ARGUMENT = 0, AT_FUNCTION = 1, AT_RETURN = 11, FRAME = 20 };

#else
#error "the emulator's fibers are written for x86-64 and AArch64"
#endif

void vtb__fiber_start(void);

void *vtb__fiber_prepare(char *stack_end, void (*entry)(void *), void *argument) {
  /* the call in vtb__fiber_start must find a 16-byte aligned stack; above it, a zero return address
   * for debuggers */
  void **frame = (void **)(void *)((char *)((uintptr_t)stack_end & ~(uintptr_t)15) -
                                   (FRAME + 2) * sizeof(void *));
  memset(frame, 0, (FRAME + 2) * sizeof *frame);
  frame[AT_ARGUMENT] = argument;
  memcpy(&frame[AT_FUNCTION], &(void (*)(void *)){entry}, sizeof entry);
  memcpy(&frame[AT_RETURN], &(void (*)(void)){vtb__fiber_start}, sizeof(void (*)(void)));
  return frame;
}
