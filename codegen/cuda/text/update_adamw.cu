/* One piece of a parameter or buffer after a step that counts: AdamW as runtime/train/optim.c has it (kind 0), or the buffer's
 * new contents (kind 1; 2: without an average), then the average. Regions of the state have one layout. */
hole int THREADS;
hole int AVERAGE, AVERAGE_REST, RATES;        /* numbers of scalars */
hole int BETA1, REST1, BETA2, REST2, EPS, ROOT;
hole code average;                            /* stores the average of now at `at` */
  const vtb_i64 first = (vtb_i64)table[vtb_block() * 4] * 4;
  const int fours = table[vtb_block() * 4 + 1], slot = table[vtb_block() * 4 + 2], kind = table[vtb_block() * 4 + 3];
  if (control[1] == 0.0f) return;
  const float clip = control[0], d = scalars[AVERAGE], d_rest = scalars[AVERAGE_REST];
  const float b1 = scalars[BETA1], c1 = scalars[REST1], b2 = scalars[BETA2], c2 = scalars[REST2];
  const float eps = scalars[EPS], root = scalars[ROOT];
  const float keep = kind == 0 ? scalars[RATES + 2 * slot] : 0.0f;
  const float size = kind == 0 ? scalars[RATES + 2 * slot + 1] : 0.0f;
  for (int i = vtb_tid(); i < fours; i += THREADS) {
    const vtb_i64 at = first + i * 4;
    vtb_f4 now = vtb_load4(g, at);
    if (kind == 0) {
      const vtb_f4 grad = now * clip;
      const vtb_f4 m1 = b1 * vtb_load4(m, at) + c1 * grad, v1 = b2 * vtb_load4(v, at) + c2 * (grad * grad);
      vtb_store4(m, at, m1);
      vtb_store4(v, at, v1);
      now = vtb_load4(p, at) * keep - size * m1 / (vtb_sqrt(v1) * root + eps);
    }
    vtb_store4(p, at, now);
    ${average}
  }
