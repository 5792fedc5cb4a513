/* The checkers of groups: sound groups pass, and with one field broken they say what is wrong. */
#include "passes/fuse/fuse_groups.h"
#include "passes/fuse/group.h"
#include "passes/passes_internal.h"
#include "tests/passes/pass_check.h"

static vtb_module *m;
static vtb_error err;

static vtb_value *value(const char *name) {
  for (const vtb_inst *i = m->entry->first; i; i = i->next)
    if (strcmp(i->results[0]->name, name) == 0) return i->results[0];
  CHECK_MSG(false, "there is no %%%s", name);
  exit(1);
}

/* ---- groups of fuse (passes/fuse/fuse_groups.h)
 * --------------------------------------------------- */

static vtb__groups groups;

static void make_groups(void) {
  m = parse_ir("entry func @f(%x: f32[4]) -> (f32[4]) {\n"
               "  %a = exp %x : f32[4]\n"
               "  %b = neg %a : f32[4]\n"
               "  %c = exp %a : f32[4]\n"
               "  %d = add %b, %c : f32[4]\n"
               "  return %d\n}\n");
  vtb_func_number(m->entry);
  vtb__groups_init(&groups, m->entry);
  CHECK(!vtb__groups_path(&groups, 0, 1, false));
  vtb__groups_join(&groups, 0, 1);
  err = (vtb_error){0};
  CHECK_MSG(vtb__groups_check(&groups, &err) == VTB_OK, "%s", err.text);
}

static void groups_refused(const char *why) {
  err = (vtb_error){0};
  CHECK(vtb__groups_check(&groups, &err) == VTB_E_INTERNAL);
  CHECK_MSG(strstr(err.text, "groups of fuse: ") && strstr(err.text, why), "\"%s\", not \"%s\"",
            err.text, why);
  vtb_module_free(m);
}

TEST(groups_of_fuse) {
  make_groups();
  groups.parent[2] = 3, groups.parent[3] = 2;
  groups_refused("node 2 leads to no group");
  make_groups();
  groups.next[2] = 3;
  groups_refused("group 2 ");
  make_groups();
  groups.last[0] = 0;
  groups_refused("group 0 does not end with node 0");
  make_groups();
  groups.first[3] = groups.last[3] = -1;
  groups_refused("3 of 4 nodes are listed");
  make_groups();
  groups.place[2] = groups.place[3];
  groups_refused("place 2 is not that of group 2");
  make_groups(); /* d where c was */
  groups.at[groups.place[2]] = 3, groups.at[groups.place[3]] = 2;
  int place = groups.place[2];
  groups.place[2] = groups.place[3], groups.place[3] = place;
  groups_refused("group 3 is placed before group ");
}

/* ---- groups that become a kernel (passes/fuse/group.h) --------------------------------------- */

static vtb__group group;

static void make_group(void) {
  m = parse_ir("entry func @f(%x: f32[4]) -> (f32[4]) {\n"
               "  %a = exp %x : f32[4]\n"
               "  %b = neg %a : f32[4]\n"
               "  %c = exp %b : f32[4]\n"
               "  return %c\n}\n"
               "func @g(%x: f32[4]) -> (f32[4]) {\n"
               "  %a = exp %x : f32[4]\n"
               "  return %a\n}\n");
  vtb_func_number(m->entry);
  err = (vtb_error){0};
  group = vtb__group_round(m->entry, value("b")->def);
  CHECK(vtb__group_add(&group, value("c")->def));
  CHECK_MSG(vtb__group_check(&group, &err) == VTB_OK, "%s", err.text);
}

static void group_refused(const char *why) {
  err = (vtb_error){0};
  CHECK(vtb__group_check(&group, &err) == VTB_E_INTERNAL);
  CHECK_MSG(strstr(err.text, why), "\"%s\", not \"%s\"", err.text, why);
  vtb_module_free(m);
}

TEST(groups_of_a_kernel) {
  make_group();
  group.n = 0;
  group_refused("a group of @f has 0 members");
  make_group();
  group.anchor = value("a")->def;
  group_refused("a group of @f is without its anchor");
  make_group();
  group.at[1] = m->entry->next->first;
  group_refused("a group of @f has a exp of @g");
  make_group();
  group.at[1] = group.at[0];
  group_refused("a group of @f has a neg twice");
  make_group();
  vtb_func_set_returns(m->entry, &m->entry->args[0], NULL, 1);
  vtb_inst_unlink(group.at[1]);
  group_refused("a group of @f has a exp that is not in it");
  make_group();
  group.anchor = group.at[0] = value("a")->def; /* %b is between them */
  group_refused("a group of @f has no place between what it reads and what reads it");
}

int main(void) {
  RUN(groups_of_fuse);
  RUN(groups_of_a_kernel);
  return test_done();
}
