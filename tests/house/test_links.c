/* Links of the documents lead somewhere: the file is there, and has the heading. */
#include "tests/house/tree.h"
#include "tests/test.h"

#include <ctype.h>
#include <dirent.h>

enum { MOST_LINE = 8192 };

/* ---- headings -------------------------------------------------------------------------------- */

/* "## What `verify` accepts" is what-verify-accepts. */
static void anchor_of(const char *heading, char *out, size_t size) {
  size_t n = 0;
  heading += strspn(heading, "# ");
  for (; *heading && n + 1 < size; heading++) {
    unsigned char c = (unsigned char)*heading;
    if (isalnum(c) || c == '_' || c == '-' || c >= 0x80) out[n++] = (char)tolower(c);
    if (c == ' ') out[n++] = '-';
  }
  out[n] = '\0';
}

static bool has_heading(const char *text, const char *anchor) {
  char line[MOST_LINE], own[256];
  bool code = false, found = false;
  while (!found && next_line(&text, line, sizeof line)) {
    if (vtb_starts_with(line, "```")) code = !code;
    if (code || line[0] != '#') continue;
    anchor_of(line, own, sizeof own);
    found = strcmp(own, anchor) == 0;
  }
  return found;
}

/* ---- links ----------------------------------------------------------------------------------- */

static char *read_page(const char *path) {
  char *text = NULL, *full = vtb_need(vtb_strprintf(VTB_SOURCE_DIR "/%s", path));
  size_t n = 0;
  vtb_status status = vtb_file_read(full, 1 << 24, &text, &n, NULL);
  vtb_free(full);
  return status == VTB_OK ? text : NULL;
}

/* page: its path from the top of the tree; text: what it says. */
static void check_link(const char *page, const char *text, const char *link, int line,
                       complaints *c) {
  const char *hash = strchr(link, '#'), *slash = strrchr(page, '/');
  int folder = slash ? (int)(slash - page) + 1 : 0;
  int n = hash ? (int)(hash - link) : (int)strlen(link);
  char *path =
      vtb_need(n ? vtb_strprintf("%.*s%.*s", folder, page, n, link) : vtb_strprintf("%s", page));
  char *full = vtb_need(vtb_strprintf(VTB_SOURCE_DIR "/%s", path));
  char *other = n && hash ? read_page(path) : NULL;
  if (!vtb_path_exists(full))
    complain(c, page, line, "%s is not there; name the file from this page's folder", path);
  else if (hash && (n ? !other || !has_heading(other, hash + 1) : !has_heading(text, hash + 1)))
    complain(c, page, line, "%s has no heading #%s", path, hash + 1);
  vtb_free(other);
  vtb_free(full);
  vtb_free(path);
}

/* [what](where) of the web is not asked; code has no links. */
static int check_page(const char *page, const char *text, complaints *c) {
  char line[MOST_LINE], link[512];
  bool code = false;
  int links = 0;
  const char *rest = text;
  for (int n = 1; next_line(&rest, line, sizeof line); n++) {
    if (vtb_starts_with(line + strspn(line, " "), "```")) code = !code;
    for (const char *p = code ? "" : line; (p = strstr(p, "](")) != NULL;) {
      p += 2;
      snprintf(link, sizeof link, "%.*s", (int)strcspn(p, ") "), p);
      if (strstr(link, "://") || vtb_starts_with(link, "mailto:")) continue;
      check_link(page, text, link, n, c);
      links++;
    }
  }
  return links;
}

TEST(planted_links_are_found) {
  static const char page[] = "# A page\n\n## What `verify` accepts\n"
                             "[a](testing.md#what-verify-accepts) [b](#what-verify-accepts)\n"
                             "[c](nowhere.md) [d](testing.md#nowhere) [e](#nowhere)\n"
                             "```\n[f](nowhere.md)\n```\n[g](https://a.b/c#d) ![h](../dev)\n";
  complaints c = {0};
  CHECK(check_page("docs/abi.md", page, &c) == 6);
  CHECK_MSG(c.n == 3, "%s", c.text.at);
  CHECK(c.n == 3 && strstr(c.text.at, "docs/abi.md:5: docs/nowhere.md is not there"));
  CHECK(c.n == 3 && strstr(c.text.at, "docs/abi.md:5: docs/testing.md has no heading #nowhere"));
  CHECK(c.n == 3 && strstr(c.text.at, "docs/abi.md:5: docs/abi.md has no heading #nowhere"));
  vtb_strbuf_free(&c.text);
}

/* The pages of a folder. */
static int check_folder(const char *folder, complaints *c) {
  char path[600];
  int links = 0;
  snprintf(path, sizeof path, VTB_SOURCE_DIR "/%s", folder);
  DIR *d = opendir(path);
  CHECK(d != NULL);
  for (struct dirent *e; d && (e = readdir(d));) {
    if (!vtb_ends_with(e->d_name, ".md")) continue;
    snprintf(path, sizeof path, "%s%.300s", folder, e->d_name);
    char *text = read_page(path);
    links += text ? check_page(path, text, c) : 0;
    vtb_free(text);
  }
  if (d) closedir(d);
  return links;
}

TEST(links_lead_somewhere) {
  static const char *const folders[] = {"", "docs/", "docs/results/", "docs/results/gpu/"};
  complaints c = {0};
  int links = 0;
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
    links += check_folder(folders[i], &c);
  CHECK_MSG(links > 150, "only %d links", links);
  CHECK_MSG(complaints_end(&c) == 0, "a link is dead");
}

int main(void) {
  RUN(planted_links_are_found);
  RUN(links_lead_somewhere);
  return test_done();
}
