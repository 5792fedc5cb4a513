#!/bin/bash
# What a study will do, before anything runs: cells with what they cost, what is impossible or excluded and why, the
# commands of steps, studies by name and files.
. "$(dirname "$0")/lib.sh"
: "${JSON_GET:?path of json_get}"
small_images 60 40
cd "$work" || exit 1
tiny=(vil_nano -D dim=16 -D depth=1 --image 8)

# ---- the table: sizes, time, reasons; nothing is written
expect 0 "$VERTEBRA" ablate "${tiny[@]}" --vary paths=uni,oct --vary heads=2,3 --where 'paths == uni or heads != 2' --dry-run -o plan
says "cell"
says "uni, heads 2"
says "impossible: uni, heads 3: VTB1211: 3 heads do not divide the inner width 32"
says "excluded by --where 'paths == uni or heads != 2': oct, heads 2"
says "1 cell (the whole grid), 2 impossible, 1 excluded; timed in 3 rounds"
[ ! -e plan ] || fail "a dry run has made the folder"
COLUMNS=80 expect 0 "$VERTEBRA" ablate "${tiny[@]}" --vary paths=uni,oct --vary qk_conv=conv2d,causal1d,none --dry-run -o plan
[ "$(printf '%s\n' "$out" | awk 'length($0) > 80' | wc -l)" = 0 ] || fail "wider than 80 columns:
$out"

# ---- a name or value that nothing can use is wrong use, and says what is near
expect 2 "$VERTEBRA" ablate "${tiny[@]}" --vary pahts=uni,bi
says "did you mean 'paths'?"
expect 2 "$VERTEBRA" ablate "${tiny[@]}" --vary paths=uni,quod
says "did you mean 'quad'?"
expect 2 "$VERTEBRA" ablate "${tiny[@]}" --vary paths=uni,bi --where 'pths == uni' --dry-run
says "--where 'pths == uni'"
expect 0 "$VERTEBRA" ablate vil_nano --vary model=vil_nano,vir_nano --where 'model != vir_nano' --dry-run -o plan
says "excluded by --where 'model != vir_nano': vir_nano"
expect 2 "$VERTEBRA" ablate "${tiny[@]}"
says "--vary NAME=A,B"
expect 2 "$VERTEBRA" ablate "${tiny[@]}" --vary paths=uni,bi --pairwise --sample 2
says "exclude each other"
expect 2 "$VERTEBRA" ablate "${tiny[@]}" --vary lr=0.1,0.2
says "--train RECIPE"

# ---- what is decided is said; the plan as a document
expect 0 "$VERTEBRA" ablate "${tiny[@]}" --vary 'mode=chunkwise(4),parallel' --train quick --dry-run -o plan
says "no --data: fashion-mnist"
says "mode is varied as the option --mode"
expect 0 "$VERTEBRA" ablate "${tiny[@]}" --vary paths=uni,bi --train quick --data data --seeds 2 --dry-run --json -o plan
json runs 2 impossible 0 cells.0.status pending cells.1.label bi cells.1.settings.paths bi folder plan

# ---- every option of every command is one that the command has
all=(--entry vil_nano --precision fp32 --target cpu --optimizer sgd --init w --epochs 1 --updates 2 --max-steps 3 --max-seconds 4
  --fit-seconds 5 --lr 1 --final-lr 1 --warmup 1 --warmup-updates 1 --weight-decay 1 --clip 1 --loss-scale 1
  --label-smoothing 0.1 --layer-decay 0.5 --ema 0.9 --shift 1 --flip --erase 0.1 --crop-scale 0.5 --crop 1 --resize pad
  --filter box --mean 0.5 --std 0.5 --limit 10 --val-fraction 0.2 --val-seed 1 --workers 1 --eval-batch 2
  --skip-damaged 1 --batch 2 --chunk 4 --mode chunkwise --threads 1)
expect 0 "$VERTEBRA" ablate vil_nano --image 8 --vary depth=1 "${all[@]}" --train quick --data data --bench-train --dry-run --json -o plan
plan=$out
n=0
for ((k = 0; k < 4; k++)); do
  command=$(printf '%s' "$plan" | "$JSON_GET" cells.0.commands.$k) || fail "four commands are wanted"
  read -r -a words <<< "$command"
  help=$("$VERTEBRA" help "${words[1]}" --json)
  for word in "${words[@]}"; do
    case $word in --*) ;; *) continue ;; esac
    n=$((n + 1))
    case $help in *"\"$word\""*) ;; *) fail "${words[1]} has no option $word: $command" ;; esac
  done
done
[ $n -gt 60 ] || fail "only $n options were looked at"

# ---- a file: kept byte for byte, the command line over it said and stored, errors with their place
cat > study.yaml <<'YAML'
# Why this is done.
title: "Two paths" # of the report
model: vil_nano
D: {dim: 16, depth: 1}
image: 8
vary:
  paths: [uni, {both ways: "[rows, rows~]"}]
YAML
expect 0 "$VERTEBRA" ablate study.yaml --dry-run --json -o plan
json cells.1.label "both ways" cells.1.settings.paths "[rows, rows~]"
printf '%s' "$out" | "$JSON_GET" study > text || fail "no text"
cmp -s <(cat study.yaml) <(head -c "$(stat -c %s study.yaml)" text) || fail "the study's text is another one: $(cat text)"
grep -q overrides text && fail "nothing was overridden"
expect 0 "$VERTEBRA" ablate study.yaml --dry-run --json -o plan --rounds 7
says "replaces or adds to what study.yaml says: rounds"
printf '%s' "$out" | "$JSON_GET" study > text
grep -q '^# Why' text || fail "the comment is gone"
grep -q '^  rounds: 7' text || fail "the option is not stored: $(cat text)"
mkdir -p done/cells
cp study.yaml done
expect 0 "$VERTEBRA" ablate done/ --dry-run
says "goes on in done;"
expect 0 "$VERTEBRA" ablate done/study.yaml --dry-run -o other///
silent_about "goes on"
says "into other"
sed -i s/vary:/vray:/ study.yaml
expect 1 "$VERTEBRA" ablate study.yaml --dry-run
says "study.yaml:6:1: unknown option 'vray'; did you mean 'vary'?"

# ---- studies by name: all that are there can be read, and their models take what they vary
expect 0 "$VERTEBRA" ablate --list
silent_about ".yaml:"
mkdir -p models/studies
printf 'title: Of mine\nmodel: vil_nano\nD: {dim: 16, depth: 1}\nimage: 8\nvary: {paths: [uni]}\n' > models/studies/mine.yaml
VTB_MODELS="$PWD/models:$VTB_MODELS" expect 0 "$VERTEBRA" ablate --list
says "Of mine"
VTB_MODELS="$PWD/models:$VTB_MODELS" expect 0 "$VERTEBRA" ablate mine --dry-run -o plan
says "1 cell (the whole grid)"
