/* True if whatever makes a module, a memory plan, a list of steps or a layout holds it against its
 * rules there and then (docs/testing.md): in builds with assertions, and in a process from
 * vtb_checks_begin() on. Any thread. */
#ifndef VTB_CHECKS_H
#define VTB_CHECKS_H

#include <stdbool.h>

bool vtb_checks(void);
void vtb_checks_begin(void);

#endif
