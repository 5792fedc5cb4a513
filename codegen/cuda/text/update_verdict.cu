/* From the parts of the norm to the verdict (ir/update.h). One block. */
hole int PIECES, THREADS, ROW;        /* of the gradients; ROW: of the table */
hole int SCALE, CLIP;                 /* rows of scalars */
hole int FACTOR, COUNTS, NORM, CULPRIT; /* of the verdict */
shared double lanes[THREADS];
const double total = vtb_sum_parts<THREADS>(lanes, parts, 0, PIECES, 1, 0);
if (vtb_tid() == 0) {
  const double scale = (double)scalars[2 * SCALE] + scalars[2 * SCALE + 1];
  const double bound = (double)scalars[2 * CLIP] + scalars[2 * CLIP + 1];
  const double norm = vtb_sqrt64(total) / scale;
  const float l = loss[0];
  const bool finite = total - total == 0.0, counts = finite && l - l == 0.0f;
  double factor = bound > 0.0 ? bound / (norm + 1e-6) : 1.0;
  if (factor > 1.0) factor = 1.0;
  int culprit = -1;
  for (int i = 0; !finite && culprit < 0 && i < PIECES; i++) {
    const double part = parts[i];
    if (part - part != 0.0) culprit = table[i * ROW + 3];
  }
  verdict[FACTOR] = (float)(factor / scale);
  verdict[COUNTS] = counts ? 1.0f : 0.0f;
  verdict[NORM] = (float)norm;
  verdict[CULPRIT] = (float)culprit;
}
