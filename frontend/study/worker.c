/* One process that does one step. */
#include "frontend/study/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_OUTPUT = 64 << 20, MOST_MESSAGES = 4096, WITHOUT_PIDFD = 50 };

/* ---- the machine ----------------------------------------------------------------------------- */

double study_machine_busy(void) {
  unsigned long long user, nice, system, idle, wait, irq, softirq, steal;
  FILE *f = fopen("/proc/stat", "r");
  if (!f) return -1;
  int n = fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle,
                 &wait, &irq, &softirq, &steal);
  fclose(f);
  long ticks = sysconf(_SC_CLK_TCK);
  if (n != 8 || ticks <= 0) return -1;
  return (double)(user + nice + system + irq + softirq + steal) / (double)ticks;
}

int study_machine_cores(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? (int)n : 1;
}

double study_machine_memory(void) {
  char line[256];
  unsigned long long kib = 0;
  FILE *f = fopen("/proc/meminfo", "r");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) break;
  if (f) fclose(f);
  return 1024.0 * (double)kib;
}

/* ---- beginning ------------------------------------------------------------------------------- */

/* Between fork and exec: system calls alone. The kernel ends the process with its parent. */
static void become(char *const *argv, int null, int out, int err, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  setpgid(0, 0);
  if (dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0) _exit(127);
  execv("/proc/self/exe", argv);
  _exit(127);
}

static vtb_status cannot_begin(vtb_error *err) {
  return vtb_fail(err, errno == ENOMEM ? VTB_E_MEMORY : VTB_E_INPUT, "cannot begin a process: %s",
                  strerror(errno));
}

/* The files that it writes to, and nothing to read from. */
static bool open_files(study_worker *w, int *null) {
  *null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  w->out = memfd_create("output", MFD_CLOEXEC);
  w->err = memfd_create("messages", MFD_CLOEXEC);
  return *null >= 0 && w->out >= 0 && w->err >= 0;
}

static void close_files(study_worker *w) {
  int *files[] = {&w->wait, &w->out, &w->err};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    if (*files[i] >= 0) close(*files[i]);
    *files[i] = -1;
  }
}

vtb_status study_worker_start(study_worker *w, const study_texts *words, vtb_error *err) {
  int null = -1;
  pid_t parent = getpid();
  char **argv = vtb_xcalloc(words->n + 1, sizeof *argv);
  memcpy(argv, words->at, words->n * sizeof *argv);
  *w = (study_worker){.wait = -1, .out = -1, .err = -1};
  bool ready = open_files(w, &null);
  w->busy = study_machine_busy();
  w->start = vtb_now();
  w->pid = ready ? _Fork() : -1; /* without the handlers of libraries, which stop their threads */
  if (w->pid == 0) become(argv, null, w->out, w->err, parent);
  vtb_status status = VTB_OK;
  if (w->pid < 0) {
    status = cannot_begin(err);
    w->pid = 0;
    close_files(w);
  } else {
    w->wait = pidfd_open(w->pid, 0);
  }
  if (null >= 0) close(null);
  vtb_free(argv);
  return status;
}

/* ---- ending ---------------------------------------------------------------------------------- */

/* The text of a file in memory, or its last `most` bytes. */
static char *read_end(int fd, off_t most) {
  off_t size = lseek(fd, 0, SEEK_END), from = size > most ? size - most : 0;
  char *text = vtb_xcalloc((size_t)(size - from) + 1, 1);
  for (off_t at = from; at < size;) {
    ssize_t got = pread(fd, text + (at - from), (size_t)(size - at), at);
    if (got <= 0) break;
    at += got;
  }
  return text;
}

static double seconds_of(const struct timeval *t) {
  return (double)t->tv_sec + 1e-6 * (double)t->tv_usec;
}

bool study_worker_ended(study_worker *w, study_ending *out) {
  int status;
  struct rusage used;
  pid_t got = wait4(w->pid, &status, WNOHANG, &used);
  if (got == 0 || (got < 0 && errno == EINTR)) return false;
  if (got < 0) { /* somebody else took it: nothing is known */
    status = 127 << 8;
    memset(&used, 0, sizeof used);
  }
  double busy = study_machine_busy(), seconds = vtb_now() - w->start;
  *out = (study_ending){.status = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                        .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                        .seconds = seconds,
                        .cpu_seconds = seconds_of(&used.ru_utime) + seconds_of(&used.ru_stime),
                        .others = -1,
                        .peak_bytes = 1024 * (int64_t)used.ru_maxrss,
                        .out = read_end(w->out, MOST_OUTPUT),
                        .messages = read_end(w->err, MOST_MESSAGES)};
  if (w->busy >= 0 && busy >= 0 && seconds > 0) {
    double others = (busy - w->busy - out->cpu_seconds) / seconds;
    out->others = others > 0 ? others : 0;
  }
  w->pid = 0;
  close_files(w);
  return true;
}

void study_workers_wait(const study_worker *w, size_t n, int milliseconds) {
  struct pollfd *ends = vtb_xcalloc(n + 1, sizeof *ends);
  nfds_t k = 0;
  for (size_t i = 0; i < n; i++) {
    if (!w[i].pid) continue;
    if (w[i].wait < 0 && milliseconds > WITHOUT_PIDFD) milliseconds = WITHOUT_PIDFD;
    if (w[i].wait >= 0) ends[k++] = (struct pollfd){.fd = w[i].wait, .events = POLLIN};
  }
  (void)poll(ends, k, milliseconds);
  vtb_free(ends);
}

void study_worker_signal(const study_worker *w, int number) {
  if (w->pid) kill(w->pid, number);
}

void study_ending_free(study_ending *e) {
  vtb_free(e->out);
  vtb_free(e->messages);
  *e = (study_ending){.status = 0};
}
