# An excerpt of a text, by the fields of a marker of reading.sh: the lines from the first that matches `from` to the next
# that matches `to` ("}" at the begin of a line if not given), or of them those that match one of `lines`, expressions
# separated by " ; ", with "..." for what is left out. Each expression must match: no excerpt shrinks unseen. What matches
# `drop` is cut from every line; lines of more than 100 columns are broken. In a change each line has its sign.
BEGIN {
  from = ENVIRON["from"]; drop = ENVIRON["drop"]; signed = ENVIRON["signed"]
  to = ENVIRON["to"] == "" ? "^}" : ENVIRON["to"]
  n_wanted = split(ENVIRON["lines"], wanted, / ; /)
}
!begun && $0 ~ from { begun = 1 }
begun && !ended {
  consider($0)
  if (seen++ && $0 ~ to) ended = 1
}
END {
  if (!begun) missing(from)
  if (!ended && !signed) missing(to)
  for (w = 1; w <= n_wanted; w++) if (!(w in hit)) missing(wanted[w])
}

function missing(what) {
  print "no line matches: " what > "/dev/stderr"
  exit 1
}

function consider(line,   w, show) {
  show = n_wanted == 0
  for (w = 1; w <= n_wanted; w++) if (line ~ wanted[w]) show = hit[w] = 1
  if (show && left_out && !signed) print "  ..."
  left_out = !show
  if (!show) return
  if (drop != "") sub(drop, "", line)
  print_broken(line)
}

# Long lines are broken after a comma or before a brace, a type or a comment, never inside a shape.
function print_broken(line,   at, head, indent) {
  match(line, /^[-+]? */)
  indent = substr(line, 1, RLENGTH) "    "
  while (length(line) > 100 && (at = break_of(line, length(indent)))) {
    head = substr(line, 1, at - 1)
    sub(/ +$/, "", head)
    print head
    line = indent substr(line, at + 1)
  }
  print line
}

# The last blank behind column `least` at which a line may be broken, or 0.
function break_of(line, least,   at, depth, c, last) {
  for (at = 1; at <= 100; at++) {
    c = substr(line, at, 1)
    depth += (c == "[") - (c == "]")
    if (c == " " && depth == 0 && at > least &&
        (substr(line, at - 1, 1) == "," || substr(line, at + 1, 1) ~ /[{:\/]/)) last = at
  }
  return last + 0
}
