# A run that is killed ends in the same bits; 4 times here, `tests/cli/kills.sh 30` on demand.
exec bash tests/cli/kills.sh 4
