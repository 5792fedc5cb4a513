# Counts of a kernel's machine code, from `nvdisasm -c`: a line a kernel, "NAME key=value ...".
#
#   code     instructions
#   step     instructions for 32 HMMA, in the worst loop whose body has four and no smaller such loop, of those that have
#            at least a seventh of the HMMA that the kernel's largest has: others go once over a tile
#   lds      loads from shared memory (LDS, LDSM) for 32 HMMA in that loop
#   nested   loops without HMMA inside it: copies whose number of turns the compiler did not know
#   hgmma    products of warp groups
#   spills   accesses to local memory
#   load16   per cent of the bytes that instructions load from global memory 16 at a time (100 if there are none)
#   store16  the same of stores; store4: at least 4 at a time
#
# A loop is what lies between a label and a branch back to it. Instructions are counted as they stand, whatever branch
# they are in; copies by TMA (UBLKCP, UTMALDG, UTMASTG) count as 16-byte ones.

function width(op) {
  if (op ~ /\.128/) return 16
  if (op ~ /\.64/) return 8
  if (op ~ /\.[SU]?16/) return 2
  if (op ~ /\.[SU]8/) return 1
  return 4
}

function worst(    i, j, b, hmma, among, size, inner, nested, most, largest) {
  most = -1
  largest = 0
  for (b = 1; b <= n_loops; b++) {
    inner_hmma[b] = 0
    hmma = total_hmma[last[b]] - total_hmma[first[b]]
    if (hmma < 4) continue
    inner = 1
    nested = 0
    for (j = 1; j <= n_loops; j++)
      if (j != b && first[j] >= first[b] && last[j] <= last[b] && last[j] - first[j] < last[b] - first[b]) {
        among = total_hmma[last[j]] - total_hmma[first[j]]
        if (among >= 4) inner = 0
        else if (!among) nested++
      }
    if (!inner) continue
    inner_hmma[b] = hmma
    nested_in[b] = nested
    if (hmma > largest) largest = hmma
  }
  for (b = 1; b <= n_loops; b++) {
    if (inner_hmma[b] == 0 || 7 * inner_hmma[b] < largest) continue
    size = 32 * (last[b] - first[b]) / inner_hmma[b]
    if (size <= most) continue
    most = size
    worst_lds = 32 * (total_lds[last[b]] - total_lds[first[b]]) / inner_hmma[b]
    worst_nested = nested_in[b]
  }
  return most
}

function share(part, all) { return all ? int(100 * part / all) : 100 }

function flush(    i, step, line) {
  if (name == "") return
  n_loops = 0
  for (i = 1; i <= n_branches; i++)
    if (target[i] in label && label[target[i]] < from[i]) {
      n_loops++
      first[n_loops] = label[target[i]]
      last[n_loops] = from[i]
    }
  line = name " code=" n
  step = worst()
  if (step >= 0) line = line sprintf(" step=%.0f lds=%.0f nested=%d", step, worst_lds, worst_nested)
  print line " hgmma=" hgmma " spills=" spills " load16=" share(loaded16, loaded) " store16=" share(stored16, stored) \
    " store4=" share(stored4, stored)
}

function begin(of) {
  flush()
  name = of
  n = n_branches = hgmma = spills = loaded = loaded16 = stored = stored16 = stored4 = 0
  split("", label)
  total_hmma[0] = total_lds[0] = 0
}

/^\.text\./ { begin(substr($1, 7, length($1) - 7)); next }
/^\.L[A-Za-z0-9_]*:/ { label[substr($1, 1, length($1) - 1)] = n; next }
$1 ~ /^\/\*[0-9a-f]+\*\/$/ {
  op = $2 ~ /^@/ ? $3 : $2
  if (op == "" || op ~ /^NOP/) next
  n++
  total_hmma[n] = total_hmma[n - 1] + (op ~ /^HMMA/)
  total_lds[n] = total_lds[n - 1] + (op ~ /^LDS(M|\.|$)/)
  if (op ~ /^HGMMA/) hgmma++
  if (op ~ /^(LDL|STL)/) spills++
  if (op ~ /^(LDG|LDGSTS)(\.|$)/) {
    w = width(op)
    loaded += w
    if (w == 16) loaded16 += w
  } else if (op ~ /^STG(\.|$)/) {
    w = width(op)
    stored += w
    if (w == 16) stored16 += w
    if (w >= 4) stored4 += w
  } else if (op ~ /^(UBLKCP|UTMALDG)/) {
    loaded += 16
    loaded16 += 16
  } else if (op ~ /^UTMASTG/) {
    stored += 16
    stored16 += 16
    stored4 += 16
  }
  if (op ~ /BRA/ && match($0, /\.L[A-Za-z0-9_]+/)) {
    n_branches++
    from[n_branches] = n
    target[n_branches] = substr($0, RSTART, RLENGTH)
  }
}
END { flush() }
