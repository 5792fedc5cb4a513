/* One piece of a parameter or buffer after a step that counts: SGD with momentum as runtime/train/optim.c has it (kind 0), or
 * the buffer's new contents (kind 1; 2: without an average), then the average. Regions of the state have one layout. */
hole int THREADS;
hole int AVERAGE, AVERAGE_REST, RATES;        /* numbers of scalars */
hole int MOMENTUM, GAIN, AHEAD, DIRECT;
hole code average;                            /* stores the average of now at `at` */
  const vtb_i64 first = (vtb_i64)table[vtb_block() * 4] * 4;
  const int fours = table[vtb_block() * 4 + 1], slot = table[vtb_block() * 4 + 2], kind = table[vtb_block() * 4 + 3];
  if (control[1] == 0.0f) return;
  const float clip = control[0], d = scalars[AVERAGE], d_rest = scalars[AVERAGE_REST];
  const float mu = scalars[MOMENTUM], gain = scalars[GAIN];
  const float ahead = scalars[AHEAD], direct = scalars[DIRECT];
  const float decay = kind == 0 ? scalars[RATES + 2 * slot] : 0.0f;
  const float rate = kind == 0 ? scalars[RATES + 2 * slot + 1] : 0.0f;
  for (int i = vtb_tid(); i < fours; i += THREADS) {
    const vtb_i64 at = first + i * 4;
    vtb_f4 now = vtb_load4(g, at);
    if (kind == 0) {
      const vtb_f4 value = vtb_load4(p, at), grad = now * clip + decay * value;
      const vtb_f4 m1 = mu * vtb_load4(m, at) + gain * grad;
      vtb_store4(m, at, m1);
      now = value - rate * (direct * grad + ahead * m1);
    }
    vtb_store4(p, at, now);
    ${average}
  }
