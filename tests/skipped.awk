# ctest's output as it comes; before its summary, which stays last, the tests that were skipped, each with what it says of
# it (of LastTest.log, -v last=FILE: a line with "skip", or the last one).
/\*\*\*(Skipped|Not Run)/ {
  name = $0
  sub(/^.*Test +#[0-9]+: /, "", name)
  sub(/ \.*\*\*\*.*$/, "", name)
  skipped[name] = 1
  n_skipped++
}
/^[0-9]+% tests passed/ && n_skipped { print_skipped() }
{ print; fflush() }

function print_skipped(    line, name, reading, names, n, i) {
  while ((getline line <last) > 0) {
    if (line ~ /^[0-9]+\/[0-9]+ Test: /) { name = line; sub(/^[^:]*: /, "", name); reading = 0 }
    else if (line == "<end of output>") reading = 0
    else if (line == "Output:") { reading = 1; getline line <last }
    else if (reading && (name in skipped) && line != "" && (why[name] !~ /[Ss]kip/ || line ~ /[Ss]kip/)) why[name] = line
  }
  print n_skipped " skipped:"
  for (name in skipped) {
    sub(/^ *([Ss]kipped: |SKIP:? )/, "", why[name])
    sub(/: *[Ss]kipped\.?$/, "", why[name])
    names[++n] = "  " name (why[name] == "" ? "" : ": " why[name])
  }
  sort(names, n)
  for (i = 1; i <= n; i++) print names[i]
  print ""
}
function sort(a, n,    i, j, v) {
  for (i = 2; i <= n; i++) {
    v = a[i]
    for (j = i - 1; j > 0 && a[j] > v; j--) a[j + 1] = a[j]
    a[j + 1] = v
  }
}
