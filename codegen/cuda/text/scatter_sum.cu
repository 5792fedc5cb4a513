/* y[lead, place, rest] = the sum of x[lead, pick, rest] over the picks whose index is the place, in
 * their order. A block owns ROWS places and COLUMNS of the rest and looks through all picks; of a
 * place a thread owns each ACROSS-th column, so that nobody else adds there. */
hole int PICKS, PLACES, REST;
hole int ROWS, COLUMNS, ACROSS; /* ACROSS divides THREADS */
hole int THREADS;
hole expr x_at, indices_at, y_at; /* offsets for lead, pick, place and rest */
constexpr int SLICES = (REST + COLUMNS - 1) / COLUMNS, PARTS = (PLACES + ROWS - 1) / ROWS;
constexpr int DOWN = THREADS / ACROSS, TILE = 1024;
cost issue = THREADS / 32 * PICKS * 4;
shared int own[TILE]; /* the place of a pick among the block's; -1: another's */
const int slice = vtb_block() % SLICES, part = vtb_block() / SLICES % PARTS,
          lead = vtb_block() / SLICES / PARTS;
const int first = part * ROWS, behind = vtb_min_int(first + ROWS, PLACES);
const int down = vtb_tid() / ACROSS, from = slice * COLUMNS + vtb_tid() % ACROSS,
          to = vtb_min_int((slice + 1) * COLUMNS, REST);
for (int place = first + down; place < behind; place += DOWN)
  for (int rest = from; rest < to; rest += ACROSS) y[${y_at}] = 0.0f;
for (int tile = 0; tile < PICKS; tile += TILE) {
  const int n = vtb_min_int(TILE, PICKS - tile);
  vtb_sync();
  for (int i = vtb_tid(); i < n; i += THREADS) {
    const int pick = tile + i, place = indices[${indices_at}];
    own[i] = place >= first && place < behind ? place - first : -1;
  }
  vtb_sync();
  for (int rest = from; rest < to; rest += ACROSS) {
    int held = -1, place = first;
    float sum = 0.0f;
    for (int i = 0; i < n; i++) {
      const int at = own[i], pick = tile + i;
      if (at < 0 || at % DOWN != down) continue;
      if (at != held) {
        if (held >= 0) y[${y_at}] = sum;
        held = at;
        place = first + at;
        sum = y[${y_at}];
      }
      sum += x[${x_at}];
    }
    if (held >= 0) y[${y_at}] = sum;
  }
}
