/* A process of peers.py, which does jobs that are lines of JSON, one at a time. */
#include "frontend/cli/bench/bench_peers.h"
#include "frontend/cli/bench/peers.gen.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { PATIENCE = 900 }; /* seconds of one job: compiling a training step is the longest */

/* ---- beginning and ending -------------------------------------------------------------------- */

static vtb_status cannot_begin(const char *python, int error, vtb_error *err) {
  return vtb_fail(err, VTB_E_INPUT,
                  "cannot begin %s, which runs the peers: %s (--python FILE names another)", python,
                  strerror(error));
}

static int spawn(bench_peer *p, int end, char *const *argv) {
  posix_spawn_file_actions_t actions;
  int error = posix_spawn_file_actions_init(&actions);
  if (error) return error;
  error = posix_spawn_file_actions_adddup2(&actions, end, STDIN_FILENO);
  if (!error) error = posix_spawn_file_actions_adddup2(&actions, end, STDOUT_FILENO);
  if (!error)
    error = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, p->log,
                                             O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (!error) error = posix_spawnp(&p->pid, argv[0], &actions, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error) p->pid = 0;
  return error;
}

vtb_status bench_peer_start(bench_peer *p, const char *python, const char *name, const char *log,
                            vtb_error *err) {
  char *argv[] = {(char *)(uintptr_t)python, (char[]){"-c"}, (char *)(uintptr_t)peers_py,
                  (char *)(uintptr_t)name, NULL};
  int ends[2];
  *p = (bench_peer){.line = -1, .log = vtb_xstrdup(log)};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return cannot_begin(python, errno, err);
  p->line = ends[0];
  int error = spawn(p, ends[1], argv);
  close(ends[1]);
  return error ? cannot_begin(python, error, err) : VTB_OK;
}

void bench_peer_end(bench_peer *p) {
  if (p->log && p->line >= 0) close(p->line);
  if (p->pid) {
    kill(p->pid, SIGKILL);
    while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR) continue;
  }
  vtb_free(p->log);
  vtb_free(p->begun);
  *p = (bench_peer){0};
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static bool say(const bench_peer *p, cJSON *job) {
  char *text = vtb_need(cJSON_PrintUnformatted(job));
  size_t n = strlen(text);
  text[n] = '\n'; /* in place of its end */
  bool ok = true;
  for (size_t at = 0; at <= n && ok;) {
    ssize_t sent = send(p->line, text + at, n + 1 - at, MSG_NOSIGNAL);
    ok = sent > 0 || (sent < 0 && errno == EINTR);
    if (sent > 0) at += (size_t)sent;
  }
  cJSON_free(text);
  cJSON_Delete(job);
  return ok;
}

/* The next line; NULL: it has ended, has taken too long, or there is a stop. */
static char *hear(bench_peer *p, const volatile int *stop) {
  double until = vtb_now() + PATIENCE;
  vtb_strbuf line = {0};
  char c = 0;
  while (c != '\n' && !*stop && vtb_now() < until) {
    struct pollfd on = {.fd = p->line, .events = POLLIN};
    if (poll(&on, 1, 1000) <= 0) continue;
    ssize_t n = recv(p->line, &c, 1, 0);
    if (n == 0 || (n < 0 && errno != EINTR)) break;
    if (n > 0) vtb_strbuf_putc(&line, c);
  }
  if (c == '\n') return line.at;
  vtb_strbuf_free(&line);
  return NULL;
}

/* The last line that it said, which is why: "MemoryError". */
static char *last_words(const bench_peer *p) {
  char *text = NULL;
  size_t n = 0;
  vtb_error none = {0};
  if (vtb_file_read(p->log, 64 << 20, &text, &n, &none) != VTB_OK) return NULL;
  while (n && strchr("\n ", text[n - 1])) text[--n] = '\0';
  char *last = strrchr(text, '\n');
  char *words = n ? vtb_xstrdup(last ? last + 1 : text) : NULL;
  vtb_free(text);
  return words;
}

static char *why_silent(bench_peer *p) {
  int state = 0;
  bool over = waitpid(p->pid, &state, WNOHANG) == p->pid;
  for (int i = 0; i < 100 && !over; i++) { /* its end may be behind that of its socket */
    usleep(10000);
    over = waitpid(p->pid, &state, WNOHANG) == p->pid;
  }
  if (!over) return vtb_need(vtb_strprintf("no answer in %d minutes", PATIENCE / 60));
  p->pid = 0;
  char *words = last_words(p);
  char *why = WIFSIGNALED(state)
                  ? vtb_need(vtb_strprintf("its process was ended by signal %d (%s)",
                                           WTERMSIG(state), strsignal(WTERMSIG(state))))
                  : vtb_need(vtb_strprintf("its process ended: %s", words ? words
                                                                          : "it said "
                                                                            "nothing"));
  vtb_free(words);
  return why;
}

cJSON *bench_peer_ask(bench_peer *p, cJSON *job, const volatile int *stop, char **why) {
  *why = NULL;
  bool said = say(p, job);
  char *line = said ? hear(p, stop) : NULL;
  cJSON *answer = line ? cJSON_Parse(line) : NULL;
  const cJSON *missing = cJSON_GetObjectItemCaseSensitive(answer, "missing");
  if (cJSON_IsString(missing))
    *why = vtb_xstrdup(missing->valuestring);
  else if (line && !answer)
    *why = vtb_need(vtb_strprintf("its answer is no JSON: %.60s", line));
  else if (!line && !*stop)
    *why = why_silent(p);
  vtb_free(line);
  if (!*why) return answer;
  cJSON_Delete(answer);
  return NULL;
}
