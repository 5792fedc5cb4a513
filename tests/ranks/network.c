/* A slow wire that loses frames, between two network namespaces: `ranks_network A B DELAY LOSS`
 * makes a TAP device `wire` in each, and carries every frame to the other one DELAY milliseconds
 * later, but for LOSS of a thousand. Which ones those are is the same at every run. It says "ready"
 * and runs until its input ends. */
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { FRAME = 2048, QUEUE = 8192 };
typedef struct frame {
  double due;
  int n;
  char bytes[FRAME];
} frame;
typedef struct wire {
  int from, to;
  frame *queue; /* of QUEUE */
  int64_t first, last;
} wire;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int open_tap(const char *space) {
  char path[256];
  struct ifreq r = {.ifr_flags = IFF_TAP | IFF_NO_PI};
  snprintf(path, sizeof path, "/var/run/netns/%s", space);
  int in = open(path, O_RDONLY), tap = -1;
  snprintf(r.ifr_name, sizeof r.ifr_name, "wire");
  if (in >= 0 && setns(in, CLONE_NEWNET) == 0) tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
  if (tap < 0 || ioctl(tap, TUNSETIFF, &r) != 0) {
    perror(space);
    exit(77);
  }
  close(in);
  return tap;
}

static int is_lost(int per_thousand) {
  static uint64_t state = 88172645463325252u;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (int)(state % 1000) < per_thousand;
}

static void take(wire *w, double delay, int loss) {
  for (;;) {
    frame *f = &w->queue[w->last % QUEUE];
    if (w->last - w->first == QUEUE) return; /* the sender's queue is long now, too */
    f->n = (int)read(w->from, f->bytes, sizeof f->bytes);
    if (f->n <= 0) return;
    f->due = now() + delay;
    if (!is_lost(loss)) w->last++;
  }
}

static void give(wire *w) {
  while (w->first < w->last && w->queue[w->first % QUEUE].due <= now()) {
    frame *f = &w->queue[w->first++ % QUEUE];
    if (write(w->to, f->bytes, (size_t)f->n) < 0) continue; /* lost as well */
  }
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  int a = open_tap(argv[1]), b = open_tap(argv[2]), loss = atoi(argv[4]);
  double delay = atof(argv[3]) / 1e3;
  wire wires[2] = {{.from = a, .to = b}, {.from = b, .to = a}};
  for (int i = 0; i < 2; i++) wires[i].queue = malloc(QUEUE * sizeof(frame));
  if (!wires[0].queue || !wires[1].queue) return 1;
  puts("ready");
  fflush(stdout);
  for (;;) {
    struct pollfd fds[3] = {{.fd = a, .events = POLLIN}, {.fd = b, .events = POLLIN}, {.fd = 0}};
    int is_empty = wires[0].first == wires[0].last && wires[1].first == wires[1].last;
    fds[2].events = POLLIN;
    poll(fds, 3, is_empty ? 1000 : 1);
    if (fds[2].revents) return 0;
    for (int i = 0; i < 2; i++) {
      take(&wires[i], delay, loss);
      give(&wires[i]);
    }
  }
}
